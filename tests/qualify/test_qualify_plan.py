"""Rounds of probes: disjoint, complete, and over every link in each direction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nettune.qualify.plan import make_plan
from nettune.qualify.ports import TCP_PORT, UDP_PORT
from topology.routing import FlowKey

SHAPES = st.tuples(st.integers(2, 5), st.integers(1, 3), st.integers(1, 3))


@given(SHAPES, st.booleans())
def test_flows_of_a_round_share_no_directed_link(made, shape, known):
    """Two flows of one round never cross the same directed link, whatever the hash does when it is not known."""
    fabric, routing = made.clos(*shape, known=known)
    for flows in make_plan(fabric, routing, fabric.hosts).rounds:
        links = [link for flow in flows for link in flow.links]
        assert len(links) == len(set(links))
        assert len(flows) <= 4


RATES = st.sampled_from([0.1, 0.2, 0.25, 0.4])


@settings(deadline=None, max_examples=40)
@given(SHAPES, st.integers(1, 2), RATES, RATES)
def test_every_link_is_filled_as_far_as_the_fabric_can(made, shape, parallel, host_gbps, uplink_gbps):
    """Some round brings each link its nominal rate, or all that hosts can send over it; no link ever gets more."""
    fabric, routing = made.clos(*shape, parallel=parallel, host_gbps=host_gbps, uplink_gbps=(uplink_gbps,))
    plan = make_plan(fabric, routing, fabric.hosts)
    best = np.zeros(fabric.directed_count)
    for flows in plan.rounds:
        loads = np.zeros(fabric.directed_count)
        for flow in flows:
            loads[list(flow.links)] += flow.nominal_gbps
        assert np.all(loads <= fabric.directed_gbps * 1.001)
        best = np.maximum(best, loads)
    assert np.all(best >= 0.98 * plan.most_gbps)


@pytest.mark.parametrize(
    ("shape", "rates", "port", "most"),
    [
        ((3, 1, 1), (0.2, (0.1,)), ("h0", "eth0"), 0.1),
        ((3, 2, 1), (0.2, (0.1,)), ("h0", "eth0"), 0.2),
        ((2, 1, 2), (0.1, (0.4,)), ("leaf0", "u0"), 0.2),
        ((2, 1, 3), (0.1, (0.25,)), ("leaf0", "u0"), 0.25),
        ((2, 2, 1), (0.4, (0.1, 0.2)), ("h1", "eth0"), 0.3),
    ],
)
def test_the_most_that_can_cross_a_link_is_known(made, shape, rates, port, most):
    """Uplinks bound what reaches a NIC, and NICs what reaches an uplink, however the flows are chosen."""
    fabric, routing = made.clos(*shape, host_gbps=rates[0], uplink_gbps=rates[1])
    plan = make_plan(fabric, routing, fabric.hosts)
    out = int(fabric.out_of_port[fabric.port_row(*port)])
    assert plan.most_gbps[[out, out ^ 1]] == pytest.approx([most, most], rel=1e-6)


def test_filling_avoids_what_it_is_told(made):
    """A NIC of twice the uplinks' rate is filled over both uplinks, without the other host of its leaf."""
    fabric, routing = made.clos(4, 2, 2, host_gbps=0.2)
    plan = make_plan(fabric, routing, fabric.hosts)
    out, other = (int(fabric.out_of_port[fabric.port_row(host, "eth0")]) for host in ("h4", "h5"))
    filling = plan.filler.fill(out ^ 1, avoid=frozenset((other, other ^ 1)))
    assert filling.gbps == pytest.approx(0.2)
    assert len(filling.flows) >= 2
    assert all(out ^ 1 in flow.links and other not in flow.links for flow in filling.flows)


def test_without_known_hashes_no_set_is_promised(made):
    """Where a path cannot be chosen, flows are not put together into a set."""
    fabric, routing = made.clos(3, 2, 1, host_gbps=0.2, known=False)
    plan = make_plan(fabric, routing, fabric.hosts)
    assert all(flow.fills < 0 for flows in plan.rounds for flow in flows)


