"""Bytes of each rank and edge, and numbers of rounds, are those of the textbook."""

from __future__ import annotations

from collections import Counter
from math import ceil, log2

import numpy as np
import pytest

from collectives.schedules import Op, Schedule, build, hybrid

SIZES = [2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 63, 64]
POWERS = [2, 4, 8, 16, 32, 64]


def sent(schedule: Schedule) -> np.ndarray:
    return np.bincount(schedule.edges.src, weights=schedule.edges.share, minlength=schedule.ranks)


def received(schedule: Schedule) -> np.ndarray:
    return np.bincount(schedule.edges.dst, weights=schedule.edges.share, minlength=schedule.ranks)


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("direction", [-1, 1])
def test_ring(ranks, channels, direction):
    """2(n-1)/n S for all_reduce and (n-1)/n S for its halves, to one neighbour only; 2(n-1) and n-1 rounds."""
    for op, times in ((Op.ALL_REDUCE, 2), (Op.REDUCE_SCATTER, 1), (Op.ALL_GATHER, 1)):
        schedule = build("ring", op, ranks, direction=direction, channels=channels)
        edges = schedule.edges
        assert np.allclose(edges.share, times * (ranks - 1) / ranks)
        assert edges.src.tolist() == list(range(ranks))
        assert np.array_equal(edges.dst, (edges.src + direction) % ranks)
        assert schedule.count == times * (ranks - 1)
        assert (schedule.channels, len(schedule.channel_edges.src)) == (channels, channels * ranks)


@pytest.mark.parametrize(("ranks", "chunks"), [(2, 1), (5, 1), (5, 4), (8, 16)])
def test_pipelined_chain(ranks, chunks):
    """The whole message over n-1 edges in n-2+chunks rounds, as broadcast and as reduce."""
    for op, sums in ((Op.BROADCAST, received), (Op.REDUCE, sent)):
        schedule = build("ring", op, ranks, root=1, chunks=chunks)
        assert np.allclose(sums(schedule), [float(rank != 1) for rank in range(ranks)])
        assert schedule.count == ranks - 2 + chunks


@pytest.mark.parametrize("ranks", POWERS)
def test_halving_doubling_at_powers_of_two(ranks):
    """The volumes of a ring in 2 log2 n and log2 n rounds; the largest messages go furthest in halving."""
    for op, times in ((Op.ALL_REDUCE, 2), (Op.REDUCE_SCATTER, 1), (Op.ALL_GATHER, 1)):
        schedule = build("halving_doubling", op, ranks)
        assert np.allclose(sent(schedule), times * (ranks - 1) / ranks)
        assert np.allclose(received(schedule), times * (ranks - 1) / ranks)
        assert schedule.count == times * log2(ranks)
    first = build("halving_doubling", "reduce_scatter", ranks).make(0)
    assert set(np.abs(first.src - first.dst).tolist()) == {ranks // 2}
    assert len(first) == ranks * ranks // 2


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12, 24, 63])
def test_halving_doubling_folds_other_numbers(ranks):
    """A folded rank sends and receives S once, its partner S more than the 2(p-1)/p S of the core; 2 rounds more."""
    core = 1 << (ranks.bit_length() - 1)
    extra, inside = ranks - core, 2 * (core - 1) / core
    schedule = build("halving_doubling", "all_reduce", ranks)
    wanted = [1.0, 1 + inside] * extra + [inside] * (core - extra)
    assert np.allclose(sent(schedule), wanted)
    assert np.allclose(received(schedule), wanted)
    assert schedule.count == 2 * log2(core) + 2


@pytest.mark.parametrize("ranks", SIZES)
def test_bruck_and_pat(ranks):
    """(n-1)/n S each way for any n; ceil(log2 n) rounds for Bruck, log2 n for PAT at powers of two."""
    for name in ("bruck", "pat"):
        for op in (Op.ALL_GATHER, Op.REDUCE_SCATTER):
            schedule = build(name, op, ranks)
            assert np.allclose(sent(schedule), (ranks - 1) / ranks)
            assert np.allclose(received(schedule), (ranks - 1) / ranks)
            if name == "bruck" or ranks in POWERS:
                assert schedule.count == ceil(log2(ranks))


