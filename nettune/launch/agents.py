"""Persistent rank agents: one process per rank that stays, keeps what it imported, and takes calls."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from nettune.errors import NettuneError
from nettune.launch.base import Launcher
from nettune.launch.failures import (
    LOG_LINES,
    AgentError,
    RankState,
    describe_exit,
    headline,
    import_failure,
    innermost,
    named,
    own_frames,
    whole,
)
from nettune.launch.forked import ForkedRanks
from nettune.launch.frames import encode
from nettune.launch.piped import PipedRanks
from nettune.launch.transport import Notice, Plan, Transport, left

_GRACE_S = {"raised": 2.0, "died": 0.5}
"""After one rank's failure the others get so long to answer; then they are taken to wait for it in vain."""

_DUMP_S = 1.5
"""A rank that is to be stopped gets at most so long to write its stacks."""

_QUIET_S = 0.3
"""A dump of stacks that has begun is taken to have ended when nothing came for so long."""

DUMP_SIGNAL = signal.SIGUSR1
"""Signal that makes a rank write its stacks; `nettune.launch.agent` has the same."""

OnEvent = Callable[[int, dict[str, Any]], None]


class _Call:
    """One call while it runs: who has still to answer, and what the others said."""

    def __init__(self, number: int, ranks: Sequence[int], on_event: OnEvent | None) -> None:
        self.number = number
        self.ranks = list(ranks)
        self.on_event = on_event
        self.pending = set(ranks)
        self.results: dict[int, Any] = {}
        self.failed: dict[int, RankState] = {}


