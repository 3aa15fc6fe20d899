"""Placement methods: what they must always hold, and how good they are on small cases that can be exhausted."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.loads import predict
from topology.naming import natural_key
from topology.placement.mapping import Placement
from topology.placement.place import METHODS, place
from topology.routing import Routing
from topology.traffic import Phase


@dataclass
class Traffic:
    """Phases as they are."""

    ranks: int
    phases: tuple[Phase, ...]


def rings(*groups, size=1e6) -> Traffic:
    """One phase with a ring through each group."""
    pairs = [(a, b) for group in groups for a, b in itertools.pairwise([*group, group[0]])]
    src, dst = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    one = Phase("rings", "all_reduce", size, src, dst, np.full(len(pairs), float(size)))
    return Traffic(max(map(max, groups)) + 1, (one,))


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    """The contract of a placement method."""

    @settings(max_examples=15)
    @given(
        leaves=st.integers(1, 4), hosts=st.integers(1, 3), spare=st.integers(0, 2), per_host=st.integers(1, 2)
    )
    def test_it_places_every_rank_on_an_allowed_host(self, clos, method, leaves, hosts, spare, per_host):
        """Each rank has a host of its own slot; excluded hosts are not used; the bound is not beaten."""
        fabric = clos(leaves, 2, hosts)
        excluded = fabric.hosts[: min(spare, len(fabric.hosts) - 1)]
        ranks = (len(fabric.hosts) - len(excluded)) * per_host
        traffic = rings(list(range(ranks))) if ranks > 1 else Traffic(1, ())

        placed = place(
            Routing.shortest_paths(fabric),
            traffic,
            method,
            excluded=excluded,
            ranks_per_host=per_host,
            draws=10,
        )

        names = placed.placement.hosts(fabric)
        assert len(names) == ranks
        assert not set(names) & set(excluded)
        assert max(map(names.count, names)) <= per_host
        assert placed.cost_us >= placed.bound_us * (1 - 1e-9)

    def test_it_repeats_itself(self, clos, method):
        """The same problem and seed give the same map."""
        routing = Routing.shortest_paths(clos())
        maps = [
            place(routing, rings(list(range(8))), method, draws=10).placement.host.tolist() for _ in range(2)
        ]

        assert maps[0] == maps[1]

    def test_too_few_hosts_are_refused(self, clos, method):
        """The error says how many are needed."""
        with pytest.raises(InputError, match="8 ranks need 8 hosts; 7 are left"):
            place(Routing.shortest_paths(clos()), rings(list(range(8))), method, excluded=("node1",))


def test_one_ring_reaches_the_bound(clos):
    """On a full-bisection fabric depth-first, packed and nettune lose nothing."""
    routing = Routing.shortest_paths(clos())
    for method in ("nettune", "depth-first", "packed"):
        assert place(routing, rings(list(range(8))), method).gap == pytest.approx(0)


def test_groups_across_leaves_beat_depth_first(clos):
    """Two strided groups on a fabric with half the uplinks: keeping each in its leaf is four times faster."""
    routing = Routing.shortest_paths(clos(2, 2, 4, uplink_gbps=0.05))
    traffic = rings([0, 2, 4, 6], [1, 3, 5, 7])

    ours, depth_first = (place(routing, traffic, method) for method in ("nettune", "depth-first"))

    assert ours.gap == pytest.approx(0)
    assert depth_first.cost_us == pytest.approx(4 * ours.cost_us)


@settings(max_examples=10)
@given(st.lists(st.permutations(range(4)), min_size=1, max_size=2), st.integers(1, 2))
def test_search_matches_exhaustion_on_four_hosts(clos, orders, spines):
    """On 2 leaves x 2 hosts the search finds a map as good as the best of all 24, priced with the same draws."""
    fabric = clos(2, spines, 2)
    routing = Routing.shortest_paths(fabric)
    traffic = rings(*orders)

    found = place(routing, traffic, "nettune", draws=50).cost_us

    best = min(
        predict(routing, Placement.of_hosts(fabric, hosts), traffic, draws=50).time_us[2]
        for hosts in itertools.permutations(fabric.hosts)
    )
    assert found <= best * 1.002


def test_lexicographic_is_torchruns_order(clos):
    """node10 comes before node2, as strings do."""
    placed = place(Routing.shortest_paths(clos(6, 2, 2)), rings(list(range(12))), "lexicographic", draws=3)

    assert placed.placement.hosts(clos(6, 2, 2))[:4] == ["node1", "node10", "node11", "node12"]


@given(st.lists(st.text(max_size=6), max_size=6))
def test_natural_order_is_total(names):
    """Any names can be sorted, and numbers sort as numbers."""
    assert sorted(names, key=natural_key) == sorted(sorted(names), key=natural_key) or len(set(names)) < len(
        names
    )
    assert sorted(["n10", "n2"], key=natural_key) == ["n2", "n10"]


def test_a_placement_survives_json(clos):
    """to_json and from_json are inverse, through text, and names are kept."""
    fabric = clos()
    placed = place(Routing.shortest_paths(fabric), rings(list(range(8))), "random", draws=3).placement

    again = Placement.from_json(json.loads(json.dumps(placed.to_json(fabric))), fabric)

    assert again.to_json(fabric) == placed.to_json(fabric)


@pytest.mark.parametrize(
    "damage", [{"schema": "x"}, {"ranks": [{"rank": 1}]}, {"ranks": 5}, {"pinned": None}]
)
def test_other_json_is_no_placement(clos, damage):
    """Wrong schema or shape, ranks out of order, unknown hosts: InputErrors."""
    fabric = clos()
    data = Placement.of_hosts(fabric, ["node1"]).to_json(fabric)

    with pytest.raises(InputError):
        Placement.from_json(data | damage, fabric)


def test_moves_are_counted_against_the_parent():
    """Ranks whose host differs from the parent map's are moves."""
    column = np.array([3, 4, 5])

    assert Placement(column, column * 0, column, parent=np.array([3, 5, 4])).moves == 2
    assert Placement(column, column * 0, column).moves == 0


def test_two_ranks_never_share_an_accelerator():
    """The same host and GPU twice is refused."""
    same = np.array([1, 1])
    with pytest.raises(InputError, match="share one accelerator"):
        Placement(same, same, same)