def nccl_step_order(dimensions: int, steps: int) -> list[int]:
    """The order of `PatAGAlgorithm::nextAs` (NCCL 2.26), carried out counter by counter."""
    found, value = [], 0
    left = [dimensions - bit for bit in range(dimensions)]
    zeros = [1] * dimensions
    for _ in range(steps):
        for bit in range(dimensions):
            power = 1 << bit
            left[bit] -= 1
            if left[bit]:
                continue
            value ^= power
            left[bit] = power
            if not value & power:
                left[bit] += (zeros[bit] & -zeros[bit]).bit_length() - 2
                if left[bit] == 0:
                    value ^= power
                    left[bit] = power
                zeros[bit] += 1
        found.append(value)
    return found


@pytest.mark.parametrize("ranks", [4, 8, 16, 32, 64])
def test_pat_goes_through_steps_in_nccls_order(ranks):
    """With no aggregation, all_gather moves offset by offset in the order of nextAs, reduce_scatter from n-1 down to 1."""
    dimensions = int(log2(ranks))
    gather = build("pat", "all_gather", ranks, aggregation=1)
    order = [int(step.chunk[step.dst == 0][0]) for step in gather.rounds()]
    assert order == nccl_step_order(dimensions, ranks - 1)
    scatter = build("pat", "reduce_scatter", ranks, aggregation=1)
    assert [int(step.chunk[step.src == 0][0]) for step in scatter.rounds()] == list(range(ranks - 1, 0, -1))


@pytest.mark.parametrize(
    ("ranks", "aggregation", "rounds"), [(64, 1, 63), (64, 4, 17), (64, 32, 6), (5, 1, 4), (6, 4, 3)]
)
def test_pat_bounds_a_message(ranks, aggregation, rounds):
    """At most `aggregation` chunks go to a peer in a round: log2 a + 2^k / a - 1 rounds; 6 ranks have 3 steps left."""
    schedule = build("pat", "all_gather", ranks, aggregation=aggregation)
    assert schedule.count == rounds
    assert max(max(Counter(step.src.tolist()).values()) for step in schedule.rounds()) <= aggregation


