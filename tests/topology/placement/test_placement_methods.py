"""The methods one by one: Slurm's choice, exhaustion against brute force, integer programming, tiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.loads import predict
from topology.placement.classes import ClassTable, best_of_all, class_maps, class_of_slot, slots_of_classes
from topology.placement.methods import exact, packed, regrouped, search
from topology.placement.place import place, problem_of
from topology.placement.pricing import Prices
from topology.routing import Routing


def hosts_of(placed):
    return placed.placement.hosts(placed.problem.routing.fabric)


def test_slurm_takes_the_tightest_leaf(leaves, rings):
    """A job of 2 goes to the leaf of 2, a job of 5 fills the largest leaf and then the tightest for the rest."""
    routing = Routing.shortest_paths(leaves([3, 4, 2]))

    assert hosts_of(place(routing, rings(2, ([[0, 1]], 1e6)), "slurm")) == ["node8", "node9"]
    five = rings(5, ([list(range(5))], 1e6))
    assert hosts_of(place(routing, five, "slurm")) == ["node4", "node5", "node6", "node7", "node8"]


def test_slurm_orders_by_leaf_not_by_pod(leaves, rings):
    """Leaves follow their names; depth-first keeps pods together. Here the names alternate between pods."""
    fabric = leaves([1, 1, 1, 1], pods=2)
    names = tuple({"leaf1": "leaf2", "leaf2": "leaf1"}.get(name, name) for name in fabric.nodes.name)
    nodes = type(fabric.nodes)(names, *list(vars(fabric.nodes).values())[1:])
    routing = Routing.shortest_paths(
        type(fabric)(nodes, fabric.ports, fabric.links, fabric.gpus, fabric.provenance)
    )
    traffic = rings(4, ([[0, 1, 2, 3]], 1e6))

    assert hosts_of(place(routing, traffic, "slurm")) == ["node1", "node3", "node2", "node4"]
    assert hosts_of(place(routing, traffic, "depth-first")) == ["node1", "node2", "node3", "node4"]


def test_depth_first_follows_leaf_groups(rail_fabric, rings):
    """On a rail fabric, where no switch holds a host alone, hosts are listed group by group."""
    routing = Routing.shortest_paths(rail_fabric(8, rails=2, per_leaf=2, spines=2))

    placed = place(routing, rings(16, ([list(range(0, 16, 2))], 1e6)), "depth-first", ranks_per_host=2)

    assert hosts_of(placed)[::2] == [f"h{host}" for host in range(8)]


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), spare=st.integers(0, 1))
def test_exhaustion_is_brute_force(leaves, grid, seed, spare):
    """The best class map costs what the best of all permutations of hosts costs, uneven speeds and a spare host included."""
    generator = np.random.default_rng(seed)
    fabric = leaves([2, 2, 1], 2, up_gbps=[50, float(generator.choice([50, 25])), 100])
    routing = Routing.shortest_paths(fabric)
    problem = problem_of(routing, grid(generator, 5 - spare), ranks_per_host=1, draws=20)
    slots = best_of_all(problem, 10**6)
    assert slots is not None
    assert len(set(slots.tolist())) == 5 - spare

    least = min(
        predict(routing, problem.placement(np.array(chosen), ""), problem.traffic, draws=20).time_us[2]
        for chosen in itertools.permutations(range(5), 5 - spare)
    )

    assert Prices(problem).price(slots).time_us == pytest.approx(least)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), rails=st.integers(1, 2))
def test_the_table_has_the_prices(leaves, grid, seed, rails):
    """Time and bytes on uplinks of class maps are those of the maps themselves."""
    generator = np.random.default_rng(seed)
    problem = problem_of(
        Routing.shortest_paths(leaves([2, 3], rails=rails)),
        grid(generator, 4 * rails),
        ranks_per_host=rails,
        draws=20,
    )
    classes = class_of_slot(problem)
    maps = class_maps(problem, classes, 10**6)
    assert maps is not None
    time_us, _ = ClassTable(problem, classes).prices(maps)
    prices = Prices(problem)

    assert time_us == pytest.approx(
        [prices.price(slots_of_classes(problem, classes, one)).time_us for one in maps]
    )


def test_alike_leaves_are_counted_once(leaves, rings):
    """Nine nodes on 3 x 3 hosts: 280 maps, not 1,680; a leaf of another speed counts by itself."""
    traffic = rings(9, ([list(range(9))], 1e6))
    counts = []
    for ups in ([50, 50, 50], [50, 50, 40]):
        problem = problem_of(
            Routing.shortest_paths(leaves([3, 3, 3], up_gbps=ups)), traffic, ranks_per_host=1
        )
        maps = class_maps(problem, class_of_slot(problem), 10**6)
        assert maps is not None
        counts.append(len(maps))
    assert counts == [280, 840]


def test_integer_programming_finds_the_least_load(leaves, rings, monkeypatch):
    """Where maps are too many, groups that stride over leaves are put together again."""
    monkeypatch.setattr(exact, "MOST_MAPS", 1)
    monkeypatch.setattr(search, "order", lambda problem: np.arange(problem.units))
    routing = Routing.shortest_paths(leaves([4, 4], up_gbps=[25, 25]))
    traffic = rings(8, ([[0, 2, 4, 6], [1, 3, 5, 7]], 1e7))

    placed = place(routing, traffic, "exact", ranks_per_host=1, pins={0: "node5"})

    assert placed.gap == pytest.approx(0)
    assert hosts_of(placed)[0] == "node5"


def test_exact_refuses_what_is_too_large(leaves, rings, monkeypatch):
    """64 nodes are refused in one line."""
    monkeypatch.setattr(exact, "MOST_MAPS", 1)
    routing = Routing.shortest_paths(leaves([16] * 4, 4))
    groups = [list(range(place, 64, 8)) for place in range(8)]
    traffic = rings(64, (groups, 1e6), ([list(range(64))], 1e6), (groups, 2e6), ([list(range(64))], 2e6))
    with pytest.raises(InputError, match="too many for the exact method"):
        place(routing, traffic, "exact", ranks_per_host=1)


def test_packing_keeps_groups_in_leaves(leaves, rings):
    """Strided groups of 4 on leaves of 4."""
    problem = problem_of(
        Routing.shortest_paths(leaves([4, 4, 4])),
        rings(12, ([[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]], 1e6)),
    )

    group = problem.group_of_slot[packed.order(problem)]

    assert (group[0::3] == group[0]).all()
    assert (group[1::3] == group[1]).all()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 12), st.integers(0, 2))
def test_every_tile_is_a_map(leaves, rings, sizes, ranks, pinned):
    """All regroupings put every node into a slot of its own and honour pins."""
    ranks = min(ranks, sum(sizes))
    if ranks < 2:
        return
    routing = Routing.shortest_paths(leaves(sizes))
    pins = {rank: f"node{sum(sizes) - rank}" for rank in range(min(pinned, ranks))}
    problem = problem_of(routing, rings(ranks, ([list(range(ranks))], 1e6)), ranks_per_host=1, pins=pins)

    for slots in itertools.chain(regrouped.orders(problem), regrouped.blocks(problem)):
        assert len(set(slots.tolist())) == ranks
        assert all(slots[rank] == problem.pinned[rank] for rank in pins)