@settings(max_examples=40)
@given(SHAPES, st.booleans())
def test_every_ordered_pair_and_every_link_is_probed(made, shape, known):
    """Each host sends to each other host, and each directed link is crossed at least twice."""
    fabric, routing = made.clos(*shape, known=known)
    plan = make_plan(fabric, routing, fabric.hosts)
    nodes = fabric.ports.node
    pairs = {
        (int(nodes[flow.src_port]), int(nodes[flow.dst_port])) for flows in plan.rounds for flow in flows
    }
    hosts = len(fabric.hosts)
    assert len(pairs) == hosts * (hosts - 1)
    assert plan.crossings.min() >= 1.9 if hosts > 2 else plan.crossings.min() >= 0.5


def test_chosen_ports_take_the_planned_path(made):
    """All TCP source ports of a flow, and its UDP port, are hashed onto the path that the plan says."""
    fabric, routing = made.clos(4, 2, 2, parallel=2)
    for flows in make_plan(fabric, routing, fabric.hosts).rounds:
        for flow in flows:
            keys = [FlowKey(flow.src_port, flow.dst_port, 6, port, TCP_PORT) for port in flow.tcp_ports]
            keys += [FlowKey(flow.src_port, flow.dst_port, 17, port, UDP_PORT) for port in flow.udp_ports]
            assert set(routing.paths(keys)) == {flow.alternatives[0][1]}


def test_eight_hosts_take_about_fourteen_rounds(made):
    """56 ordered pairs, four at a time, fit into 14 to 16 rounds, each directed link crossed evenly."""
    fabric, routing = made.clos(4, 2, 2)
    plan = make_plan(fabric, routing, fabric.hosts)
    assert 14 <= len(plan.rounds) <= 16
    assert plan.crossings.max() <= 2 * plan.crossings.min()


def test_rails_are_probed_rail_by_rail(made):
    """All pairs of hosts on each rail, and a few transfers across rails, so that every pair of leaves meets."""
    fabric, routing = made.clos(4, 2, 3, rails=2)
    flows = [flow for flows in make_plan(fabric, routing, fabric.hosts).rounds for flow in flows]
    rail, nodes = fabric.ports.rail, fabric.ports.node
    along = [flow for flow in flows if rail[flow.src_port] == rail[flow.dst_port]]
    assert {(flow.src_port, flow.dst_port) for flow in along} == {
        (src, dst)
        for a in fabric.hosts
        for b in fabric.hosts
        for src, dst in zip(fabric.nics(a), fabric.nics(b), strict=True)
        if a != b
    }
    leaves = {(fabric.leaf_of(flow.src_port), fabric.leaf_of(flow.dst_port)) for flow in flows}
    assert len([pair for pair in leaves if pair[0] != pair[1]]) == 12
    assert all(nodes[flow.src_port] != nodes[flow.dst_port] for flow in flows)


def test_a_large_fabric_is_sampled_and_still_covered(made):
    """Above the limit of pairs each NIC sends to a few others, and every directed link is crossed."""
    fabric, routing = made.clos(8, 4, 8)
    plan = make_plan(fabric, routing, fabric.hosts, most_pairs=240)
    assert plan.flows < 600
    assert plan.crossings.min() >= 3.9


def test_a_host_behind_a_dead_link_is_reported_not_dropped(made):
    """Pairs without a route are listed with the reason; the others are planned."""
    fabric, routing = made.clos(2, 1, 2, down=("h0:eth0--leaf0:d0",))
    plan = make_plan(fabric, routing, fabric.hosts)
    assert len(plan.unroutable) == 6
    assert all("h0" in reason for _, _, reason in plan.unroutable)
    assert plan.flows >= 6


@pytest.mark.parametrize("known", [True, False])
def test_flow_knows_the_chance_that_it_crosses_links(made, known):
    """`crosses` is 0 or 1 where the path is known and the hash's share where it is not."""
    fabric, routing = made.clos(2, 2, 1, known=known)
    flow = make_plan(fabric, routing, fabric.hosts).rounds[0][0]
    spread = routing.spread(flow.src_port, flow.dst_port)
    chances = [flow.crosses(frozenset((link,))) for link in spread]
    assert sorted(set(np.round(chances, 6))) == ([0.0, 1.0] if known else [0.5, 1.0])
