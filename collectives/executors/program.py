"""What one rank does in a schedule: messages it sends and receives, and which of its own steps each must wait for.

Rounds are no barriers here (`collectives.schedules.schedule`): a step waits only for the earlier steps of its rank that
touch the same chunks, so parts of a message that are at different levels of a schedule overlap by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectives.schedules import Op, Round, Schedule
from collectives.schedules.schedule import TARGETED
from nettune.errors import InputError

Ints = NDArray[np.int64]

BLOCKED = frozenset({Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL})
"""Operations whose buffer is one block of equal size for each rank, in order of rank."""


@dataclass(frozen=True)
class Layout:
    """Where chunks lie in a rank's buffer of `elements` elements.

    Attributes:
        elements: of the message, the largest buffer of a rank.
        first: (C,) first element of each chunk; of a chunk that is for one rank, inside its block or message.
        length: (C,) elements; a chunk of a small message may have none.
    """

    elements: int
    first: Ints
    length: Ints

    @classmethod
    def of(cls, schedule: Schedule, elements: int) -> Layout:
        """Chunks in order, each as near to its share as whole elements allow.

        Raises:
            InputError: no element, or blocks of unequal size.
        """
        if elements < 1:
            raise InputError(f"{schedule.op}: a message of {elements} elements")
        if schedule.op in BLOCKED and elements % schedule.ranks:
            raise InputError(f"{schedule.op}: {elements} elements do not divide over {schedule.ranks} ranks")
        part = _parts(schedule)
        block = elements // schedule.ranks if schedule.op in BLOCKED else elements
        order = np.argsort(part, kind="stable")
        whole = np.bincount(part, weights=schedule.share, minlength=1)
        until = np.cumsum(schedule.share[order])
        # Shares before the part that each chunk belongs to.
        before = np.concatenate([[0.0], np.cumsum(whole)])[part[order]]
        end = np.rint((until - before) / whole[part[order]] * block).astype(np.int64)
        start = np.where(np.diff(part[order], prepend=-1) > 0, 0, np.concatenate([[0], end[:-1]]))
        first, length = np.empty_like(start), np.empty_like(start)
        first[order] = start
        length[order] = end - start
        if schedule.op in {Op.ALL_GATHER, Op.REDUCE_SCATTER}:
            first += part * block
        return cls(elements, first, length)


def _parts(schedule: Schedule) -> Ints:
    """(C,) number of the part of the buffer that each chunk divides with others."""
    if schedule.op is Op.P2P:
        return np.arange(schedule.chunks)
    if schedule.op is Op.ALL_TO_ALL:
        return schedule.home * schedule.ranks + schedule.target
    if schedule.op in BLOCKED:
        return schedule.home
    return np.zeros(schedule.chunks, np.int64)


@dataclass(frozen=True)
class Message:
    """Elements that go from one rank to another at once.

    Attributes:
        src, dst: ranks.
        channel: of the schedule.
        tag: number among the messages from `src` to `dst`, the same at both.
        round: of the schedule.
        chunks: what it holds, one run of elements after another.
        first, last: elements in the layout, `last` not included.
        reduce: whether the receiver adds it.
    """

    src: int
    dst: int
    channel: int
    tag: int
    round: int
    chunks: tuple[int, ...]
    first: int
    last: int
    reduce: bool

    @property
    def elements(self) -> int:
        """How many."""
        return self.last - self.first


@dataclass(frozen=True)
class Step:
    """One message at one of its ends.

    Attributes:
        message: which.
        sends: whether this rank sends it.
        after: numbers of the rank's steps that must be over before; those of the chunks it reads or writes.
    """

    message: Message
    sends: bool
    after: tuple[int, ...]

    @property
    def lands(self) -> bool:
        """Whether what arrives may be written to its place at any time, since nothing before touches it."""
        return not self.sends and not self.message.reduce and not self.after


def messages(schedule: Schedule, layout: Layout, rank: int | None = None) -> Iterator[Message]:
    """Messages of a rank, or of all, in order of rounds; chunks that lie side by side go together."""
    count: dict[tuple[int, int], int] = {}
    for number, step in enumerate(schedule.rounds()):
        rows = (
            np.arange(len(step)) if rank is None else np.flatnonzero((step.src == rank) | (step.dst == rank))
        )
        rows = rows[layout.length[step.chunk[rows]] > 0]
        for run in _runs(schedule, layout, step, rows):
            row = run[0]
            pair = (int(step.src[row]), int(step.dst[row]))
            tag = count[pair] = count.get(pair, -1) + 1
            chunks = tuple(step.chunk[run].tolist())
            yield Message(
                src=pair[0],
                dst=pair[1],
                channel=int(step.channel[row]),
                tag=tag,
                round=number,
                chunks=chunks,
                first=int(layout.first[chunks[0]]),
                last=int(layout.first[chunks[-1]] + layout.length[chunks[-1]]),
                reduce=bool(step.reduce[row]),
            )


def _runs(schedule: Schedule, layout: Layout, step: Round, rows: Ints) -> Iterator[Ints]:
    """Rows of a round that make one message each."""
    if not len(rows):
        return
    first, length = layout.first[step.chunk[rows]], layout.length[step.chunk[rows]]
    key = (step.src[rows], step.dst[rows], step.channel[rows], step.reduce[rows])
    order = np.lexsort((first, *reversed(key)))
    rows, first, length = rows[order], first[order], length[order]
    joined = first[1:] == first[:-1] + length[:-1]
    for column in key:
        ordered = column[order]
        joined &= ordered[1:] == ordered[:-1]
    if schedule.op in TARGETED:
        joined[:] = False
    yield from np.split(rows, np.flatnonzero(~joined) + 1)


def program(schedule: Schedule, layout: Layout, rank: int) -> list[Step]:
    """A rank's steps in an order in which they may be carried out one by one: reads of a round before its writes."""
    steps: list[Step] = []
    written: dict[int, int] = {}
    read: dict[int, list[int]] = {}
    for message in sorted(messages(schedule, layout, rank), key=lambda one: (one.round, one.src != rank)):
        number, sends = len(steps), message.src == rank
        after = {written[chunk] for chunk in message.chunks if chunk in written}
        if not sends:
            after.update(step for chunk in message.chunks for step in read.get(chunk, ()))
        steps.append(Step(message, sends, tuple(sorted(after))))
        for chunk in message.chunks:
            if sends:
                read.setdefault(chunk, []).append(number)
            else:
                written[chunk] = number
                read.pop(chunk, None)
    return steps
