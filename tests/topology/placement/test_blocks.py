"""Parts of groups that change places together: each trial is a permutation, priced as if made, and it finds what swaps miss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.placement.blocks import block_swaps, group_labels
from topology.placement.cutedges import cut_edges
from topology.placement.estimate import Estimate
from topology.placement.place import problem_of
from topology.placement.swapping import clusters_of, improve
from topology.routing import Routing


def problem_on(fabric, traffic, **options):
    return problem_of(Routing.shortest_paths(fabric), traffic, ranks_per_host=1, **options)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), pods=st.integers(1, 2))
def test_blocks_are_exchanged_and_priced_as_if_made(leaves, grid, seed, pods):
    """No unit twice in a trial, pinned ones never, always between two clusters; the price is that of the map made."""
    generator = np.random.default_rng(seed)
    problem = problem_on(leaves([3, 2, 3, 4], pods=pods), grid(generator, 10))
    edges, slots = cut_edges(problem), len(problem.slots)
    cluster = clusters_of(edges, problem)
    estimate = Estimate(edges, problem.traffic.phases, slots)
    estimate.set(generator.permutation(slots))
    start = estimate.slot
    movable = np.arange(slots) != 3
    for label in group_labels(edges, problem.units, slots):
        one, other, trial = block_swaps(generator, label, cluster[start], movable, 60)
        together = estimate.swapped(one, other, trial)
        for number, cost in enumerate(together.tolist()):
            a, b = one[trial == number], other[trial == number]
            assert len(np.unique([a, b])) == 2 * len(a)
            assert movable[a].all()
            assert movable[b].all()
            assert len(np.unique(cluster[start[a]])) == len(np.unique(cluster[start[b]])) == 1
            assert cluster[start[a[0]]] != cluster[start[b[0]]]
            slot = start.copy()
            slot[a], slot[b] = start[b], start[a]
            estimate.set(slot)
            assert estimate.smooth_us == pytest.approx(cost, rel=1e-6)
        estimate.set(start)


def test_groups_are_those_of_the_phases(leaves, rings):
    """Rings of four and of two, the latter given twice: two kinds of groups; empty units are a group of their own."""
    pairs, fours = [[0, 4], [1, 5], [2, 6], [3, 7]], [[0, 1, 2, 3], [4, 5, 6, 7]]
    problem = problem_on(leaves([5, 5]), rings(8, (pairs, 1e6), (fours, 1e6), (pairs, 2e6)))

    labels = group_labels(cut_edges(problem), 8, 10)

    assert [label.tolist() for label in labels] == [
        [0, 1, 2, 3, 0, 1, 2, 3, 4, 4],
        [0] * 4 + [1] * 4 + [2, 2],
    ]


def test_whole_groups_move_where_single_swaps_are_stuck(leaves, rings):
    """Rings of four on two leaves each, whose halves must change places two by two: every single swap costs more."""
    groups = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    problem = problem_on(
        leaves([4, 4, 4, 4], 4, up_gbps=[25] * 4), rings(16, (groups, 1e7), ([[0, 4, 8, 12]], 1e6))
    )
    edges = cut_edges(problem)
    estimate = Estimate(edges, problem.traffic.phases, 16)
    halves = np.array([0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15])
    estimate.set(halves)
    one, other = np.triu_indices(16, 1)
    assert estimate.swapped(one, other).min() >= estimate.smooth_us * (1 - 1e-6)

    improve(estimate, clusters_of(edges, problem), np.empty(0, dtype=np.int64), 200)

    leaf = estimate.slot // 4
    assert [len(set(leaf[group].tolist())) for group in groups] == [1, 1, 1, 1]