@pytest.mark.parametrize("ranks", SIZES)
def test_double_tree(ranks):
    """All-reduce: 2(n-1) S in all, at most 2 S sent or received by a rank, 2 depth rounds; 3 children's halves at most."""
    schedule = build("double_tree", "all_reduce", ranks)
    for amounts in (sent(schedule), received(schedule)):
        assert amounts.sum() == pytest.approx(2 * (ranks - 1))
        assert amounts.max() <= 2.0
    assert schedule.count <= 2 * (ceil(log2(ranks)) + 1)
    assert np.allclose(schedule.channel_edges.share, 0.5)
    for op, one_way in ((Op.BROADCAST, received), (Op.REDUCE, sent)):
        rooted = build("double_tree", op, ranks, root=ranks // 2)
        assert np.allclose(one_way(rooted), [float(rank != ranks // 2) for rank in range(ranks)])


def test_chunks_follow_each_other_through_a_tree():
    """With k chunks it takes k-1 rounds more, and every level works at the same time."""
    one = build("double_tree", "all_reduce", 16)
    many = build("double_tree", "all_reduce", 16, chunks=20)
    assert many.count == one.count + 19
    assert np.allclose(many.edges.share, one.edges.share)
    assert len(many.make(many.count // 2)) == sum(len(step) for step in one.rounds())


@pytest.mark.parametrize("ranks", SIZES)
def test_binomial(ranks):
    """Everyone but the root receives once in ceil(log2 n) rounds, and nobody sends twice in a round."""
    schedule = build("binomial", "broadcast", ranks, root=1)
    assert np.allclose(received(schedule), [float(rank != 1) for rank in range(ranks)])
    assert schedule.count == ceil(log2(ranks))
    assert all(max(Counter(step.src.tolist()).values()) == 1 for step in schedule.rounds())


@pytest.mark.parametrize("ranks", SIZES)
def test_pairwise(ranks):
    """(n-1)/n S each way, S/n to each other rank, n-1 rounds in each of which a rank has one partner each way."""
    schedule = build("pairwise", "all_to_all", ranks)
    assert np.allclose(sent(schedule), (ranks - 1) / ranks)
    assert np.allclose(received(schedule), (ranks - 1) / ranks)
    assert np.allclose(schedule.edges.share, 1 / ranks)
    assert len(schedule.edges.src) == ranks * (ranks - 1)
    for step in schedule.rounds():
        assert sorted(step.src.tolist()) == sorted(step.dst.tolist()) == list(range(ranks))


@pytest.mark.parametrize(("nodes", "size"), [(1, 4), (4, 1), (2, 2), (3, 4), (8, 8), (5, 3)])
def test_two_steps_stay_on_the_rail(nodes, size):
    """(g-1)/g S inside the node, (N-1)/N S between, each way, and no transfer between nodes that leaves its rail."""
    ranks = nodes * size
    schedule = build("two_step", "all_to_all", ranks, groups=size)
    edges = schedule.edges
    inside = edges.src // size == edges.dst // size
    assert np.all((edges.src % size == edges.dst % size)[~inside])
    for ends in (edges.src, edges.dst):
        assert np.allclose(np.bincount(ends[inside], edges.share[inside], ranks), (size - 1) / size)
        assert np.allclose(np.bincount(ends[~inside], edges.share[~inside], ranks), (nodes - 1) / nodes)
    assert schedule.count == size + nodes - 2


@pytest.mark.parametrize(("nodes", "size"), [(1, 4), (4, 1), (2, 2), (3, 4), (8, 8), (5, 3)])
@pytest.mark.parametrize("inner", ["ring", "bruck"])
def test_hierarchical(nodes, size, inner):
    """(g-1)/g S inside the group and (N-1)/N S/g on the rail for a half, twice that for all_reduce."""
    ranks = nodes * size
    groups = np.arange(ranks).reshape(size, nodes).T.tolist()
    group_of = np.arange(ranks) % nodes
    for op, times in ((Op.ALL_REDUCE, 2), (Op.REDUCE_SCATTER, 1), (Op.ALL_GATHER, 1)):
        schedule = build("hierarchical", op, ranks, groups=groups, inner=inner)
        edges = schedule.edges
        inside = group_of[edges.src] == group_of[edges.dst]
        assert np.all((edges.src // nodes == edges.dst // nodes)[~inside])
        for ends in (edges.src, edges.dst):
            assert np.allclose(
                np.bincount(ends[inside], edges.share[inside], ranks), times * (size - 1) / size
            )
            across = times * (nodes - 1) / nodes / size
            assert np.allclose(np.bincount(ends[~inside], edges.share[~inside], ranks), across)


@pytest.mark.parametrize(("nodes", "size"), [(2, 2), (4, 4), (3, 5), (8, 2), (5, 4)])
@pytest.mark.parametrize("op", [Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER])
def test_levels_overlap_but_never_collide(nodes, size, op):
    """No edge carries two parts in a round; with many parts it ends earlier than parts one after the other."""
    single = build("hierarchical", op, nodes * size, groups=size)
    many = build("hierarchical", op, nodes * size, groups=size, overlap=6)
    assert np.allclose(many.edges.share, single.edges.share)
    assert many.count < 6 * single.count
    both = 0
    for step in many.rounds():
        inside = step.src // size == step.dst // size
        for here in (inside, ~inside):
            # Parts are blocks of chunks: a level that two parts share would show two of them.
            assert len(set((step.chunk[here] // single.chunks).tolist())) <= 1
        both += inside.any() and not inside.all()
    assert both > 0


@pytest.mark.parametrize("x", [0.0, 0.3, 0.75, 1.0])
def test_hybrid_is_both_by_their_shares(x):
    """Edges are x of the ring's and 1-x of the trees', on channels of their own; rounds are those of the longer."""
    ranks = 12
    ring = build("ring", "all_reduce", ranks, channels=2)
    tree = build("double_tree", "all_reduce", ranks, chunks=4)
    schedule = hybrid(ranks, x=x, ring_channels=2, tree_chunks=4)
    parts = [(part, share) for part, share in ((ring, x), (tree, 1 - x)) if share]
    wanted = np.zeros((ranks, ranks))
    for part, share in parts:
        wanted[part.edges.src, part.edges.dst] += share * part.edges.share
    found = np.zeros((ranks, ranks))
    found[schedule.edges.src, schedule.edges.dst] = schedule.edges.share
    assert np.allclose(found, wanted)
    assert schedule.count == max(part.count for part, _ in parts)
    assert schedule.channels == sum(part.channels for part, _ in parts)
