"""What is said of ranks that did not answer: who, where, why, and what they were doing."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from nettune.errors import NettuneError, UnavailableError

LOG_LINES = 50
"""Last lines of a rank's output that an error keeps."""

_INSTALL = {"torch": "pip install 'nettune[train]'", "mpi4py": "pip install 'nettune[mpi]'"}
_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)$')


@dataclass(frozen=True)
class RankState:
    """How one rank stood when a call failed.

    Attributes:
        rank: its number.
        host: where it runs.
        state: `done` answered; `raised` its function raised; `died` its process ended; `hung` it did not
            answer in time; `stopped` it had not answered when another rank's failure ended the call.
        message: one line about it; empty for `done`.
        traceback: of the exception it raised, or the stacks of its threads when it was stopped.
        log: last lines of its standard output and error.
    """

    rank: int
    host: str
    state: Literal["done", "raised", "died", "hung", "stopped"]
    message: str = ""
    traceback: str = ""
    log: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"rank {self.rank} on {self.host}: {self.state}" + (f": {self.message}" if self.message else "")
        ]
        if self.traceback:
            parts.append(self.traceback.rstrip())
        if self.log:
            parts.append("last lines of its output:")
            parts += [f"[rank {self.rank} {self.host}] {line}" for line in self.log]
        return "\n".join(parts)


class AgentError(NettuneError):
    """A call, or the start, of rank agents failed.

    Attributes:
        states: of every rank that took part.
        ranks: ranks that raised, died or hung (not those stopped because of them), the first to fail first.
        details: tracebacks, stacks and last lines of output of all ranks that did not finish, and `notes`, what the
            process that holds them said.
    """

    def __init__(
        self, message: str, states: Sequence[RankState], ranks: Sequence[int], notes: Sequence[str] = ()
    ) -> None:
        told = [str(state) for state in states if state.state != "done"]
        super().__init__(message, "\n\n".join([*told, *(["\n".join(notes)] if notes else [])]))
        self.states = tuple(states)
        self.ranks = tuple(ranks)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of `ranks`, in the same order, each once."""
        host = {state.rank: state.host for state in self.states}
        return tuple(dict.fromkeys(host[rank] for rank in self.ranks))


def describe_exit(status: int | None) -> str:
    """An exit status (negative for a signal) in words."""
    if status is None:
        return "was lost"
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = " (out of memory? see dmesg)" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def import_failure(frame: Mapping[str, Any]) -> NettuneError:
    """The error for a module that could not be imported before the first call."""
    details = str(frame["traceback"])
    if frame["missing"] is None:
        return NettuneError(f"importing {frame['failed']} in the agents failed: {frame['message']}", details)
    package = str(frame["missing"]).partition(".")[0]
    advice = _INSTALL.get(package, f"install the package that has {package}")
    return UnavailableError(
        f"the agents need the Python module {frame['missing']}, which is missing: {advice}", details
    )


def innermost(stack: Iterable[str]) -> str:
    """`function (file:line)` where a rank's stopped thread was, from the lines of a dump; empty if unknown."""
    found = ""
    take = False
    for line in stack:
        # The signal is handled by the main thread unless that has blocked it; its stack is the "current" one.
        if line.startswith("Current thread"):
            take = True
        elif take or not found:
            match = _FRAME.match(line)
            if match:
                found = f"{match['function']} ({PurePath(match['file']).name}:{match['line']})"
                if take:
                    return found
    return found


def whole(stack: Iterable[str]) -> bool:
    """A dump of stacks is complete: the outermost frame of the main thread, which comes last, is there."""
    return any(line.endswith("in _run_module_as_main") for line in stack)


def own_frames(stack: Iterable[str]) -> list[str]:
    """A dump of stacks without the frames of the agent that stand below the work function."""
    kept = []
    below = False
    for line in stack:
        match = _FRAME.match(line)
        if match is None:
            below = False
        elif match["function"] == "_answer" and match["file"].endswith("nettune/launch/agent.py"):
            below = True
        if not below:
            kept.append(line)
    return kept


def ranges(ranks: Iterable[int]) -> str:
    """Ranks in short: `0-2,5`."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def named(ranks: Sequence[int], placement: Sequence[str]) -> str:
    """Ranks with their hosts: `rank 3 on h5`, or `ranks 0-2,5 (h0 h1 h2 h5)`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]} on {placement[ranks[0]]}"
    hosts = list(dict.fromkeys(placement[rank] for rank in ranks))
    shown = " ".join(hosts[:8]) + (f" and {len(hosts) - 8} more hosts" if len(hosts) > 8 else "")
    return f"ranks {ranges(ranks)} ({shown})"


def headline(
    states: Sequence[RankState],
    order: Sequence[int],
    placement: Sequence[str],
    where: Mapping[int, str],
    timeout_s: float,
) -> str:
    """The one line of an `AgentError`.

    Args:
        states: of every rank that took part.
        order: ranks that raised or died, in the order in which they told.
        placement: host of each rank.
        where: what each hung rank was doing, as `innermost` says it.
        timeout_s: the time that was allowed.
    """
    by_rank = {state.rank: state for state in states}
    hung = [state.rank for state in states if state.state == "hung"]
    done = [state.rank for state in states if state.state == "done"]
    stopped = [state.rank for state in states if state.state == "stopped"]
    notes: list[str] = []
    if order:
        first = by_rank[order[0]]
        text = f"rank {first.rank} on {first.host} {first.message}"
        if len(order) > 1:
            notes.append(f"then also {named(sorted(order[1:]), placement)}")
    else:
        text = f"{named(hung, placement)} did not answer within {timeout_s:g} s"
        places: dict[str, list[int]] = {}
        for rank in hung:
            if where.get(rank):
                places.setdefault(where[rank], []).append(rank)
        if len(places) == 1 and len(hung) == len(next(iter(places.values()))):
            text += f", in {next(iter(places))}"
        elif places:
            notes += [f"{_short(group)} in {place}" for place, group in places.items()]
    if stopped:
        notes.append(f"stopped: {ranges(stopped)}")
    if done:
        notes.append(
            f"others: {'done' if len(done) + len(hung) + len(order) == len(states) else ranges(done) + ' done'}"
        )
    return text + (f" ({'; '.join(notes)})" if notes else "")


def _short(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"
