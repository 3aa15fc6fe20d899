"""Lines in which nccl-tests or a launcher tell that a rank failed.

nccl-tests src/common.h (CUDACHECK, NCCLCHECK, TESTCHECK: host, process id, file and line), src/common.cu (time-out, number
of GPUs); mpirun of Open MPI 4 and 5 (PRRTE), Hydra, srun, as they print it. A message of nccl-tests may stand behind half
a row, without a line end between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from collectives.nccl_tests.result import Device, Failure

EXIT_MEANINGS = {
    1: "wrong results, a missed minimum bandwidth (up to nccl-tests 2.17.4), or a failure",
    2: "a CUDA call failed",
    3: "a call of NCCL failed",
    4: "its own time-out (-T)",
    5: "fewer GPUs than asked for",
    7: "wrong results, or a missed minimum bandwidth (NCCL_TESTS_MIN_BW)",
    126: "the program cannot be run",
    127: "the program was not found",
    137: "killed (128 + 9), often by the out-of-memory killer",
    139: "segmentation fault (128 + 11)",
    143: "terminated (128 + 15)",
    255: "a bad option or size, or the launcher's own failure",
}
"""Exit codes of nccl-tests 2.19.6 and of shells (field tests of every failure)."""

_OWN = re.compile(
    r"(?:(?P<host>[\w.-]{1,255}): )?Test (?:(?P<kind>CUDA|NCCL) failure (?P<at>[\w./-]+:\d+) '(?P<why>[^']*)'?"
    r"|timeout \((?P<seconds>\d+)s\))"
)
_TRACE = re.compile(r" ?\.\. (?P<host>\S{1,255}) pid (?P<pid>\d{1,10}): Test failure (?P<at>\S+)")
_GPUS = re.compile(r"Invalid number of GPUs: (\d+) requested but only (\d+) were found")
_LAUNCHERS = (
    # Open MPI 4 and 5
    re.compile(
        # the message is wrapped, so that the signal may stand on the next line
        r"(?:mpirun|mpiexec|prterun|prun)\S* noticed that process rank (?P<rank>\d{1,7}) with PID \d+ on node"
        r" (?P<host>[^\s,]+)(?: exited(?: on(?: (?P<why>signal \d+(?: \([^)]*\))?))?)?)?"
    ),
    re.compile(r"Process name:\s+\[(?:\[[^\]]{0,200}\]|[^\],]{0,200}),(?P<rank>\d{1,7})\]"),
    # Hydra
    re.compile(r"=\s+RANK (?P<rank>\d{1,7}) PID \d+ RUNNING AT (?P<host>\S+)"),
    # 4.0.2 gives the process id of a host's first rank, whichever died (seen here): it names no rank
    re.compile(r"=\s+PID \d{1,10} RUNNING AT (?P<host>\S+)"),
    # srun
    re.compile(r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d{1,7})[\d,-]*: (?P<why>.{1,200})"),
)
_HINTS = ("Test ", "Invalid number", "noticed that", "Process name:", "RUNNING AT", "srun: error", "USAGE: ")
"""Of which every line of a failure has one, but for `_ERROR`."""
_FOLLOWS = ": Terminated"
"""What srun says of the ranks that it ends because another one died."""
_USAGE = re.compile(r"USAGE: (\S+_perf)\b")
_ERROR = re.compile(r"#\s*error\s*:\s*(\S.*)", re.IGNORECASE)


def cut(text: str, hosts: Sequence[str] = ()) -> int | None:
    """Where a message of failure begins on a line; None where there is none.

    Half a row may stand before it, `float     sum      -1vm: Test ..`: the host's name follows the root at once. A name that
    the head lists decides; without one a -1 is the root's.
    """
    found = _OWN.search(text)
    if found is None:
        return None
    host = found["host"]
    if host is None:
        return found.start()
    known = next((name for name in hosts if host.endswith(name)), None)
    if known is not None:
        return found.start() + len(host) - len(known)
    return found.start() + 2 * (re.match(r"-1[A-Za-z]", host) is not None)


def failure(text: str, line: int, rank: int | None, devices: Sequence[Device]) -> Failure | None:
    """What a line tells of a failure; None where it tells none.

    Args:
        text: the line without labels.
        line: its number.
        rank: out of a label.
        devices: by which a process id becomes a rank.
    """
    if not any(map(text.__contains__, _HINTS)) and _ERROR.match(text) is None:
        return None  # nearly all lines, of which a log may have millions
    begin = cut(text, [device.host for device in devices]) if "Test " in text else None
    if begin is not None and (own := _OWN.match(text, begin)) is not None:
        kind = (own["kind"] or "timeout").lower()
        why = own["why"] if own["kind"] else f"no progress for {own['seconds']} s"
        host = own["host"] or ""
        return Failure(kind, f"{own['kind'] or 'time-out'}: {why.strip(' /')[:200]}", line, host, rank)
    if (trace := _TRACE.search(text)) is not None:
        host = trace["host"]
        named = rank if rank is not None else _rank_of(devices, host, trace["pid"])
        return Failure("trace", f"failed at {trace['at']}", line, host, named)
    if (gpus := _GPUS.search(text)) is not None:
        return Failure("gpus", f"{gpus[1]} GPUs were asked for, {gpus[2]} are there", line, rank=rank)
    for pattern in _LAUNCHERS:
        if (told := pattern.search(text)) is not None and not text.rstrip().endswith(_FOLLOWS):
            groups = told.groupdict()
            host, number = groups.get("host") or "", groups.get("rank")
            named = None if number is None else int(number)
            return Failure(
                "launcher", (groups.get("why") or "killed, or ended with an error").strip(), line, host, named
            )
    if (usage := _USAGE.search(text)) is not None:
        return Failure("usage", f"{usage[1]} printed its usage: it does not know an option", line, rank=rank)
    if (error := _ERROR.match(text)) is not None:
        return Failure("error", error[1][:200], line, rank=rank)
    return None


def _rank_of(devices: Sequence[Device], host: str, pid: str) -> int | None:
    """The rank of a process; None where it is not listed, or has many GPUs and so many ranks."""
    short = host.split(".", maxsplit=1)[0]
    found = [one.rank for one in devices if one.pid == int(pid) and one.host.split(".")[0] == short]
    return found[0] if len(found) == 1 else None
