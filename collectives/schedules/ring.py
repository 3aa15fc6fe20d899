"""Rings: every rank sends to one neighbour only. Textbook volumes (Thakur, Rabenseifner, Gropp 2005, section 4).

`direction` +1 sends from rank r to r + 1 (NCCL), -1 to r - 1 (gloo; see `collectives.traffic.RING_DIRECTION`).
With `orders`, each of several rings goes through the ranks in its own order and carries an equal part of the message,
as NCCL's channels do (`connectRings` of src/graph/connect.cc 2.30.7: the nodes in index order on every channel, the
ranks of a node in an order of the channel's own).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectives.schedules.compose import combine, over_channels, pipelined, reverse, sequence
from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError

Orders = Sequence[Sequence[int]]


def ring_all_gather(
    ranks: int, *, direction: int = 1, channels: int = 1, orders: Orders | None = None
) -> Schedule:
    """n-1 rounds, (n-1)/n of the whole buffer over each edge; rank r starts with chunk r of every channel.

    Args:
        ranks: number of ranks.
        direction: which neighbour a rank sends to.
        channels: copies of each ring, each with an equal part of the message.
        orders: for each ring, all ranks in the order in which it visits them; one ring 0, 1, 2, ... if left out.
    """
    _refuse_bad(ranks, direction, channels)
    rings = [_one_ring(_order(ranks, order), direction) for order in orders or [range(ranks)]]
    return over_channels(rings[0] if len(rings) == 1 else combine(rings, name=rings[0].name), channels)


def ring_reduce_scatter(
    ranks: int, *, direction: int = 1, channels: int = 1, orders: Orders | None = None
) -> Schedule:
    """n-1 rounds, (n-1)/n of the whole buffer over each edge; rank r ends with chunk r of every channel."""
    _refuse_bad(ranks, direction, channels)
    spread = ring_all_gather(ranks, direction=-direction, channels=channels, orders=orders)
    return reverse(spread, _name(direction, spread.channels))


def ring_all_reduce(
    ranks: int, *, direction: int = 1, channels: int = 1, orders: Orders | None = None
) -> Schedule:
    """Reduce-scatter, then all-gather: 2(n-1) rounds, 2(n-1)/n of the message over each edge."""
    first = ring_reduce_scatter(ranks, direction=direction, channels=channels, orders=orders)
    second = ring_all_gather(ranks, direction=direction, channels=channels, orders=orders)
    return sequence(Op.ALL_REDUCE, [first, second])


def ring_broadcast(ranks: int, *, root: int = 0, direction: int = 1, chunks: int = 1) -> Schedule:
    """A chain from the root around the ring, pipelined: n-2+chunks rounds, the whole message over n-1 edges."""
    _refuse_bad(ranks, direction, chunks)
    if not 0 <= root < ranks:
        raise InputError(f"ring: root {root} is no rank of {ranks}")

    def make(number: int) -> Round:
        return Round.of((root + direction * number) % ranks, (root + direction * (number + 1)) % ranks, 0)

    chain = Schedule.of(Op.BROADCAST, ranks, ranks - 1, make, share=1.0, home=root, name="ring broadcast")
    return pipelined(chain, chunks)


def ring_reduce(ranks: int, *, root: int = 0, direction: int = 1, chunks: int = 1) -> Schedule:
    """A chain that ends at the root, pipelined: n-2+chunks rounds, the whole message over n-1 edges."""
    _refuse_bad(ranks, direction, chunks)
    return reverse(ring_broadcast(ranks, root=root, direction=-direction, chunks=chunks), "ring reduce")


def _one_ring(order: Ints, direction: int) -> Schedule:
    ranks = len(order)
    place = np.arange(ranks)
    following = order[(place + direction) % ranks]

    def make(number: int) -> Round:
        # The chunk that a rank passes on came from the rank `number` behind it.
        return Round.of(order, following, (place - direction * number) % ranks)

    share = np.full(ranks, 1 / ranks)
    return Schedule.of(
        Op.ALL_GATHER, ranks, ranks - 1, make, share=share, home=order, name=_name(direction, 1)
    )


def _order(ranks: int, order: Sequence[int]) -> Ints:
    if sorted(order) != list(range(ranks)):
        raise InputError(f"ring: an order of {ranks} ranks names each of 0..{ranks - 1} once")
    return np.array(order, np.int64)


def _name(direction: int, channels: int) -> str:
    return f"ring {'up' if direction > 0 else 'down'}" + (f", {channels} channels" if channels > 1 else "")


def _refuse_bad(ranks: int, direction: int, parts: int) -> None:
    if ranks < 1 or direction not in {-1, 1} or parts < 1:
        raise InputError(
            f"ring: {ranks} ranks, direction {direction}, {parts} parts; use 1 or more, direction 1 or -1"
        )
