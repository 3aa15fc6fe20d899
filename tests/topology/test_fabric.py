"""The fabric's columns, what they refuse, and their JSON."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.fabric import Fabric, LinkState, NodeKind

SIZES = {
    "leaves": st.integers(1, 5),
    "spines": st.integers(1, 4),
    "hosts_per_leaf": st.integers(1, 4),
    "parallel": st.integers(1, 3),
}


@given(**SIZES)
def test_a_fabric_survives_json(clos, leaves, spines, hosts_per_leaf, parallel):
    """to_json and from_json are inverse, through text."""
    fabric = clos(leaves, spines, hosts_per_leaf, parallel=parallel)

    again = Fabric.from_json(json.loads(json.dumps(fabric.to_json())))

    assert again.to_json() == fabric.to_json()


@given(**SIZES)
def test_tiers_and_parallel_cables_are_kept(clos, leaves, spines, hosts_per_leaf, parallel):
    """Leaves are tier 1, spines tier 2, and the adjacency counts every cable."""
    fabric = clos(leaves, spines, hosts_per_leaf, parallel=parallel)

    assert fabric.nodes.tier.tolist() == [0] * leaves * hosts_per_leaf + [1] * leaves + [2] * spines
    assert fabric.adjacency[fabric.node_row("leaf0"), fabric.node_row("spine0")] == parallel
    assert len(fabric.links.port_a) == leaves * (hosts_per_leaf + spines * parallel)


def test_the_two_directions_of_a_cable(clos):
    """Directed links 2l and 2l + 1 are the two ways of cable l, each out of its own port."""
    fabric = clos()
    out = fabric.out_of_port[fabric.port_row("node1", "eth0")]

    assert fabric.directed_name(out) == "node1:eth0 > leaf0:d0"
    assert fabric.directed_name(out ^ 1) == "leaf0:d0 > node1:eth0"
    assert fabric.link_element(out // 2) == "link/leaf0:d0--node1:eth0"
    assert fabric.leaf_of(fabric.port_row("node1", "eth0")) == fabric.node_row("leaf0")


def test_a_cable_that_is_down_has_no_speed():
    """Its directed links carry 0 Gbit/s and it is not in the adjacency."""
    builder = FabricBuilder()
    for name in "ab":
        builder.node(name, NodeKind.SWITCH)
        builder.port(name, "p", speed_gbps=10)
    builder.link(("a", "p"), ("b", "p"), state=LinkState.DOWN)
    fabric = builder.build()

    assert fabric.directed_gbps.tolist() == [0, 0]
    assert fabric.adjacency.nnz == 0


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("nodes", "name", "leaf0", "twice"),
        ("ports", "node", 99, "outside"),
        ("ports", "speed_gbps", -1.0, "negative"),
        ("links", "port_a", 1, "more than one cable"),
    ],
)
def test_bad_rows_are_refused(clos, table, column, value, message):
    """A row that breaks an invariant gives an InputError that says which."""
    data = copy.deepcopy(clos().to_json())
    data[table][column][0] = value

    with pytest.raises(InputError, match=message):
        Fabric.from_json(data)


@pytest.mark.parametrize(
    "damage", [{"schema": "x"}, {"nodes": {}}, {"links": None}, {"ports": {"node": ["a"]}}]
)
def test_other_json_is_no_fabric(clos, damage):
    """Another schema or missing columns are InputErrors."""
    with pytest.raises(InputError):
        Fabric.from_json(clos().to_json() | damage)


def test_unknown_names_are_refused(clos):
    """A host or port that is not there is an InputError that quotes it."""
    with pytest.raises(InputError, match="no node 'x'"):
        clos().node_row("x")
    with pytest.raises(InputError, match="no port 'eth9'"):
        clos().port_row("node1", "eth9")


def test_nics_come_in_order_of_rail():
    """A host's NICs are listed by rail whatever the order of their rows."""
    builder = FabricBuilder()
    builder.node("h", NodeKind.HOST)
    builder.port("h", "b", rail=1)
    builder.port("h", "a", rail=0)
    fabric = builder.build()

    assert [fabric.ports.name[row] for row in fabric.nics("h")] == ["a", "b"]
    assert np.all(fabric.link_of_port == -1)
