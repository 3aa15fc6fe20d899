"""The cut bound of a collective: below every schedule that can be built, and equal to the best known where one is tight."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.cost.bound import OPERATIONS, Demand, best_hosts_bound, collective_bound
from collectives.schedules import BUILDERS, build
from nettune.errors import InputError
from topology.loads import predict
from topology.placement.mapping import Placement
from topology.routing import Routing
from topology.traffic import Phase

SIZE = 1e6
SLACK = 1 - 1e-9
BUILT = sorted((name, str(op)) for name, op in BUILDERS if str(op) in OPERATIONS)
OPTIONS: dict[str, dict[str, Any]] = {"hybrid": {"x": 0.4}}


def schedule_of(name: str, op: str, ranks: int):
    """A schedule with the builder's defaults, or with groups of two where it needs groups."""
    try:
        return build(name, op, ranks, **OPTIONS.get(name, {}))
    except InputError:
        return build(name, op, ranks, groups=[[rank, rank + 1] for rank in range(0, ranks, 2)])


@st.composite
def clusters(draw):
    """A random fabric, hosts of ranks (perhaps two on one), an even number of them."""
    leaves = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    speeds = draw(st.lists(st.sampled_from([25.0, 50.0, 100.0, 400.0]), min_size=4, max_size=4))
    hosts = sum(leaves)
    per_host = draw(st.integers(1, 2))
    slots = draw(st.permutations([host for host in range(hosts) for _ in range(per_host)]))
    ranks = draw(st.integers(1, max(1, len(slots) // 2))) * 2
    rails, domain = draw(st.sampled_from([(1, 0), (2, 0), (1, 2)]))
    shape = {"spines": draw(st.integers(1, 3)), "rails": rails, "domain": domain}
    return leaves, speeds, (slots * 2)[:ranks], per_host, shape


def fabric_and_placement(fabric_of, cluster):
    """Build both from what `clusters` drew."""
    leaves, speeds, hosts, _, shape = cluster
    fabric = fabric_of(
        leaves,
        host_gbps=lambda host: speeds[host % 4],
        uplink_gbps=lambda leaf, spine: speeds[(leaf + spine) % 4],
        **shape,
    )
    return fabric, Placement.of_hosts(fabric, [f"h{host}" for host in hosts])


def max_link_us(fabric, placement, schedule) -> float:
    """The least over port draws of the time that the schedule's bytes need."""
    edges = schedule.edges

    class Step:
        ranks = placement.ranks
        phases = (Phase("p", str(schedule.op), SIZE, edges.src, edges.dst, edges.share * SIZE),)

    return predict(Routing.shortest_paths(fabric), placement, Step(), draws=5).time_us[0]


@pytest.mark.parametrize(("name", "op"), BUILT)
@settings(max_examples=12)
@given(cluster=clusters())
def test_no_schedule_beats_the_bound(fabric_of, name, op, cluster):
    """Whatever algorithm, fabric and map: the bytes of every builder need at least the bound, and the bound over maps."""
    fabric, placement = fabric_and_placement(fabric_of, cluster)
    # Two ranks on two hosts at least: what stays in a host is free.
    try:
        schedule = schedule_of(name, op, placement.ranks)
    except InputError:  # no such schedule for this number of ranks
        return
    needed = max_link_us(fabric, placement, schedule)

    bound = collective_bound(fabric, placement, [Demand(op, SIZE, [range(placement.ranks)])])
    most = int(np.bincount(placement.host).max())
    free = best_hosts_bound(fabric, op, SIZE, placement.ranks, ranks_per_host=max(most, cluster[3]))

    assert needed >= bound.time_us * SLACK
    assert bound.time_us >= free.time_us * SLACK


@pytest.mark.parametrize(("op", "factor"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_rings_on_one_switch_reach_the_bound(fabric_of, op, factor, ranks):
    """There the bound is the bandwidth-optimal time, factor (n-1)/n S / B: nothing between it and the ring."""
    fabric = fabric_of((ranks,))
    placement = Placement.of_hosts(fabric, fabric.hosts)

    bound = collective_bound(fabric, placement, [Demand(op, SIZE, [range(ranks)])])

    assert bound.time_us == pytest.approx(factor * (ranks - 1) / ranks * SIZE * 8e-3 / 100)
    assert max_link_us(fabric, placement, build("ring", op, ranks)) == pytest.approx(bound.time_us)
    assert best_hosts_bound(fabric, op, SIZE, ranks).time_us == pytest.approx(bound.time_us)


def test_no_demand_and_hosts_named_twice(fabric_of):
    """Nothing to do takes no time, and a host that is named four times has one slot still."""
    fabric = fabric_of((2, 2))
    placement = Placement.of_hosts(fabric, fabric.hosts)
    assert collective_bound(fabric, placement, []).time_us == 0
    with pytest.raises(InputError, match="more than the 1 slots"):
        best_hosts_bound(fabric, "all_reduce", SIZE, 4, hosts=["h0"] * 4)
    for size in (float("nan"), float("inf"), -1.0):
        with pytest.raises(InputError, match="negative or no number"):
            Demand("all_reduce", size, [range(4)])


def test_thin_uplinks_bind(fabric_of):
    """4 hosts on each of 2 leaves with one 25 Gbit/s uplink: S out of a leaf at 25, not S out of a host at 100."""
    fabric = fabric_of((4, 4), spines=1, uplink_gbps=25.0)
    placement = Placement.of_hosts(fabric, fabric.hosts)
    demand = Demand("all_reduce", SIZE, [range(8)])

    bound = collective_bound(fabric, placement, [demand])

    assert bound.time_us == pytest.approx(SIZE * 8e-3 / 25)
    assert "switch/leaf" in bound.where
    assert max_link_us(fabric, placement, build("ring", "all_reduce", 8)) == pytest.approx(
        bound.time_us * 7 / 4
    )
    assert best_hosts_bound(fabric, "all_reduce", SIZE, 8).time_us == pytest.approx(bound.time_us)
    # Four ranks fit under one leaf, where only the NICs bind.
    assert best_hosts_bound(fabric, "all_reduce", SIZE, 4).time_us == pytest.approx(1.5 * SIZE * 8e-3 / 100)


def test_one_slow_host_binds_only_where_it_must_be_used(fabric_of):
    """With a spare host the slow one can be left out."""
    fabric = fabric_of((4,), host_gbps=lambda host: 10.0 if host == 2 else 100.0)
    placement = Placement.of_hosts(fabric, fabric.hosts)

    bound = collective_bound(fabric, placement, [Demand("all_reduce", SIZE, [range(4)])])

    assert bound.time_us == pytest.approx(SIZE * 8e-3 / 10)
    assert bound.where == "out of host/h2"
    assert best_hosts_bound(fabric, "all_reduce", SIZE, 4).time_us == pytest.approx(SIZE * 8e-3 / 10)
    assert best_hosts_bound(fabric, "all_reduce", SIZE, 3).time_us == pytest.approx(4 / 3 * SIZE * 8e-3 / 100)
    with pytest.raises(InputError, match="slots"):
        best_hosts_bound(fabric, "all_reduce", SIZE, 4, hosts=["h0", "h1", "h3"])


def test_unequal_parts_need_what_they_keep(fabric_of):
    """3 of 4 ranks on a slow host: it must receive 3/4 of a reduce-scatter, and of an all-gather send as much."""
    fabric = fabric_of((2,), host_gbps=lambda host: 10.0 if host == 0 else 100.0)
    placement = Placement.of_hosts(fabric, ["h0", "h0", "h0", "h1"])

    for op, where in (("reduce_scatter", "into host/h0"), ("all_gather", "out of host/h0")):
        bound = collective_bound(fabric, placement, [Demand(op, SIZE, [range(4)])])
        assert bound.time_us == pytest.approx(0.75 * SIZE * 8e-3 / 10)
        assert bound.where == where


@pytest.mark.parametrize("op", ["broadcast", "reduce"])
def test_a_rooted_operation_crosses_every_host_once(fabric_of, op):
    """Root or not, the slow host sends or receives the whole message."""
    fabric = fabric_of((3,), host_gbps=lambda host: 10.0 if host == 0 else 100.0)
    placement = Placement.of_hosts(fabric, fabric.hosts)
    slow = SIZE * 8e-3 / 10

    for root in range(3):
        group = [root, *(rank for rank in range(3) if rank != root)]
        assert collective_bound(fabric, placement, [Demand(op, SIZE, [group])]).time_us == pytest.approx(slow)
    assert best_hosts_bound(fabric, op, SIZE, 3).time_us == pytest.approx(slow)
    assert best_hosts_bound(fabric, op, SIZE, 2).time_us == pytest.approx(slow / 10)


def test_groups_at_once_add_up(fabric_of):
    """Two groups over the same hosts need twice the time of one; groups inside hosts need none."""
    fabric = fabric_of((2, 2))
    placement = Placement.of_hosts(fabric, [host for host in fabric.hosts for _ in range(2)])

    def bound(*groups):
        return collective_bound(fabric, placement, [Demand("all_reduce", SIZE, groups)]).time_us

    across = [range(0, 8, 2), range(1, 8, 2)]
    assert bound(*across) == pytest.approx(2 * bound(across[0]))
    assert bound(*[[2 * host, 2 * host + 1] for host in range(4)]) == 0
    both = [Demand("all_reduce", SIZE, across), Demand("all_gather", SIZE, across)]
    assert collective_bound(fabric, placement, both).time_us == pytest.approx(1.5 * bound(*across))


def test_rails_and_domains_are_cuts_of_their_own(fabric_of):
    """Two rails double what leaves a host; hosts of one accelerator domain exchange off the network."""
    one, two = fabric_of((4,)), fabric_of((4,), rails=2)
    joined = fabric_of((4,), domain=2)
    demand = Demand("all_reduce", SIZE, [range(4)])
    times = [
        collective_bound(fabric, Placement.of_hosts(fabric, fabric.hosts), [demand]).time_us
        for fabric in (one, two, joined)
    ]

    assert times[1] == pytest.approx(times[0] / 2)
    assert times[2] == pytest.approx(SIZE * 8e-3 / 200)


def test_an_unknown_speed_never_makes_a_bound(fabric_of):
    """A cable of unknown speed may be as fast as one likes."""
    fabric = fabric_of((2, 2), uplink_gbps=0.0, host_gbps=0.0)
    placement = Placement.of_hosts(fabric, fabric.hosts)

    assert collective_bound(fabric, placement, [Demand("all_reduce", SIZE, [range(4)])]).time_us == 0


def test_bad_demands_are_refused(fabric_of):
    """Unknown operations, unequal groups, ranks twice or outside, hosts that no cable joins."""
    for op, size, groups in (("gossip", 1, [[0]]), ("all_reduce", -1, [[0]]), ("all_reduce", 1, [])):
        with pytest.raises(InputError):
            Demand(op, size, groups)
    uneven: list[list[list[int]]] = [[[0, 1], [2]], [[0, 0]], [[]]]
    for ranks in uneven:
        with pytest.raises(InputError):
            Demand("all_reduce", 1, ranks)
    fabric = fabric_of((1, 1), spines=0)
    placement = Placement.of_hosts(fabric, fabric.hosts)
    with pytest.raises(InputError, match="not one of the placement's 2"):
        collective_bound(fabric, placement, [Demand("all_reduce", 1, [[0, 5]])])
    with pytest.raises(InputError, match="no cable that is up"):
        collective_bound(fabric, placement, [Demand("all_reduce", 1, [[0, 1]])])
    with pytest.raises(InputError, match="fewer are joined by cables"):
        best_hosts_bound(fabric, "all_reduce", 1, 2)


def test_a_bound_is_plain_data(fabric_of):
    """Time and what binds, as JSON."""
    fabric = fabric_of((2,))
    bound = best_hosts_bound(fabric, "broadcast", SIZE, 2)

    assert json.loads(json.dumps(asdict(bound))) == {
        "time_us": 80.0,
        "where": "at least 2 parts at level host",
    }
