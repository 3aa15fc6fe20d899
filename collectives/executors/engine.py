"""`Executor`: one rank's program run over a transport, as far ahead as its messages allow.

All receives begin at once, so that a sender never waits for its receiver's attention. What arrives is added in the order
of the program where several messages add to one chunk: the same schedule gives the same bits each time, on every
transport. For floating point of unit round-off u a sum over n ranks differs from the exact one by at most
(n - 1) u / (1 - (n - 1) u) times the sum of the magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
ed., 4.2, for any order), hence two schedules by at most twice that; whole numbers do not differ at all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from collectives.executors.buffers import Buffers
from collectives.executors.program import Message, Step
from collectives.executors.transport import Array, Handle, Transport

Route = Callable[[Message], int]
"""Which of a pair's connections carries a message."""


def by_channel(connections: int) -> Route:
    """Channel c over connection c, around where there are fewer connections."""
    return lambda message: message.channel % connections


class Executor:
    """A rank's steps, ready to be run any number of times.

    Args:
        steps: from `program.program`.
        buffers: the rank's.
        transport: over which.
        route: connection of each message.
        rounds: whether every round waits for the one before at this rank. NCCL needs it: there a send or receive
            holds its stream until its peer has come, so receives cannot begin ahead of their time.
    """

    def __init__(
        self, steps: list[Step], buffers: Buffers, transport: Transport, route: Route, *, rounds: bool = False
    ) -> None:
        self._steps = steps
        self._buffers = buffers
        self._transport = transport
        self._connection = [route(step.message) for step in steps]
        self._staged: dict[int, Array] = {
            number: transport.empty(buffers.data, step.message.elements)
            for number, step in enumerate(steps)
            if not step.sends and not step.lands
        }
        self._followers: list[list[int]] = [[] for _ in steps]
        for number, step in enumerate(steps):
            for earlier in step.after:
                self._followers[earlier].append(number)
        self._rounds = rounds

    def run(self) -> None:
        """Carry out the program once; returns when this rank has its result and its data may be changed."""
        self._buffers.begin()
        if self._rounds:
            self._run_rounds()
        else:
            self._run_ahead()

    def _run_ahead(self) -> None:
        """Every message as soon as what it needs is there."""
        steps, transport = self._steps, self._transport
        waiting = [len(step.after) for step in steps]
        here = [step.sends for step in steps]
        on_way: dict[int, Handle] = {}
        for number, step in enumerate(steps):
            if not step.sends:
                message = step.message
                into = self._staged[number] if number in self._staged else self._buffers.view(message)
                transport.receive(number, into, message.src, message.tag, self._connection[number])

        def carry_out(first: int) -> None:
            ready = [first]
            while ready:
                number = ready.pop()
                step = steps[number]
                if step.sends:
                    on_way[number] = self._send(number)
                else:
                    for earlier in step.after:
                        if (
                            earlier in on_way
                        ):  # long over, where a schedule does not overwrite what it still sends
                            on_way.pop(earlier).wait()
                    self._land(number)
                freed = []
                for follower in self._followers[number]:
                    waiting[follower] -= 1
                    if not waiting[follower] and here[follower]:
                        freed.append(follower)
                ready.extend(reversed(freed))

        for number, step in enumerate(steps):
            if step.sends and not step.after:
                carry_out(number)
        for _ in range(len(steps) - sum(step.sends for step in steps)):
            number = transport.arrived()
            here[number] = True
            if not waiting[number]:
                carry_out(number)
        for handle in on_way.values():
            handle.wait()

    def _run_rounds(self) -> None:
        """Each round behind the one before."""
        numbered = enumerate(self._steps)
        for _, of_round in groupby(numbered, key=lambda entry: entry[1].message.round):
            sends, receives, landing = [], [], []
            for number, step in of_round:
                message, connection = step.message, self._connection[number]
                if step.sends:
                    sends.append((self._buffers.view(message), message.dst, message.tag, connection))
                else:
                    into = self._staged[number] if number in self._staged else self._buffers.view(message)
                    receives.append((into, message.src, message.tag, connection))
                    landing.append(number)
            self._transport.exchange(sends, receives)
            for number in landing:
                self._land(number)

    def _send(self, number: int) -> Handle:
        message = self._steps[number].message
        data = self._buffers.view(message)
        return self._transport.send(data, message.dst, message.tag, self._connection[number])

    def _land(self, number: int) -> None:
        if number not in self._staged:
            return
        message = self._steps[number].message
        place = self._buffers.view(message)
        if message.reduce:
            place += self._staged[number]
        else:
            place[:] = self._staged[number]
