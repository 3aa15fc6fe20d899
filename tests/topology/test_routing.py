"""Paths and their probabilities."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp import HashSpec
from topology.routing import FlowKey, NextHops, Routing, UnknownPathError

SIZES = {
    "leaves": st.integers(1, 4),
    "spines": st.integers(1, 4),
    "hosts_per_leaf": st.integers(1, 3),
    "parallel": st.integers(1, 2),
}
HASH = HashSpec("linux-multipath", 7)


def nic(fabric, host):
    """Port row of a host's NIC."""
    return fabric.port_row(host, "eth0")


@given(**SIZES)
def test_spread_conserves_the_flow(clos, leaves, spines, hosts_per_leaf, parallel):
    """Into and out of every switch on the way goes the same probability, and 1 in all leaves and arrives."""
    fabric = clos(leaves, spines, hosts_per_leaf, parallel=parallel)
    routing = Routing.shortest_paths(fabric)
    first, last = nic(fabric, fabric.hosts[0]), nic(fabric, fabric.hosts[-1])

    spread = routing.spread(first, last)

    balance = dict.fromkeys(range(len(fabric.nodes.name)), 0.0)
    for link, probability in spread.items():
        sender, receiver = (int(fabric.ports.node[port]) for port in fabric.directed_ports[link])
        balance[sender] -= probability
        balance[receiver] += probability
    ends = {} if first == last else {fabric.ports.node[first]: -1.0, fabric.ports.node[last]: 1.0}
    assert balance == pytest.approx(dict.fromkeys(balance, 0.0) | ends)


def test_alternatives_are_equal_among_spines(clos):
    """Two hosts of different leaves have one path per uplink, all equally likely."""
    fabric = clos(4, 2, 2, parallel=2)
    routing = Routing.shortest_paths(fabric)

    paths = routing.alternatives(nic(fabric, "node1"), nic(fabric, "node8"))

    assert [probability for probability, _ in paths] == pytest.approx(
        [1 / 8] * 8
    )  # 4 uplinks, 2 downlinks each
    assert {len(links) for _, links in paths} == {4}


def test_weights_shift_the_spread(clos):
    """A next hop of weight 3 gets three quarters."""
    fabric = clos(2, 2, 1)
    routing = Routing.shortest_paths(fabric)
    leaf, group = fabric.node_row("leaf0"), int(routing.group[nic(fabric, "node2")])
    links = routing.table[leaf, group].links
    weighted = Routing(fabric, routing.group, {**routing.table, (leaf, group): NextHops(links, (3, 1))})

    spread = weighted.spread(nic(fabric, "node1"), nic(fabric, "node2"))

    assert [spread[link] for link in links] == pytest.approx([0.75, 0.25])


@given(sport=st.integers(1024, 65535), dport=st.integers(1, 65535))
def test_an_exact_path_is_one_of_the_alternatives(clos, sport, dport):
    """With ports and hash known the path is one of those that were possible, and both directions are consistent."""
    fabric = clos(4, 3, 2)
    routing = Routing.shortest_paths(fabric, HASH)
    a, b = nic(fabric, "node1"), nic(fabric, "node5")

    path = routing.path(FlowKey(a, b, 6, sport, dport))

    assert path in [links for _, links in routing.alternatives(a, b)]


def test_many_ports_reach_every_path(clos):
    """Over source ports the hash uses all paths about equally."""
    fabric = clos(2, 4, 1)
    routing = Routing.shortest_paths(fabric, HASH)
    a, b = nic(fabric, "node1"), nic(fabric, "node2")

    paths = routing.paths([FlowKey(a, b, 17, sport, 4791) for sport in range(49152, 51152)])

    counts = [paths.count(path) for path in set(paths)]
    assert len(counts) == 4
    assert min(counts) > 400


def test_what_is_not_known_is_not_guessed(clos):
    """Without a hash or a source port `path` refuses, naming what is missing; inside a leaf it needs neither."""
    fabric = clos()
    a, b, near = nic(fabric, "node1"), nic(fabric, "node8"), nic(fabric, "node2")

    with pytest.raises(UnknownPathError, match="hash of leaf0"):
        Routing.shortest_paths(fabric).path(FlowKey(a, b, 6, 1, 2))
    with pytest.raises(UnknownPathError, match="source port"):
        Routing.shortest_paths(fabric, HASH).path(FlowKey(a, b))
    assert len(Routing.shortest_paths(fabric).path(FlowKey(a, near))) == 2


def test_no_route_is_an_error(clos):
    """Two halves without a spine between them have no path."""
    fabric = clos(2, 0, 1)

    with pytest.raises(UnknownPathError, match="leaf0 has no route to host/node2/nic/eth0"):
        Routing.shortest_paths(fabric).alternatives(nic(fabric, "node1"), nic(fabric, "node2"))


def test_a_loop_is_an_error(clos):
    """Next hops that lead in a circle are found, not followed for ever."""
    fabric = clos(2, 1, 1)
    routing = Routing.shortest_paths(fabric)
    spine, group = fabric.node_row("spine0"), int(routing.group[nic(fabric, "node2")])
    back = int(fabric.out_of_port[fabric.port_row("spine0", "d0")])
    looping = Routing(fabric, routing.group, {**routing.table, (spine, group): NextHops((back,), (1,))})

    with pytest.raises(UnknownPathError, match="loop"):
        looping.alternatives(nic(fabric, "node1"), nic(fabric, "node2"))
    with pytest.raises(UnknownPathError, match="loop"):
        looping.path(FlowKey(nic(fabric, "node1"), nic(fabric, "node2"), 6, 1, 1))


@given(**SIZES)
def test_a_routing_survives_json(clos, leaves, spines, hosts_per_leaf, parallel):
    """to_json and from_json are inverse, through text."""
    fabric = clos(leaves, spines, hosts_per_leaf, parallel=parallel)
    routing = Routing.shortest_paths(fabric, HASH)

    again = Routing.from_json(json.loads(json.dumps(routing.to_json())), fabric)

    assert again.to_json() == routing.to_json()


def test_next_hops_leave_through_their_switch(clos):
    """A table whose link starts elsewhere is refused."""
    fabric = clos()
    with pytest.raises(InputError, match="does not leave"):
        Routing(
            fabric,
            Routing.shortest_paths(fabric).group,
            {(fabric.node_row("leaf0"), 0): NextHops((0,), (1,))},
        )
