"""Running a command on many hosts through gateways: ClusterShell's tree, for more hosts than one machine should ask.

The gateways need ClusterShell for their `python3`, and ssh to the hosts; the hosts need nothing. ClusterShell's own
protocol unpickles what gateways send, so they must be trusted as this machine is.
"""

from __future__ import annotations

import base64
import math
import os
import re
import shlex
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from ClusterShell.Event import EventHandler
from ClusterShell.NodeSet import NodeSet
from ClusterShell.Propagation import RouteResolvingError
from ClusterShell.Task import task_cleanup, task_self
from ClusterShell.Topology import TopologyError, TopologyGraph

from nettune.errors import InputError, NettuneError
from nettune.launch.base import Command, Outcome
from nettune.launch.ssh import OPTIONS, SshLauncher

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = "%host"
# On a gateway. ClusterShell knows no bound of output, and when it gives a host up it kills this shell, but not what the
# shell has started: a watcher does. Its cost grows with the square of what is on the way, hence gzip. The last line has
# the exit status; where it is missing, the rest is, too.
_BOUNDED = (
    "exec 3<&0; {{ {command} <&3 & p=$!; "
    "( exec 3<&- </dev/null >/dev/null 2>&1; while [ -d /proc/$$ ]; do sleep 2; done; kill $p ) & w=$!; "
    "wait $p; r=$?; kill $w; printf '\\n=%%s\\n' $r; }} 2>&1 | head -c {bytes} | gzip -1 | base64 -w0"
)
_GATEWAY_START_S = 60.0
_SHOWN = 2000
_ROOT = "nettune-root"
"""Name of this machine in the tree; it is never reached by it."""


def through_gateways(
    gateways: Sequence[str],
    commands: Sequence[Command],
    timeout_s: float,
    take: Callable[[Outcome], None],
    *,
    fanout: int = 64,
    max_bytes: int = 64 << 20,
    ssh: Sequence[str] = ("ssh", *OPTIONS),
) -> None:
    """Run one command on many hosts, which are shared out over the gateways.

    Args:
        gateways: names that ssh understands.
        commands: all the same, but for words that are the name of their host.
        timeout_s: time for each host.
        take: called with each outcome as soon as it is there; standard error is among standard output.
        fanout: hosts that each gateway asks at the same time.
        max_bytes: of output, for each host.
        ssh: the program and its options.

    Raises:
        InputError: a name that is none for ssh and a shell.
        NettuneError: no gateway can be used.
    """
    for name in (*gateways, *(command.host for command in commands)):
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name[:60]!r} cannot be reached through a gateway: letters, digits, . _ - only"
            )
    words, stdin = _shared(commands)
    results = _Results(commands, take)
    hosts, inner = _set([command.host for command in commands]), _set(gateways)
    graph = TopologyGraph()
    graph.add_route(NodeSet(_ROOT), inner)
    graph.add_route(inner, hosts)
    # Else it is the name of the Python that runs here, which a gateway need not have.
    os.environ.setdefault("CLUSTERSHELL_GW_PYTHON_EXECUTABLE", "python3")
    task = task_self()
    try:
        task.topology = graph.to_tree(_ROOT)
        task.set_info("fanout", fanout)
        task.set_info("ssh_path", shlex.join(ssh))
        # Output is handed on as it comes, and kept nowhere else.
        task.set_default("stdout_msgtree", False)
        over_ssh = SshLauncher([_HOST]).argv(_HOST, words)[1 + len(OPTIONS) :]
        line = shlex.join([*(word.replace("%", "%%") for word in ssh), *over_ssh])
        bounded = _BOUNDED.format(command=line, bytes=max_bytes)
        worker = task.shell(bounded, nodes=hosts, handler=results, timeout=timeout_s, tree=True, remote=False)
        worker.write(stdin)
        worker.set_write_eof()
        rounds = math.ceil(len(hosts) / (fanout * len(inner)))
        task.timer(_GATEWAY_START_S + rounds * timeout_s, handler=results, autoclose=True)
        task.resume()
    except (RouteResolvingError, TopologyError) as error:
        why = results.said_by_gateways[-_SHOWN:] or str(error)
        raise NettuneError(f"no gateway of {', '.join(gateways)[:200]} can be used: {why}") from error
    finally:
        task.abort(kill=True)
        task_cleanup()
    results.give_up()


class _Results(EventHandler):  # type: ignore[misc]  # ClusterShell publishes no types
    """Gathers each host's output and hands its outcome on."""

    def __init__(self, commands: Sequence[Command], take: Callable[[Outcome], None]) -> None:
        EventHandler.__init__(self)
        self._waiting = {command.host: command for command in commands}
        self._printed: dict[str, list[bytes]] = {}
        self._take = take
        self.said_by_gateways = ""
        self._started = time.monotonic()

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:  # noqa: ARG002 (of ClusterShell)
        """A line of a host."""
        if node in self._waiting:
            self._printed.setdefault(node, []).append(msg)
        else:
            self.said_by_gateways += msg.decode(errors="replace") + " "

    def ev_hup(self, worker: Any, node: str, rc: int) -> None:  # noqa: ARG002 (of ClusterShell)
        """A host's command has ended, or the way to it."""
        sent = b"".join(self._printed.pop(node, []))
        try:
            text = zlib.decompress(base64.b64decode(sent, validate=True), wbits=31)
        except (ValueError, zlib.error):
            said = sent[-_SHOWN:].decode(errors="replace") or "its gateway ended or has no gzip and base64"
            self._give(node, rc or os.EX_PROTOCOL, said)
            return
        printed, _, status = text.rpartition(b"\n=")
        whole = status.strip().isdigit()
        self._give(node, int(status) if whole else None, printed.decode(errors="replace"), flooded=not whole)

    def ev_close(self, worker: Any, timedout: bool) -> None:  # noqa: ARG002 (of ClusterShell)
        """Whoever has not ended by now has had his time."""
        self.give_up()

    def ev_timer(self, timer: Any) -> None:
        """A gateway hangs."""
        timer.task.abort()

    def give_up(self) -> None:
        """Hand on that the others did not answer."""
        for node in list(self._waiting):
            self._give(node, None, "")

    def _give(self, node: str, rc: int | None, text: str, *, flooded: bool = False) -> None:
        command = self._waiting.pop(node, None)
        if command is None:
            return
        wall_s = time.monotonic() - self._started
        timed_out = rc is None and not flooded
        said = text[-_SHOWN:] if rc else ""
        self._take(Outcome(node, tuple(command.argv), rc, text, said, timed_out, wall_s, flooded))


def _set(names: Sequence[str]) -> NodeSet:
    return NodeSet.fromlist(list(names))


def _shared(commands: Sequence[Command]) -> tuple[list[str], bytes]:
    """The words and the input of all commands, with `%host` where their host's name stands."""
    forms = {
        (tuple(_HOST if word == one.host else word.replace("%", "%%") for word in _words(one)), one.stdin)
        for one in commands
    }
    if len(forms) != 1:
        raise ValueError("commands through gateways differ in their hosts only")
    words, stdin = next(iter(forms))
    return list(words), stdin or b""


def _words(command: Command) -> list[str]:
    settings = [f"{name}={value}" for name, value in command.env.items()]
    return ["env", *settings, *command.argv] if settings else list(command.argv)
