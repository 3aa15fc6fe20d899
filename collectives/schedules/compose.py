"""Schedules made of schedules: reversed, one after the other, side by side, chunked and pipelined.

Algorithms only say how data spreads (broadcast, all-gather); what reduces is the same steps backwards, and every
way of cutting a message into parts - channels, pipelined chunks, a share for another algorithm - is `combine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError

_DUAL = {
    Op.ALL_GATHER: Op.REDUCE_SCATTER,
    Op.BROADCAST: Op.REDUCE,
}


def reverse(spread: Schedule, name: str = "") -> Schedule:
    """All-gather or broadcast backwards: reduce-scatter or reduce, with the same volumes in the other direction.

    Where a rank received a chunk it now sends its part of it, after the parts of those that it sent it to have come
    back. It is right when every rank receives each chunk once, which `check` of the result proves.
    """
    if spread.op not in _DUAL:
        raise InputError(f"only an all_gather or a broadcast can be reversed, not {spread.op}")

    def make(number: int) -> Round:
        step = spread.make(spread.count - 1 - number)
        return Round.of(step.dst, step.src, step.chunk, True, step.channel)

    return replace(spread, op=_DUAL[spread.op], make=make, name=name or spread.name)


def sequence(
    op: Op, parts: Sequence[Schedule], *, home: ArrayLike = -1, starts: Sequence[int] = ()
) -> Schedule:
    """Schedules over the same chunks, one after the other (`starts` of each; else as soon as the one before ends)."""
    starts = starts or [sum(part.count for part in parts[:place]) for place in range(len(parts))]
    ends = [start + part.count for start, part in zip(starts, parts, strict=True)]

    def make(number: int) -> Round:
        running = zip(starts, ends, parts, strict=True)
        return Round.joined(
            [part.make(number - start) for start, end, part in running if start <= number < end]
        )

    channels = max(part.channels for part in parts)
    first = parts[0]
    return Schedule.of(
        op, first.ranks, max(ends), make, share=first.share, home=home, channels=channels, name=first.name
    )


def all_reduce_of(spread: Schedule) -> Schedule:
    """Reduce-scatter (or reduce) by the steps of `spread` backwards, then `spread`."""
    return sequence(Op.ALL_REDUCE, [reverse(spread), spread])


def for_op(spread: Schedule, op: Op) -> Schedule:
    """`spread`, its reverse, or an all-reduce made of both, as `op` asks."""
    if op is spread.op:
        return spread
    return all_reduce_of(spread) if op is Op.ALL_REDUCE else reverse(spread)


def combine(
    parts: Sequence[Schedule],
    shares: Sequence[float] | None = None,
    *,
    starts: Sequence[int] | None = None,
    channels: Sequence[ArrayLike] | None = None,
    name: str = "",
) -> Schedule:
    """Several schedules of one operation at once, each over its own share of the message.

    Args:
        parts: schedules; chunks of the result are theirs one part after the other.
        shares: part of the message that each carries; equal if left out.
        starts: round in which each begins; 0 if left out.
        channels: for each part, the channel of the result that each of its channels is; if left out, no two parts
            share a channel.
        name: of the result.

    Raises:
        InputError: parts of different operations or numbers of ranks, shares that are not positive or not 1 in sum.
    """
    if len({(part.op, part.ranks) for part in parts}) != 1:
        raise InputError("combine: schedules of one operation over the same ranks, at least one of them")
    shares = [1 / len(parts)] * len(parts) if shares is None else list(shares)
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise InputError(
            f"combine: shares {', '.join(f'{share:g}' for share in shares)} are not positive, 1 in sum"
        )
    begin = [0] * len(parts) if starts is None else list(starts)
    chunk_from = np.cumsum([0, *(part.chunks for part in parts)])
    if channels is None:
        channel_from = np.cumsum([0, *(part.channels for part in parts)])
        channels = [
            start + np.arange(part.channels) for start, part in zip(channel_from[:-1], parts, strict=True)
        ]
    maps: list[Ints] = [np.atleast_1d(np.array(entry, np.int64)) for entry in channels]

    def make(number: int) -> Round:
        made: dict[tuple[int, int], Round] = {}
        found = []
        for place, part in enumerate(parts):
            local = number - begin[place]
            if 0 <= local < part.count:
                # Copies of one schedule are the usual case: channels, and chunks that start together.
                if (id(part), local) not in made:
                    made[id(part), local] = part.make(local)
                step = made[id(part), local]
                chunk = step.chunk + chunk_from[place]
                found.append(Round(step.src, step.dst, chunk, step.reduce, maps[place][step.channel]))
        return Round.joined(found)

    return Schedule(
        parts[0].op,
        parts[0].ranks,
        np.concatenate([part.share * share for part, share in zip(parts, shares, strict=True)]),
        np.concatenate([part.home for part in parts]),
        np.concatenate([part.target for part in parts]),
        max((start + part.count for start, part in zip(begin, parts, strict=True) if part.count), default=0),
        make,
        1 + int(max(entry.max() for entry in maps)),
        name or " + ".join(part.name for part in parts),
    )


def over_channels(schedule: Schedule, channels: int) -> Schedule:
    """The message cut into equal parts over `channels` copies of each channel; copies of channel c are neighbours.

    So a double tree over C channels has the first tree on channels 0..C-1 and the second on C..2C-1, as in NCCL.

    Raises:
        InputError: less than one channel.
    """
    if channels < 1:
        raise InputError(f"{schedule.name}: {channels} channels; use 1 or more")
    if channels == 1:
        return schedule
    old = np.arange(schedule.channels) * channels
    name = f"{schedule.name}, {channels} channels"
    return combine([schedule] * channels, channels=[old + copy for copy in range(channels)], name=name)


def pipelined(schedule: Schedule, chunks: int, *, every: int = 1) -> Schedule:
    """The message cut into `chunks` equal parts, each `every` rounds after the one before it, on the same channels.

    Raises:
        InputError: less than one chunk, or parts that do not follow each other.
    """
    if chunks < 1 or every < 1:
        raise InputError(f"{schedule.name}: {chunks} chunks, every {every} rounds; use 1 or more")
    if chunks == 1:
        return schedule
    name = f"{schedule.name}, {chunks} chunks"
    starts = [every * place for place in range(chunks)]
    return combine(
        [schedule] * chunks, starts=starts, channels=[np.arange(schedule.channels)] * chunks, name=name
    )


def lifted(step: Round, ranks: Ints, chunks: Ints) -> Round:
    """One round carried out by G groups at once, and over more than one chunk where the schedule has one.

    Args:
        step: E rows over the ranks and chunks of one group.
        ranks: (G, n) rank that each rank of the schedule is in each group.
        chunks: (G, C, K) chunks that each chunk of the schedule is in each group.
    """
    found = chunks[:, step.chunk, :]

    def wide(column: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(column[..., None], found.shape).ravel()

    return Round.of(
        wide(ranks[:, step.src]),
        wide(ranks[:, step.dst]),
        found.ravel(),
        wide(step.reduce),
        wide(step.channel),
    )
