"""Leaf groups: which hosts are near each other, whatever rails, missing and wrong cables do."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.leafgroups import leaf_groups


def wired(cables, uplinks=()):
    """A fabric of host -> leaves and (leaf, spine); one port a cable."""
    builder = FabricBuilder()
    for host in cables:
        builder.node(host, NodeKind.HOST)
    pairs = [(host, leaf) for host, leaves in cables.items() for leaf in leaves] + list(uplinks)
    for switch in dict.fromkeys(node for pair in pairs for node in pair if node not in cables):
        builder.node(switch, NodeKind.SWITCH)
    for number, (a, b) in enumerate(pairs):
        builder.port(a, f"p{number}")
        builder.port(b, f"p{number}")
        builder.link((a, f"p{number}"), (b, f"p{number}"))
    return builder.build()


def named(fabric, groups=None):
    """Level by level: name -> (hosts, switches) by name."""
    groups = groups or leaf_groups(fabric)
    names = fabric.nodes.name
    return [
        {
            cluster.name: (
                " ".join(names[row] for row in cluster.hosts),
                " ".join(names[row] for row in cluster.switches),
            )
            for cluster in level
        }
        for level in groups.levels
    ]


RAILS = {"h0": "AB", "h1": "AB", "h2": "CD", "h3": "CD"}
UP = [(leaf, "S") for leaf in "ABCD"]


def test_leaves_of_the_same_hosts_are_one_group():
    """Two rails, two pairs of leaves: two groups under the one spine, whose name is kept."""
    assert named(wired(RAILS, UP)) == [
        {"group0": ("h0 h1", "A B"), "group1": ("h2 h3", "C D")},
        {"S": ("h0 h1 h2 h3", "S")},
    ]


def test_a_leaf_alone_keeps_its_name():
    """Where hosts have one leaf, groups are leaves; a level that joins nothing is left out."""
    assert named(wired({"h0": "A", "h1": "B"}, [("A", "S"), ("B", "T"), ("S", "C"), ("T", "C")])) == [
        {"A": ("h0", "A"), "B": ("h1", "B")},
        {"C": ("h0 h1", "C")},
    ]


@pytest.mark.parametrize(
    ("host", "leaves", "group"),
    [("h9", "A", "group0"), ("h9", "D", "group1"), ("h9", "AC", "group0"), ("h9", "CA", "group1")],
    ids=["first cable missing", "last cable missing", "second cable wrong", "first cable wrong"],
)
def test_a_missing_or_wrong_cable_moves_nobody_else(host, leaves, group):
    """The host goes with most of its leaves, its first port decides a tie; no group is split or joined."""
    found = named(wired({**RAILS, host: leaves}, UP))[0]

    assert set(found) == {"group0", "group1"}
    assert {name: hosts.replace(" h9", "") for name, (hosts, _) in found.items()} == {
        "group0": "h0 h1",
        "group1": "h2 h3",
    }
    assert found[group][0].endswith("h9")


def test_pods_of_three_tiers():
    """Groups under the same spines are a pod; cores join pods."""
    uplinks = [("A", "S"), ("B", "S"), ("C", "T"), ("D", "T"), ("S", "X"), ("T", "X"), ("S", "Y"), ("T", "Y")]
    levels = named(wired({"h0": "A", "h1": "B", "h2": "C", "h3": "D"}, uplinks))

    assert [list(level) for level in levels] == [["A", "B", "C", "D"], ["S", "T"], ["root"]]
    assert levels[1] == {"S": ("h0 h1", "S"), "T": ("h2 h3", "T")}


def test_cables_between_leaves_join_no_group():
    """A peer link of two leaves is no spine, but what hangs on nothing else is joined by it at the top."""
    assert named(wired({"h0": "A", "h1": "B"}, [("A", "B")])) == [
        {"A": ("h0", "A"), "B": ("h1", "B")},
        {"root": ("h0 h1", "")},
    ]


def test_parts_without_a_cable_between_them_stay_parts():
    """Two clusters are left at the top; hosts without a switch are told apart."""
    fabric = wired({"h0": "A", "h1": "A", "h2": "B", "h3": ""})
    groups = leaf_groups(fabric)

    assert named(fabric, groups) == [{"A": ("h0 h1", "A"), "B": ("h2", "B")}]
    assert [fabric.nodes.name[row] for row in groups.unattached] == ["h3"]


def test_a_made_up_name_is_no_nodes_name():
    """A host that is called group0 keeps its name to itself."""
    assert list(named(wired({"group0": "AB", "h1": "AB"}, UP))[0]) == ["group0x"]


def test_order_is_natural():
    """h2 comes before h10, in hosts and in groups."""
    levels = named(wired({"h10": "A", "h2": "B", "h1": "A"}, UP))

    assert levels[0] == {"A": ("h1 h10", "A"), "B": ("h2", "B")}


@given(st.data())
def test_any_fabric_is_partitioned(any_fabric, data):
    """Every host with a switch is in one cluster of each level; levels nest; a switch is in one cluster; names differ."""
    fabric = any_fabric(data)
    groups = leaf_groups(fabric)

    attached = sorted(set(range(len(fabric.nodes.name))) - set(groups.unattached) - switch_rows(fabric))
    for level in groups.levels:
        assert sorted(host for cluster in level for host in cluster.hosts) == attached
    for lower, upper in pairwise(groups.levels):
        assert len(upper) < len(lower)
        for cluster in upper:
            assert sorted(cluster.hosts) == sorted(
                host for index in cluster.below for host in lower[index].hosts
            )
        assert [index for cluster in upper for index in cluster.below] == list(range(len(lower)))
    clusters = [cluster for level in groups.levels for cluster in level]
    switches = [row for cluster in clusters for row in cluster.switches]
    assert len(set(switches)) == len(switches)
    assert set(switches) <= switch_rows(fabric)
    assert len({cluster.name for cluster in clusters}) == len(clusters)


def switch_rows(fabric):
    """Rows of the switches."""
    return {fabric.node_row(name) for name in fabric.switches}
