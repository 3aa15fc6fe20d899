"""Schedules made of schedules: what each way of composing promises, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from collectives.schedules import Op, Round, build, combine, over_channels, pipelined
from collectives.schedules.compose import all_reduce_of, for_op, reverse, sequence
from nettune.errors import InputError


def rows(step: Round) -> list[tuple[Any, ...]]:
    columns = (step.src, step.dst, step.chunk, step.reduce, step.channel)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_backwards_a_gather_reduces():
    """Steps in reverse order and direction, adding instead of replacing; rounds are made when asked for."""
    gather = build("bruck", "all_gather", 5)
    scatter = reverse(gather)
    assert scatter.op is Op.REDUCE_SCATTER
    last = [
        (dst, src, chunk, True, channel)
        for src, dst, chunk, _, channel in rows(gather.make(gather.count - 1))
    ]
    assert rows(scatter.make(0)) == sorted(last)
    scatter.check()
    with pytest.raises(InputError, match="not all_to_all"):
        reverse(build("pairwise", "all_to_all", 4))


def test_any_spread_makes_its_other_operations():
    """all_gather gives reduce_scatter and all_reduce, broadcast gives reduce and all_reduce."""
    for name, spread, back in (
        ("bruck", Op.ALL_GATHER, Op.REDUCE_SCATTER),
        ("binomial", Op.BROADCAST, Op.REDUCE),
    ):
        schedule = build(name, spread, 11)
        assert for_op(schedule, spread) is schedule
        for op in (back, Op.ALL_REDUCE):
            made = for_op(schedule, op)
            made.check()
            assert made.op is op
    assert all_reduce_of(build("pat", "all_gather", 11)).count == 2 * build("pat", "all_gather", 11).count


def test_a_sequence_may_wait():
    """Parts start where they are told; rounds without a part are empty."""
    parts = [build("ring", "reduce_scatter", 3), build("ring", "all_gather", 3)]
    schedule = sequence(Op.ALL_REDUCE, parts, starts=[0, 4])
    assert [len(step) for step in schedule.rounds()] == [3, 3, 0, 0, 3, 3]
    schedule.check()


def test_parts_have_chunks_and_channels_of_their_own():
    """Chunks of one part after those of the other, shares scaled, starts kept, channels told apart."""
    ring, tree = build("ring", "all_reduce", 4, channels=2), build("double_tree", "all_reduce", 4)
    schedule = combine([ring, tree], [0.8, 0.2], starts=[0, 3])
    schedule.check()
    assert schedule.share.tolist() == pytest.approx([0.1] * 8 + [0.1] * 2)
    assert schedule.channels == 4
    assert rows(schedule.make(1)) == rows(ring.make(1))
    later = rows(schedule.make(3))
    shifted: list[tuple[Any, ...]] = [
        (src, dst, chunk + 8, reduce, channel + 2) for src, dst, chunk, reduce, channel in rows(tree.make(0))
    ]
    assert later == sorted(rows(ring.make(3)) + shifted)


@pytest.mark.parametrize(
    ("shares", "message"),
    [([0.5, 0.6], "1 in sum"), ([1.0, 0.0], "not positive"), ([1.5, -0.5], "not positive")],
)
def test_shares_are_positive_and_one_in_sum(shares, message):
    """A message is cut, neither lost nor doubled."""
    with pytest.raises(InputError, match=message):
        combine([build("ring", "all_reduce", 4)] * 2, shares)


def test_parts_do_one_thing():
    """Different operations or sizes cannot be combined, nor nothing."""
    ring = build("ring", "all_reduce", 4)
    for parts in ([ring, build("ring", "all_gather", 4)], [ring, build("ring", "all_reduce", 5)]):
        with pytest.raises(InputError, match="one operation"):
            combine(parts)
    with pytest.raises(InputError, match="at least one"):
        combine([])


def test_copies_of_a_channel_are_neighbours():
    """Four channels of a double tree: the first tree on 0 and 1, the second on 2 and 3, as NCCL numbers them."""
    tree = build("double_tree", "all_reduce", 8)
    wide = over_channels(tree, 2)
    wide.check()
    one, many = tree.channel_edges, wide.channel_edges
    for channel in range(4):
        here, there = many.channel == channel, one.channel == channel // 2
        assert np.array_equal(many.src[here], one.src[there])
        assert np.allclose(many.share[here], one.share[there] / 2)


@pytest.mark.parametrize(("chunks", "every"), [(2, 1), (5, 2), (3, 6)])
def test_chunks_start_every_so_many_rounds(chunks, every):
    """The last chunk starts (chunks - 1) * every rounds later; edges carry the same amounts on the same channels."""
    ring = build("ring", "all_reduce", 4)
    schedule = pipelined(ring, chunks, every=every)
    schedule.check()
    assert schedule.count == ring.count + (chunks - 1) * every
    assert schedule.channels == 1
    assert np.allclose(schedule.edges.share, ring.edges.share)


def test_a_schedule_of_one_rank_does_nothing():
    """No rounds, whatever it is cut into."""
    assert build("ring", "all_reduce", 1, channels=3, chunks=4).count == 0


def test_many_rounds_are_added_up_in_batches():
    """2(n-1)/n over each edge of a ring of 300 ranks with 8 channels, 1.4 million steps in all."""
    edges = build("ring", "all_reduce", 300, channels=8).edges
    assert len(edges.src) == 300
    assert np.allclose(edges.share, 2 * 299 / 300)
