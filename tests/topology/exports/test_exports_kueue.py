"""Kueue's Topology and node labels against the rules of the two APIs."""

from __future__ import annotations

import json
import re

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.exports import export
from topology.exports.kueue import DOMAIN_LABEL
from topology.fabric import Fabric, NodeKind
from topology.leafgroups import leaf_groups

# kueue apis/kueue/v1beta2/topology_types.go, TopologyLevel.nodeLabel
NODE_LABEL = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
)
# kubernetes apimachinery validation: IsValidLabelValue, IsDNS1123Subdomain
VALUE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def checked(fabric: Fabric) -> tuple[list[str], dict[str, dict[str, str]]]:
    """(levels from the top down, host -> labels), after the rules of both APIs."""
    files = export(fabric, "kueue")
    topology = yaml.safe_load(files["kueue-topology.yaml"])
    assert topology["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert topology["kind"] == "Topology"
    assert SUBDOMAIN.fullmatch(topology["metadata"]["name"])
    levels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    assert 1 <= len(levels) <= 16
    assert len(set(levels)) == len(levels)
    assert all(NODE_LABEL.fullmatch(level) and len(level) <= 316 for level in levels)
    assert levels.index("kubernetes.io/hostname") == len(levels) - 1
    found = json.loads(files["node-labels.json"])
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    nodes = {}
    for node in found["items"]:
        assert (node["apiVersion"], node["kind"]) == ("v1", "Node")
        assert SUBDOMAIN.fullmatch(node["metadata"]["name"])
        for key, value in node["metadata"]["labels"].items():
            assert NODE_LABEL.fullmatch(key)
            assert VALUE.fullmatch(value)
            assert len(value) <= 63
        nodes[node["metadata"]["name"]] = node["metadata"]["labels"]
    assert len(nodes) == len(found["items"])
    return levels, nodes


@given(st.data())
def test_any_fabric_follows_the_rules(any_fabric, data):
    """What is written passes both APIs' validation, every level is on every attached node, and levels are clusters."""
    fabric = any_fabric(data)
    groups = leaf_groups(fabric)
    if not groups.levels:
        return
    levels, nodes = checked(fabric)

    for host, path in groups.paths.items():
        labels = nodes[fabric.nodes.name[host]]
        assert set(levels[:-1]) <= set(labels)
        for other, other_path in groups.paths.items():
            for height, (mine, its) in enumerate(zip(path, other_path, strict=True), 1):
                key = f"topology.nettune/tier-{height}"
                assert (labels[key] == nodes[fabric.nodes.name[other]][key]) == (mine == its)


@pytest.mark.parametrize(
    ("domain", "levels"),
    [
        (0, ["topology.nettune/tier-2", "topology.nettune/tier-1"]),
        (2, ["topology.nettune/tier-2", "topology.nettune/tier-1", DOMAIN_LABEL]),
        (8, [DOMAIN_LABEL, "topology.nettune/tier-2", "topology.nettune/tier-1"]),
        (3, ["topology.nettune/tier-2", "topology.nettune/tier-1"]),
    ],
    ids=["none", "inside a leaf group", "a whole pod", "across leaf groups"],
)
def test_accelerator_domains_are_a_level_where_they_nest(pods, domain, levels):
    """Inside leaf groups, or around pods; a domain that cuts leaf groups is a label and no level, and that is told."""
    fabric = pods(4, 2, 4, domain=domain)
    found, nodes = checked(fabric)

    wanted = ["topology.nettune/tier-2", "topology.nettune/tier-1"]
    assert found[:-1] == levels if domain != 8 else set(found[:-1]) == {*wanted, DOMAIN_LABEL}
    assert all((DOMAIN_LABEL in labels) == bool(domain) for labels in nodes.values())
    assert ("is no level" in export(fabric, "kueue")["kueue-topology.yaml"]) == (domain == 3)


@pytest.mark.parametrize("host", ["H0", "a_b", "-a", "a.", "a b", "n" * 64, 'a"', "a\n"])
def test_a_host_that_is_no_node_name_is_refused(host):
    """Kubernetes knows nodes by their names; they cannot be changed."""
    builder = FabricBuilder()
    builder.node(host, NodeKind.HOST)
    builder.node("leaf", NodeKind.SWITCH)
    for node in (host, "leaf"):
        builder.port(node, "p")
    builder.link((host, "p"), ("leaf", "p"))

    with pytest.raises(InputError, match="Kubernetes cannot name node"):
        export(builder.build(), "kueue")


def test_values_are_cleaned_and_stay_apart():
    """Long and odd names of switches become valid values that are still different."""
    builder = FabricBuilder()
    names = ["x" * 70 + "1", "x" * 70 + "2", "a b", "a;b", "_"]
    for number, leaf in enumerate(names):
        builder.node(leaf, NodeKind.SWITCH)
        builder.node(f"h{number}", NodeKind.HOST)
        builder.port(leaf, "p")
        builder.port(f"h{number}", "p")
        builder.link((leaf, "p"), (f"h{number}", "p"))

    _, nodes = checked(builder.build())

    assert len({labels["topology.nettune/tier-1"] for labels in nodes.values()}) == len(names)
