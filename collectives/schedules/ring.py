"""Rings: every rank sends to one neighbour only. Textbook volumes (Thakur, Rabenseifner, Gropp 2005, section 4).

`direction` +1 sends from rank r to r + 1 (NCCL), -1 to r - 1 (gloo; see `collectives.traffic.RING_DIRECTION`).
With several channels the message is cut into that many equal parts, each of which goes around by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError


def ring_all_reduce(ranks: int, *, direction: int = 1, channels: int = 1) -> Schedule:
    """Reduce-scatter, then all-gather: 2(n-1) rounds, 2(n-1)/n of the message over each edge."""
    _refuse_bad(ranks, direction, channels)
    half = ranks - 1

    def make(number: int) -> Round:
        # In the first half the chunk that a rank passes on has been started by the rank `number` behind it.
        # The second half starts with the chunk that the rank has just completed.
        first = number < half
        offset = -number if first else 1 - (number - half)
        return _turn(ranks, channels, direction, offset, reduce=first)

    return _ring(Op.ALL_REDUCE, ranks, 2 * half, make, direction, channels, home=None)


def ring_reduce_scatter(ranks: int, *, direction: int = 1, channels: int = 1) -> Schedule:
    """n-1 rounds, (n-1)/n of the whole buffer over each edge; rank r ends with chunk r of every channel."""
    _refuse_bad(ranks, direction, channels)

    def make(number: int) -> Round:
        return _turn(ranks, channels, direction, -(number + 1), reduce=True)

    home = tuple(range(ranks)) * channels
    return _ring(Op.REDUCE_SCATTER, ranks, ranks - 1, make, direction, channels, home)


def ring_all_gather(ranks: int, *, direction: int = 1, channels: int = 1) -> Schedule:
    """n-1 rounds, (n-1)/n of the whole buffer over each edge; rank r starts with chunk r of every channel."""
    _refuse_bad(ranks, direction, channels)

    def make(number: int) -> Round:
        return _turn(ranks, channels, direction, -number, reduce=False)

    home = tuple(range(ranks)) * channels
    return _ring(Op.ALL_GATHER, ranks, ranks - 1, make, direction, channels, home)


def ring_broadcast(ranks: int, *, root: int = 0, direction: int = 1, chunks: int = 1) -> Schedule:
    """A pipeline from the root around the ring: n-2+chunks rounds, the whole message over n-1 edges."""
    _refuse_bad(ranks, direction, chunks)
    if not 0 <= root < ranks:
        raise InputError(f"ring: root {root} is no rank of {ranks}")

    def make(number: int) -> Round:
        hop = np.arange(max(0, number - chunks + 1), min(number, ranks - 2) + 1)
        src = (root + direction * hop) % ranks
        return Round.of(src, (src + direction) % ranks, number - hop)

    share, home = (1 / chunks,) * chunks, (root,) * chunks
    count = ranks - 2 + chunks if ranks > 1 else 0
    name = f"ring broadcast, {chunks} chunks"
    return Schedule(Op.BROADCAST, ranks, share, home, (-1,) * chunks, count, make, name)


def _turn(ranks: int, channels: int, direction: int, offset: int, *, reduce: bool) -> Round:
    """Rank r sends chunk r + direction * offset of every channel to its neighbour."""
    rank: Ints = np.tile(np.arange(ranks), channels)
    channel: Ints = np.repeat(np.arange(channels), ranks)
    chunk = channel * ranks + (rank + direction * offset) % ranks
    return Round.of(rank, (rank + direction) % ranks, chunk, reduce, channel)


def _ring(
    op: Op,
    ranks: int,
    count: int,
    make: Callable[[int], Round],
    direction: int,
    channels: int,
    home: tuple[int, ...] | None,
) -> Schedule:
    chunks = ranks * channels
    return Schedule(
        op,
        ranks,
        (1 / chunks,) * chunks,
        (-1,) * chunks if home is None else home,
        (-1,) * chunks,
        count,
        make,
        f"ring {'up' if direction > 0 else 'down'}, {channels} channels",
    )


def _refuse_bad(ranks: int, direction: int, parts: int) -> None:
    if ranks < 1 or direction not in {-1, 1} or parts < 1:
        raise InputError(
            f"ring: {ranks} ranks, direction {direction}, {parts} parts; use 1 or more, direction 1 or -1"
        )
