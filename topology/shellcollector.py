"""The collector for a node without Python: a POSIX sh script made of the same lists, and what reads its output.

The script prints one record a source: a line `= KIND STATE NAME`, then the text, then the note, each line of them
behind `|` or `!`; a last line `= end` tells that nothing was cut. Base 64, JSON and awk are not needed for that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology import collector
from topology.capture import Captured, CaptureState, HostCapture

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCRIPT = r"""
# NAME ROLE: see topology/shellcollector.py. Reads only.
LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/sbin:/sbin:/usr/bin:/bin"; export PATH
wait_for=; command -v timeout >/dev/null 2>&1 && wait_for='timeout {timeout_s}'
name=$1; role=$2
[ "$name" = - ] && name=$(cat /proc/sys/kernel/hostname 2>/dev/null || uname -n)
if [ "$role" = auto ]; then
  role=host; [ "$(cat /proc/sys/net/ipv4/ip_forward 2>/dev/null)" = 1 ] && role=switch
fi
printf '= nettune-capture-sh 1 %s %s\n' "$role" "$name"
said() {{ # KIND STATE NAME TEXT NOTE
  printf '= %s %s %s\n' "$1" "$2" "$3"
  [ -n "$4" ] && printf '%s\n' "$4" | sed 's/^/|/'
  [ -n "$5" ] && printf '%s\n' "$5" | sed 's/^/!/'
}}
file() {{
  if [ ! -e "$1" ]; then said file absent "$1" '' 'No such file or directory'
  elif [ ! -r "$1" ]; then said file denied "$1" '' 'Permission denied'
  elif text=$(head -c {file_bytes} "$1" 2>/dev/null); then said file ok "$1" "$text" ''
  else said file error "$1" "$text" 'could not be read'
  fi
}}
run() {{
  program=${{1%% *}}
  if ! command -v "$program" >/dev/null 2>&1; then
    said command absent "$1" '' "$program: No such file or directory"; return
  fi
  # Standard output and error are told apart without a temporary file: a command that failed is asked again for why.
  text=$({{ $wait_for $1 2>/dev/null </dev/null; printf '\n=%s' $?; }} | head -c {command_bytes})
  state=ok; note=
  case $text in
    *'
=0') text=${{text%?=0}} ;;
    *)
      text=${{text%?=*}}
      note=$($wait_for $1 2>&1 >/dev/null </dev/null); status=$?
      state=error
      case $status in
        0) note='printed more than {command_bytes} bytes; cut' ;;
        124) note='no end after {timeout_s} s; stopped' ;;
      esac
      case $note in *[Pp]'ermission denied'*|*[Oo]'peration not permitted'*) state=denied ;; esac
      [ -n "$note" ] || note="exit status $status" ;;
  esac
  said command $state "$1" "$text" "$note"
}}
{commands}
{files}
{patterns}
printf '= end\n'
"""
END = "= end"
"""Last line of a whole capture."""

_HEADER = re.compile(r"= nettune-capture-sh 1 (host|switch) (\S+)")
_RECORD = re.compile(r"= (file|command) (ok|absent|denied|error) (.+)")


def script(extent: str = "routes") -> bytes:
    """The script for `sh -s NAME ROLE`.

    Args:
        extent: `routes` or `all`, as for `topology.collector`. The links and GIDs of `all` need Python and are left out.
    """
    everything = extent == "all"
    commands = [*collector.COMMANDS, *(collector.MORE_COMMANDS if everything else ())]
    files = [*collector.FILES, *(path for path in collector.MORE_FILES if everything and "*" not in path)]
    patterns = ["/sys/class/net/*/address", "/sys/class/net/*/speed"]
    patterns += [path for path in collector.MORE_FILES if everything and "*" in path]
    of_interface = [line for line in collector.COMMANDS_OF_INTERFACE if everything]
    lines = [f"run '{line}'" for line in commands]
    lines += ["for i in $(tc qdisc 2>/dev/null | sed -n 's/^qdisc htb .* dev \\([^ ]*\\) root.*/\\1/p'); do"]
    lines += ['  run "tc class show dev $i"', "done"]
    if of_interface:
        lines += [
            "for d in /sys/class/net/*/device; do",
            '  [ -e "$d" ] || continue',
            "  i=${d%/device}; i=${i##*/}",
        ]
        lines += [f'  run "{line.format("$i")}"' for line in of_interface]
        lines += ["done"]
    text = _SCRIPT.format(
        timeout_s=int(collector.TIMEOUT_S),
        file_bytes=collector.FILE_BYTES,
        command_bytes=collector.COMMAND_BYTES,
        commands="\n".join(lines),
        files="\n".join(f"file '{path}'" for path in files),
        patterns="\n".join(f'for f in {path}; do [ -f "$f" ] && file "$f"; done' for path in patterns),
    )
    return text.encode()


def read_printed(text: str) -> HostCapture:
    """The capture that the script printed.

    Raises:
        InputError: something else, or cut short.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    if start is None:
        raise InputError("printed no capture")
    header = _HEADER.fullmatch(lines[start])
    if header is None or lines[-1] != END:
        raise InputError("its capture was cut short: its last line is missing")
    tables: dict[str, dict[str, Captured]] = {"file": {}, "command": {}}
    for kind, state, name, body in _records(lines[start + 1 : -1]):
        content = "".join(f"{line[1:]}\n" for line in body if line.startswith("|"))
        note = " ".join(line[1:] for line in body if line.startswith("!"))
        tables[kind][name] = Captured(CaptureState(state), content, note[:2000])
    return HostCapture(header[2], header[1], tables["file"], tables["command"])


def _records(lines: Iterable[str]) -> Iterable[tuple[str, str, str, list[str]]]:
    record: tuple[str, str, str, list[str]] | None = None
    for line in lines:
        if line.startswith(("|", "!")) and record is not None:
            record[3].append(line)
            continue
        match = _RECORD.fullmatch(line)
        if match is None:
            raise InputError(f"its capture has a line that belongs to nothing: {line[:60]!r}")
        if record is not None:
            yield record
        record = (match[1], match[2], match[3], [])
    if record is not None:
        yield record