class Agents:
    """One process per rank, which stays between calls; a context manager.

    Module globals of a rank's process keep their values from one call to the next. Nothing survives the end of the
    `with` block, an exception, Ctrl-C, or the death of this process by SIGKILL.

    Args:
        launcher: how to reach the hosts.
        placement: host of each rank.
        preload: modules to import before the first call (once, where ranks can be forked).
        env: additional environment of every rank, or a function of the rank that gives it. It is set before the
            first call but after the imports.
        threads: threads that numeric libraries (OpenMP, OpenBLAS, MKL, torch) use in each rank.
        python: interpreter on the hosts.
        start_timeout_s: time for the start with its imports, in seconds.
        transport: ranks that run already; nothing is started then.

    Raises:
        UnavailableError: a preloaded module or a program of the launcher is missing.
        AgentError: a rank could not start; it is named.
        NettuneError: the launcher does not know a host.
    """

    def __init__(
        self,
        launcher: Launcher,
        placement: Sequence[str],
        preload: Sequence[str] = (),
        env: Mapping[str, str] | Callable[[int], Mapping[str, str]] | None = None,
        threads: int = 1,
        *,
        python: str = sys.executable,
        start_timeout_s: float = 120.0,
        transport: Transport | None = None,
    ) -> None:
        self.placement = tuple(placement)
        own = [dict(env(rank) if callable(env) else env or {}) for rank in range(len(self.placement))]
        plan = Plan(self.placement, tuple(preload), own, threads, python, os.urandom(8).hex())
        self.mark = plan.mark
        self._logs = [deque[str](maxlen=LOG_LINES) for _ in self.placement]
        # While a rank writes the stacks of its threads, its output goes here.
        self._stacks: dict[int, deque[str]] = {}
        self._own_log: list[str] = []
        self._dead: dict[int, str] = {}
        self._calls = 0
        self._closed = False
        if transport is None:
            root = launcher.root_argv(plan.command("forked"))
            transport = PipedRanks(launcher, plan) if root is None else ForkedRanks(launcher, root, plan)
        self._transport = transport
        try:
            self._start(time.monotonic() + start_timeout_s, start_timeout_s)
        except BaseException:
            self._transport.close(0.0)
            self._closed = True
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all ranks and every process they started; safe to call twice."""
        if not self._closed:
            self._closed = True
            # Idle ranks leave at once when their socket closes; the time is for a busy machine.
            self._transport.close(1.0)

    def call(
        self,
        function: str,
        kwargs: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None = None,
        ranks: Sequence[int] | None = None,
        timeout_s: float = 60.0,
        on_event: OnEvent | None = None,
    ) -> list[Any]:
        """Run `function` on ranks at the same time and collect what it returns.

        When a rank raises or dies, the others have a moment to answer; those that do not are stopped, because
        ranks of one collective wait for each other. Stopped ranks take no more calls.

        Args:
            function: "package.module:function", called in each rank as `function(**kwargs)`. Its result must be
                JSON-able (tuples come back as lists); arrays and tensors come back as lists.
            kwargs: JSON-able arguments for all ranks, or a function of the rank that gives them.
            ranks: which ranks; None means all.
            timeout_s: time for all of them together, in seconds.
            on_event: called here with (rank, event) for each `nettune.launch.agent.emit`, while the call runs.

        Returns:
            Results in the order of `ranks`.

        Raises:
            TypeError: the arguments are not JSON.
            AgentError: a rank raised, died, or did not answer in time; the line names it and its host.
        """
        chosen = list(range(len(self.placement))) if ranks is None else list(ranks)
        self._check(chosen)
        self._calls += 1
        call = _Call(self._calls, chosen, on_event)
        requests = []
        for rank in chosen:
            given = kwargs(rank) if callable(kwargs) else kwargs or {}
            requests.append((rank, encode({"id": call.number, "function": function, "kwargs": dict(given)})))
        started: list[int] = []
        try:
            for rank, request in requests:
                self._transport.send(rank, request)
                started.append(rank)
            self._wait(call, time.monotonic() + timeout_s)
        except BaseException:
            # Ctrl-C, or on_event raised: the ranks are still busy with a call that nobody waits for.
            self._stop(call.pending.intersection(started), "was stopped in the middle of a call")
            raise
        if call.failed or call.pending:
            raise self._failure(call, timeout_s)
        return [call.results[rank] for rank in chosen]

    def _check(self, ranks: Sequence[int]) -> None:
        if self._closed:
            raise NettuneError("these agents are closed: start new ones")
        unknown = [rank for rank in ranks if not 0 <= rank < len(self.placement)]
        if unknown or len(set(ranks)) != len(ranks):
            raise NettuneError(
                f"ranks must be different numbers below {len(self.placement)}, not {list(ranks)}"
            )
        for notice in self._transport.poll(0.0):
            self._note(notice)
        dead = [rank for rank in ranks if rank in self._dead]
        if dead:
            states = [self._state(rank, "died", f"{self._dead[rank]} before this call") for rank in dead]
            raise AgentError(headline(states, dead, self.placement, {}, 0.0), states, dead)

    def _wait(self, call: _Call, deadline: float) -> None:
        while call.pending:
            # Read once more after the end: answers may have come while on_event kept us busy.
            last = left(deadline) == 0
            unhurt = not call.failed
            for notice in self._transport.poll(left(deadline)):
                self._note(notice)
                self._take(call, notice)
            if last:
                return
            if call.failed and unhurt:
                first = next(iter(call.failed.values()))
                deadline = min(deadline, time.monotonic() + _GRACE_S[first.state])

    def _note(self, notice: Notice) -> None:
        """Keep what concerns the ranks rather than one call: output and deaths."""
        if notice.kind == "log":
            if notice.rank is None:
                self._own_log = [*self._own_log, notice.payload][-LOG_LINES:]
                return
            self._stacks.get(notice.rank, self._logs[notice.rank]).append(notice.payload)
        elif notice.kind == "exited" and notice.rank is not None:
            self._dead.setdefault(notice.rank, describe_exit(notice.payload))
        elif notice.kind == "down":
            for rank in range(len(self.placement)):
                self._dead.setdefault(rank, f"is lost: {notice.payload}")

    def _take(self, call: _Call, notice: Notice) -> None:
        """Apply a notice to the call."""
        rank = notice.rank
        if notice.kind == "frame" and rank in call.pending and notice.payload.get("id") == call.number:
            assert rank is not None
            frame = notice.payload
            if "event" in frame:
                if call.on_event is not None:
                    call.on_event(rank, frame["event"])
                return
            call.pending.discard(rank)
            if "error" in frame:
                error = frame["error"]
                message = f"raised {error['type']}" + (f": {error['message']}" if error["message"] else "")
                call.failed[rank] = self._state(rank, "raised", message, error["traceback"])
            else:
                call.results[rank] = frame["result"]
        elif notice.kind in {"exited", "down"}:
            for gone in sorted(call.pending & self._dead.keys()):
                call.pending.discard(gone)
                call.failed[gone] = self._state(gone, "died", self._dead[gone])

    def _failure(self, call: _Call, timeout_s: float) -> AgentError:
        order = list(call.failed)
        stopped = sorted(call.pending)
        # Words that a rank said before it failed may have come on their pipe after its frame came on the socket.
        for notice in self._transport.poll(0.0):
            self._note(notice)
        self._dump(stopped)
        why = "did not answer in time" if not order else f"was stopped because rank {order[0]} failed"
        self._stop(stopped, why)
        kind: Literal["hung", "stopped"] = "stopped" if order else "hung"
        states = []
        for rank in call.ranks:
            if rank in call.failed:
                states.append(replace(call.failed[rank], log=tuple(self._logs[rank])))
            elif rank in call.pending:
                stack = "\n".join(own_frames(self._stacks[rank]))
                states.append(self._state(rank, kind, why, stack))
            else:
                states.append(RankState(rank, self.placement[rank], "done"))
        where = {rank: innermost(self._stacks[rank]) for rank in stopped}
        self._stacks.clear()
        text = headline(states, order, self.placement, where, timeout_s)
        return AgentError(text, states, order or stopped, self._own_log)

    def _state(
        self,
        rank: int,
        state: Literal["raised", "died", "hung", "stopped"],
        message: str,
        traceback: str = "",
    ) -> RankState:
        return RankState(rank, self.placement[rank], state, message, traceback, tuple(self._logs[rank]))

    def _dump(self, ranks: Sequence[int]) -> None:
        """Ask ranks for the stacks of their threads, as far as they can still give them."""
        self._stacks = {rank: deque[str]() for rank in ranks}
        for rank in ranks:
            self._transport.signal(rank, DUMP_SIGNAL)
        deadline = time.monotonic() + _DUMP_S
        quiet_at = deadline
        waiting = set(ranks)
        while waiting and left(deadline) > 0:
            for notice in self._transport.poll(min(left(deadline), left(quiet_at))):
                self._note(notice)
                quiet_at = time.monotonic() + _QUIET_S
            waiting = {rank for rank in waiting if not whole(self._stacks[rank])} - self._dead.keys()
            if left(quiet_at) == 0 and all(self._stacks[rank] for rank in waiting):
                # Stacks too deep to be written to their end have no end to be seen.
                return
            if left(quiet_at) == 0:
                quiet_at = deadline

    def _stop(self, ranks: Iterable[int], why: str) -> None:
        for rank in ranks:
            self._dead.setdefault(rank, why)
            self._transport.kill(rank)

    def _start(self, deadline: float, timeout_s: float) -> None:
        self._transport.start()
        waiting = set(range(len(self.placement)))
        while waiting:
            if left(deadline) == 0:
                late = sorted(waiting)
                states = [self._state(rank, "hung", "did not start in time") for rank in late]
                text = f"{named(late, self.placement)} did not start within {timeout_s:g} s"
                raise AgentError(text, states, late)
            for notice in self._transport.poll(left(deadline)):
                self._note(notice)
                if notice.kind == "failed" or (notice.kind == "frame" and "failed" in notice.payload):
                    raise import_failure(notice.payload)
                if notice.kind == "down":
                    # No rank runs yet that could be named; the last words are the launcher's or Python's.
                    text = _with_last(f"the agents did not start: {notice.payload}", self._own_log)
                    raise NettuneError(text, "\n".join(self._own_log))
                if notice.kind == "frame" and notice.rank is not None:
                    if "refused" in notice.payload:
                        self._refuse(notice.rank, notice.payload["refused"])
                    waiting.discard(notice.rank)
            for rank in sorted(waiting & self._dead.keys()):
                self._refuse(rank, _with_last(f"its process {self._dead[rank]}", self._logs[rank]))

    def _refuse(self, rank: int, why: str) -> NoReturn:
        states = [self._state(rank, "died", why)]
        raise AgentError(f"rank {rank} on {self.placement[rank]} could not start: {why}", states, [rank])


def _with_last(text: str, log: Sequence[str]) -> str:
    """The text with the last words of a process that ended too early to say anything else."""
    return f"{text}: {log[-1].strip()}" if log else text
