"""Where a steered hybrid is cut, against a case that can be worked out by hand; and choices of connections."""

from __future__ import annotations

import numpy as np
import pytest

from collectives.prediction import Predictor
from collectives.schedules import Op, build
from collectives.setting import Setting, Shape
from collectives.splitting import planned
from collectives.steering import Candidates
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.placement.mapping import Placement
from topology.routing import Routing

MIB = 1 << 20


def clos(spines, uplink_gbps):
    """4 leaves x 2 hosts of 0.1 Gbit/s."""
    builder = FabricBuilder()
    for spine in range(spines):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
    for leaf in range(4):
        builder.node(f"leaf{leaf}", NodeKind.SWITCH)
        for host in (2 * leaf, 2 * leaf + 1):
            builder.node(f"h{host}", NodeKind.HOST)
            builder.port(f"h{host}", "eth0", speed_gbps=0.1)
            builder.port(f"leaf{leaf}", f"d{host}", speed_gbps=0.1)
            builder.link((f"h{host}", "eth0"), (f"leaf{leaf}", f"d{host}"))
        for spine in range(spines):
            builder.port(f"leaf{leaf}", f"u{spine}", speed_gbps=uplink_gbps)
            builder.port(f"spine{spine}", f"d{leaf}", speed_gbps=uplink_gbps)
            builder.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"d{leaf}"))
    fabric = builder.build()
    routing = Routing.shortest_paths(fabric)
    placement = Placement.of_hosts(fabric, [f"h{rank}" for rank in range(8)])
    return routing, placement, Shape.of(routing, placement.nic.tolist())


def test_the_fabric_shapes_groups_and_rings():
    """Ranks of a leaf are a group; a leaf has as many ways out as next hops."""
    _, _, shape = clos(2, 0.05)
    assert shape == Shape(((0, 1), (2, 3), (4, 5), (6, 7)), 2)


def test_a_hybrid_on_three_uplinks_is_split_as_by_hand():
    """One uplink takes the ring's 1.75 x, two take the trees' four halves: 1.75 x = 1 - x, 0.636 against 1 alone."""
    routing, placement, shape = clos(3, 0.033)
    setting, plan = planned(
        Setting.parse("hybrid:tree_chunks=4,ring_channels=1+steer"), shape, routing, placement, 4 * MIB
    )
    assert plan.share == pytest.approx(1 / 2.75, rel=1e-3)
    assert plan.gain == pytest.approx(1 - 1.75 / 2.75, rel=1e-3)
    assert plan.share - 0.051 <= setting.options["x"] <= plan.share + 0.151


def test_unsteered_nothing_is_gained_where_the_nics_bind():
    """On mean loads the ring is bound by NICs, which the trees load as well."""
    routing, placement, shape = clos(2, 0.05)
    setting, plan = planned(Setting.parse("hybrid"), shape, routing, placement, 4 * MIB)
    assert (plan.gain, setting.options["x"]) == (0.0, 1.0)


def test_two_steered_rings_reach_the_bound():
    """Each on uplinks of its own; collisions cost half, and random choices have them."""
    routing, placement, _ = clos(2, 0.05)
    rings = build("ring", Op.ALL_REDUCE, 8, orders=[[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]])
    candidates = Candidates.anywhere(routing, placement, rings.channel_edges)
    chosen = candidates.chosen()
    expected_us = 1.75 * 4 * MIB * 8e-3 / 0.1
    assert candidates.busiest_us(chosen, 4 * MIB) == pytest.approx(expected_us)
    assert candidates.busiest_us(np.zeros_like(chosen), 4 * MIB) == pytest.approx(2 * expected_us)
    predictor = Predictor(routing, placement, rings)
    time_us = predictor.time_us(4 * MIB, MIB, candidates.links(chosen))
    assert time_us == pytest.approx(expected_us * 1.0566, rel=1e-3)
    assert predictor.bound_us(4 * MIB) == pytest.approx(expected_us)
    assert predictor.reaches(4 * MIB, time_us)
    low, middle, high = predictor.drawn_us(4 * MIB, MIB)
    assert expected_us <= low <= middle <= high <= 4.1 * expected_us
    assert not predictor.reaches(4 * MIB, middle)
