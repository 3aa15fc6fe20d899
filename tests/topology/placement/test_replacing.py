"""A host fails: the others stay, unless moving them pays."""

from __future__ import annotations

import numpy as np
import pytest

from nettune.errors import InputError
from topology.placement.mapping import Placement
from topology.placement.place import place, problem_of
from topology.placement.replacing import replaced, settled
from topology.routing import Routing


@pytest.fixture
def running(leaves, rings):
    """Two rings of 4 that fill two of three leaves, one spare in each of the others."""
    routing = Routing.shortest_paths(leaves([4, 4, 3, 1], up_gbps=[50, 50, 50, 50]))
    traffic = rings(8, ([[0, 1, 2, 3], [4, 5, 6, 7]], 1e7))
    return routing, traffic, place(routing, traffic, "depth-first", ranks_per_host=1)


def test_only_the_failed_node_moves(running):
    """One move, the other seven nodes stay; the parent and the excluded host are on record."""
    routing, traffic, before = running

    after = replaced(routing, traffic, before.placement, excluded=("node2",), threshold=10.0)

    old, new = before.placement.hosts(routing.fabric), after.placement.hosts(routing.fabric)
    assert [rank for rank in range(8) if old[rank] != new[rank]] == [1]
    assert after.placement.moves == 1
    assert after.placement.method == "kept"
    assert after.placement.excluded == ("node2",)
    assert "node2" not in new


def test_the_best_free_host_is_taken(leaves, rings):
    """Of two free hosts the one under the partners' leaf."""
    routing = Routing.shortest_paths(leaves([5, 5], up_gbps=[50, 50]))
    traffic = rings(8, ([[0, 1, 2, 3], [4, 5, 6, 7]], 1e7))
    parent = Placement.of_hosts(routing.fabric, [f"node{host}" for host in (1, 2, 3, 4, 6, 7, 8, 9)])

    after = replaced(routing, traffic, parent, excluded=("node7",))

    assert after.placement.hosts(routing.fabric)[5] == "node10"
    assert after.placement.moves == 1


def test_nothing_moves_without_a_reason(running):
    """No host excluded, and the map is already the best: no move."""
    routing, traffic, before = running

    assert replaced(routing, traffic, before.placement).placement.moves == 0


def test_a_large_gain_moves_more(leaves, rings):
    """A parent that mixes two groups is left for a better map only when the threshold allows it."""
    routing = Routing.shortest_paths(leaves([4, 4], up_gbps=[25, 25]))
    traffic = rings(8, ([[0, 1, 2, 3], [4, 5, 6, 7]], 1e7))
    parent = Placement.of_hosts(routing.fabric, [f"node{host}" for host in (1, 5, 2, 6, 3, 7, 4, 8)])

    moved = replaced(routing, traffic, parent)
    kept = replaced(routing, traffic, parent, threshold=0.99)

    assert moved.placement.method == "nettune"
    assert moved.cost_us < 0.95 * kept.cost_us
    assert moved.placement.moves == 4
    assert kept.placement.moves == 0


def test_settling_moves_only_between_leaves(running):
    """A map that differs from the parent by names inside leaves is the parent."""
    routing, traffic, before = running
    problem = problem_of(routing, traffic, ranks_per_host=1)
    shuffled = np.array([3, 2, 1, 0, 5, 4, 7, 6])

    assert settled(problem, shuffled, before.placement.host).tolist() == list(range(8))


def test_pins_win_over_the_parent(running):
    """A unit whose host another is pinned to must go; the pinned one goes there."""
    routing, traffic, before = running

    names = replaced(routing, traffic, before.placement, pins={0: "node2"}, threshold=10.0).placement.hosts(
        routing.fabric
    )

    assert names[0] == "node2"
    assert len(set(names)) == 8


def test_bad_parents_are_refused(running, rings):
    """Another number of ranks, a negative threshold."""
    routing, traffic, before = running
    with pytest.raises(InputError, match="has 8 ranks, the job 4"):
        replaced(routing, rings(4, ([[0, 1, 2, 3]], 1e6)), before.placement)
    with pytest.raises(InputError, match="threshold"):
        replaced(routing, traffic, before.placement, threshold=-1)
