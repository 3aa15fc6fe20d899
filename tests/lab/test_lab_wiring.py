"""Wiring, addresses and routes as computed from a specification, before anything is built."""

from __future__ import annotations

import ipaddress
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.lab import LabSpec
from nettune.lab.routes import router_routes
from nettune.lab.spec import make_spec
from nettune.lab.wiring import Move, Wiring


@st.composite
def wirings(draw):
    values = {
        "leaves": draw(st.integers(1, 6)),
        "spines": draw(st.integers(1, 4)),
        "hosts_per_leaf": draw(st.integers(1, 5)),
        "rails": draw(st.integers(1, 3)),
        "rail_wiring": draw(st.sampled_from(["same-leaf", "per-rail"])),
        "parallel_uplinks": draw(st.integers(1, 3)),
    }
    try:
        return Wiring(make_spec(values), {})
    except InputError:
        return Wiring(LabSpec(), {})


@given(wirings())
def test_every_port_has_one_cable_and_every_address_one_port(wiring):
    """Ports and addresses are used once; the ends of a link share a /31; host links lie in the leaf's prefix."""
    ports = Counter((end.node, end.iface) for link in wiring.links for end in link.ends)
    addresses = Counter(end.address for link in wiring.links for end in link.ends)

    assert set(ports.values()) == {1}
    assert set(addresses.values()) == {1}
    assert all(len(iface) < 16 for _, iface in ports)
    for link in wiring.links:
        pair = ipaddress.ip_network(f"{link.lower.address}/31", strict=False)
        assert ipaddress.ip_address(link.upper.address) in pair
        if link.kind == "host":
            prefix = ipaddress.ip_network(wiring.prefix(link.upper.node))
            assert ipaddress.ip_address(link.lower.address) in prefix
    spec = wiring.spec
    assert (
        len(wiring.links) == spec.host_count * spec.rails + spec.leaves * spec.spines * spec.parallel_uplinks
    )


def test_rails_go_to_the_leaves_that_the_wiring_says():
    """same-leaf: both NICs of a host on its leaf; per-rail: rail r of pod p on leaf p * rails + r."""
    values = {"leaves": 4, "spines": 2, "hosts_per_leaf": 2, "rails": 2}
    same = Wiring(make_spec(values), {})
    split = Wiring(make_spec({**values, "rail_wiring": "per-rail"}), {})

    assert len(same.hosts) == 8
    assert len(split.hosts) == 4
    assert [(far.node, far.iface) for _, _, far in same.links_of["h3"]] == [("leaf1", "d2"), ("leaf1", "d3")]
    assert [(far.node, far.iface) for _, _, far in split.links_of["h3"]] == [("leaf2", "d1"), ("leaf3", "d1")]


def test_moved_cable_gets_a_free_port_and_an_address_of_its_new_leaf():
    """What miswire does to the wiring: one link differs, everything else stays."""
    before = Wiring(LabSpec(), {})
    port = before.free_port("leaf3")
    assert port is not None
    after = Wiring(LabSpec(), {("h0", "eth0"): Move("leaf3", port)})

    assert port == 2
    assert after.links[0].upper.iface == "d2"
    assert after.links[0].lower.address == "10.0.3.5"
    assert before.links[1:] == after.links[1:]


def hops(wiring, down):
    return {
        (router, route.prefix): [iface for _, iface in route.hops]
        for router, routes in router_routes(wiring, down).items()
        for route in routes
    }


def test_next_hops_stand_in_the_order_of_the_uplinks():
    """Spine by spine, parallel link by parallel link: the order that predictions of the hash rely on."""
    found = hops(Wiring(make_spec({"parallel_uplinks": 2}), {}), frozenset())

    assert found["leaf0", "10.0.1.0/24"] == ["u0", "u1", "u2", "u3"]
    assert found["spine1", "10.0.2.0/24"] == ["d4", "d5"]
    assert ("leaf0", "10.0.0.0/24") not in found


def test_down_link_is_withdrawn_at_the_far_leaves_too():
    """A spine that lost its link to leaf0 is no next hop towards leaf0 anywhere, but still one between others."""
    found = hops(Wiring(LabSpec(), {}), {"leaf0:u0--spine0:d0"})

    assert found["leaf0", "10.0.1.0/24"] == ["u1"]
    assert found["leaf1", "10.0.0.0/24"] == ["u1"]
    assert found["leaf1", "10.0.2.0/24"] == ["u0", "u1"]
    assert found["spine0", "10.0.0.0/24"] == []
    assert found["spine1", "10.0.0.0/24"] == ["d0"]


@given(wirings(), st.data())
def test_every_next_hop_is_up_and_leads_on(wiring, data):
    """Whatever is down: a next hop's link is up, and the spine behind it has a route to the destination."""
    uplinks = [link.key for link in wiring.links if link.kind == "uplink"]
    down = data.draw(st.frozensets(st.sampled_from(uplinks)))
    by_port = {(end.node, end.iface): link for link in wiring.links for end in link.ends}
    found = hops(wiring, down)

    for (router, prefix), ifaces in found.items():
        for iface in ifaces:
            link = by_port[router, iface]
            assert link.key not in down
            if router in wiring.leaves:
                assert found[link.upper.node, prefix] != []
