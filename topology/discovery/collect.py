"""Collect captures from live nodes: the collector's source goes over standard input to a Python on each node.

Nodes without Python get the same questions as a script for their sh.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from nettune.errors import InputError, NettuneError
from nettune.launch.base import Command, Outcome
from topology import shellcollector
from topology.capture import HostCapture

Run = Callable[[Sequence[Command], float], Sequence[Outcome]]
"""Runs commands side by side, each with a time-out in seconds: `functools.partial(nettune.launch.run, launcher)`."""

TIMEOUT_S = 30.0
# The system's own Python is preferred: a version manager's wrapper takes three times as long to start.
_PYTHON = 'p=/usr/bin/python3; [ -x "$p" ] || p=python3; command -v "$p" >/dev/null || exit 42; exec "$p" -I -S - "$@"'
NO_PYTHON = 42
"""Exit status on a node that has no Python: `questions` are asked again without."""


class CollectError(NettuneError):
    """Some nodes gave no capture.

    Attributes:
        failed: node -> why.
        captures: those of the other nodes.
    """

    def __init__(self, failed: Mapping[str, str], captures: Sequence[HostCapture], details: str) -> None:
        first = next(iter(failed))
        others = f" ({len(failed)} nodes failed: {', '.join(failed)[:200]})" if len(failed) > 1 else ""
        super().__init__(f"{first} gave no capture: {failed[first]}{others}", details)
        self.failed = dict(failed)
        self.captures = list(captures)


def collect(
    run: Run,
    nodes: Sequence[str],
    *,
    roles: Mapping[str, str] | None = None,
    extent: str = "routes",
    timeout_s: float = TIMEOUT_S,
) -> list[HostCapture]:
    """Captures of nodes, in their order.

    Args:
        run: how commands are run; it bounds how many nodes are asked at once.
        nodes: names that `run` knows.
        roles: node -> `host` or `switch`; nodes left out are switches where net.ipv4.ip_forward is 1.
        extent: `routes`, what layer-3 discovery needs, or `all`, as in `topology.collector`.
        timeout_s: time for each node.

    Raises:
        CollectError: nodes that could not be reached, or answered something else; it keeps the
            captures of the others.
    """
    outcomes = dict(zip(nodes, run(questions(nodes, roles, extent), timeout_s), strict=True))
    bare = [node for node in nodes if outcomes[node].rc == NO_PYTHON]
    if bare:
        outcomes |= zip(bare, run(questions(bare, roles, extent, python=False), timeout_s), strict=True)
    captures: list[HostCapture] = []
    failed: dict[str, str] = {}
    details: list[str] = []
    for node, outcome in outcomes.items():
        try:
            captures.append(read_outcome(node, outcome, timeout_s))
        except NettuneError as error:
            failed[node] = str(error).removeprefix(f"{node}: ")
            details.append(f"{node}: {outcome.stderr}")
    if failed:
        raise CollectError(failed, captures, "\n".join(details))
    return captures


def questions(
    nodes: Sequence[str],
    roles: Mapping[str, str] | None = None,
    extent: str = "routes",
    *,
    python: bool = True,
) -> list[Command]:
    """The command that makes each node print its capture, for `read_outcome`; arguments as for `collect`."""
    words = ("sh", "-c", _PYTHON, "sh") if python else ("sh", "-s")
    source = collector_source() if python else shellcollector.script(extent)
    roles = roles or {}
    return [Command(node, [*words, node, roles.get(node, "auto"), extent], stdin=source) for node in nodes]


@cache
def collector_source() -> bytes:
    """Source of `topology/collector.py`, as it is sent to the nodes."""
    return files("topology").joinpath("collector.py").read_bytes()


def read_outcome(node: str, outcome: Outcome, timeout_s: float) -> HostCapture:
    """The capture that the collector printed on a node.

    Raises:
        NettuneError: the node did not answer, or refused.
        InputError: it printed no capture.
    """
    last = outcome.stderr.strip().splitlines()[-1:] or ["it said nothing"]
    if outcome.flooded:
        raise NettuneError(f"{node}: printed without end; stopped")
    if outcome.timed_out:
        raise NettuneError(f"{node}: no answer within {timeout_s:g} s")
    if outcome.rc == 127:
        raise NettuneError(f"{node}: no sh there ({last[0][:200]}); nothing can be asked of it")
    if outcome.rc != 0:
        raise NettuneError(f"{node}: exit status {outcome.rc}: {last[0][:300]}")
    # A login shell may have greeted first.
    printed = outcome.stdout.rstrip().rpartition("\n")[2]
    if printed == shellcollector.END:
        try:
            return _checked(node, shellcollector.read_printed(outcome.stdout))
        except InputError as error:
            raise InputError(f"{node}: {error}") from error
    try:
        data = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{node}: printed no capture ({error}); was its output cut?") from error
    if not isinstance(data, dict):
        raise InputError(f"{node}: printed no capture but {outcome.stdout[:60]!r}")
    return _checked(node, HostCapture.from_json(data))


def _checked(node: str, capture: HostCapture) -> HostCapture:
    if capture.host != node:
        raise InputError(f"{node}: printed the capture of {capture.host!r}")
    return capture
