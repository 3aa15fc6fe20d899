"""DOT, the text tree and the SVG drawing: complete, readable by their programs, safe from names."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.hosts import expand_hosts
from topology.exports import EXPORTS, export
from topology.exports.boxes import MAX_BOXES, MAX_LINES, choose_boxes
from topology.exports.capacity import cable_rails, oversubscription
from topology.exports.names import folded
from topology.exports.svg_layout import lay_out, spread_out
from topology.fabric import Fabric, LinkState

SVG = "{http://www.w3.org/2000/svg}"
# DOT grammar: a quoted ID is any characters with \" for a quote; attributes are ID=ID
QUOTED = r'"(?:[^"\\\n]|\\.)*"'
DOT_LINE = re.compile(
    rf"//.*|graph fabric \{{|\}}|  (?:graph|node|{QUOTED}|{QUOTED} -- {QUOTED}) \[[a-z_]+=(?:[\w.+-]+|{QUOTED})"
    rf"(?:, [a-z_]+=(?:[\w.+-]+|{QUOTED}))*\];|  \{{ rank=same;(?: {QUOTED})+ \}}"
)


def with_down(fabric: Fabric, *rows: int) -> Fabric:
    """The fabric with some cables down."""
    state = fabric.links.state.copy()
    state[list(rows)] = LinkState.DOWN
    return replace(fabric, links=replace(fabric.links, state=state))


@given(st.data(), st.booleans())
def test_any_names_are_safe_in_dot_and_svg(any_fabric, data, plain):
    """Quotes, brackets, entities and control characters stay inside their strings; nothing is lost or added."""
    fabric = any_fabric(data, plain=plain)

    lines = export(fabric, "dot")["fabric.dot"].split("\n")[:-1]
    assert [line for line in lines if not DOT_LINE.fullmatch(line)] == []
    assert sum(" -- " in re.sub(QUOTED, '""', line) for line in lines) == len(fabric.links.port_a)
    root = ET.fromstring(export(fabric, "svg")["fabric.svg"])
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "g", "title", "rect", "text", "tspan", "path",
    }  # fmt: skip
    assert not any("href" in key or key.startswith("on") for element in root.iter() for key in element.attrib)
    tree = export(fabric, "tree")["fabric.txt"]
    assert all(line.isprintable() for line in tree.split("\n"))


def test_graphviz_reads_the_dot(pods, tmp_path):
    """`dot` lays it out without a warning and finds every node and cable."""
    if shutil.which("dot") is None:
        pytest.skip("graphviz is not installed")
    fabric = with_down(pods(2, 2, 2, rails=2), 3)
    found = subprocess.run(
        ["dot", "-Tplain"],
        input=export(fabric, "dot")["fabric.dot"],
        text=True,
        capture_output=True,
        check=True,
    )

    assert found.stderr == ""
    assert len(re.findall(r"^node ", found.stdout, re.MULTILINE)) == len(fabric.nodes.name)
    assert len(re.findall(r"^edge ", found.stdout, re.MULTILINE)) == len(fabric.links.port_a)


def test_a_cable_in_dot_has_its_ports_speed_rail_and_state(clos):
    """One line a cable, the lower end first; a cable that is down is dashed."""
    lines = export(with_down(clos(1, 1, 1), 1), "dot")["fabric.dot"].splitlines()

    assert (
        '  "node1" -- "leaf0" [port_a="eth0", port_b="d0", speed_gbps=0.1, rail=0, color="#0072b2"];' in lines
    )
    assert (
        '  "leaf0" -- "spine0" [port_a="u0", port_b="d0", speed_gbps=0.1, rail=0, color="#d5202a", style=dashed];'
        in lines
    )


def test_the_tree_is_what_one_expects(pods):
    """Groups with their leaves, hosts folded, oversubscription, what is down."""
    fabric = with_down(pods(2, 2, 4, rails=2, spines=2, cores=2), 4)

    assert export(fabric, "tree")["fabric.txt"].splitlines() == [
        "16 hosts, 14 switches, 56 cables; 2 rails; NICs of 400 Gbit/s",
        "root: core[0-1]; 16 hosts",
        "├─ pod0: pod0-spine[0-1]; 1 cable DOWN; 8 hosts",
        "│  ├─ group0: pod0-leaf[0-1]; hosts over uplinks 2:1 to 4:1; 1 cable DOWN; 4",
        "│  │        hosts: h[000-003]",
        "│  └─ group1: pod0-leaf[2-3]; hosts over uplinks 2:1; 4 hosts: h[004-007]",
        "└─ pod1: pod1-spine[0-1]; 8 hosts",
        "   ├─ group2: pod1-leaf[0-1]; hosts over uplinks 2:1; 4 hosts: h[008-011]",
        "   └─ group3: pod1-leaf[2-3]; hosts over uplinks 2:1; 4 hosts: h[012-015]",
    ]


def test_the_tree_of_4096_hosts_fits_on_a_few_screens(rail_fabric):
    """One line a leaf group, 80 columns; all hosts are there."""
    text = export(rail_fabric(4096), "tree")["fabric.txt"]

    assert len(text.splitlines()) == 66
    assert max(map(len, text.splitlines())) <= 80
    hosts = {host for found in re.findall(r"hosts: (\S+)", text) for host in expand_hosts(found)}
    assert len(hosts) == 4096


@given(st.data())
def test_the_tree_has_every_node_in_80_columns(any_fabric, data):
    """Each host and switch once, whatever the fabric; lines break at 80 columns."""
    fabric = any_fabric(data)

    lines = export(fabric, "tree")["fabric.txt"].splitlines()[1:]

    assert max(map(len, lines)) <= 80
    text = re.sub(r"\n[│ ]*", " ", "\n".join(lines))
    for name in fabric.nodes.name:
        assert name in {part for word in re.findall(r"[\w.\[\],-]+", text) for part in expanded(word)}


def expanded(word: str) -> list[str]:
    """Names of a word that may be a hostlist."""
    return expand_hosts(word.strip(",")) if word.strip(",") else []


def boxes_of(text: str) -> list[str]:
    """Lines of each box of a drawing."""
    root = ET.fromstring(text)
    return [" ".join(line.text or "" for line in group.iter(f"{SVG}text")) for group in root.iter(f"{SVG}g")]


def test_small_fabrics_are_drawn_one_by_one(clos):
    """Eight hosts: every node has a box with its name, leaves their ratio; two cables in parallel are one line."""
    text = export(clos(4, 2, 2, parallel=2), "svg")["fabric.svg"]

    assert sorted(boxes_of(text)) == sorted(
        [f"node{number}" for number in range(1, 9)]
        + [f"leaf{n} 0.5:1" for n in range(4)]
        + ["spine0", "spine1"]
    )
    assert text.count("<path d=") - text.count("h26") == 8 + 8
    assert "2 cables" in text


def test_what_is_down_is_dashed_and_told(clos):
    """One of two parallel cables down: a red dashed line over the bundle, and how many."""
    text = export(with_down(clos(2, 1, 2, parallel=2), 4), "svg")["fabric.svg"]

    assert text.count('stroke-dasharray="6 4"') == 2  # the bundle and the legend
    assert "1 of 2 down" in text


@pytest.mark.parametrize(
    ("hosts", "rails"), [(8, 1), (8, 8), (64, 1), (64, 8), (512, 1), (512, 8), (4096, 8)]
)
def test_no_size_overflows_the_drawing(rail_fabric, hosts, rails):
    """Boxes and lines stay within their bounds, no two boxes touch, all texts fit, all rails are in the legend."""
    fabric = rail_fabric(hosts, rails=rails, per_leaf=min(hosts, 32) // (2 if hosts == 8 else 1), spines=8)
    chosen = choose_boxes(fabric)

    tiers = [box.tier for box in chosen.boxes]
    assert max(tiers.count(tier) for tier in set(tiers)) <= MAX_BOXES
    assert sorted(row for box in chosen.boxes for row in box.nodes) == list(range(len(fabric.nodes.name)))
    assert sum(bundle.count for bundle in chosen.bundles) + chosen.hidden == len(fabric.links.port_a)
    for low in (0, 1):
        assert sum(min(tiers[b.a], tiers[b.b]) == low for b in chosen.bundles) <= MAX_LINES
    text = export(fabric, "svg")["fabric.svg"]
    assert "textLength" not in text
    assert all(f">rail {rail}</text>" in text for rail in range(rails))
    places, width, _ = lay_out(chosen, [["x" * 9]] * len(chosen.boxes), 50)
    assert all(place.x >= 0 and place.x + place.width <= width for place in places)
    for tier in set(tiers):
        row = sorted(
            (place for place, of in zip(places, tiers, strict=True) if of == tier), key=lambda p: p.x
        )
        assert all(left.x + left.width < right.x for left, right in pairwise(row))


def test_spreading_is_optimal_and_keeps_order():
    """Positions move as little as the gap allows."""
    assert spread_out([0, 10, 20], 5).tolist() == [0, 10, 20]
    assert spread_out([5, 5, 5], 2).tolist() == [3, 5, 7]
    assert spread_out([], 2).tolist() == []


def test_a_cables_rail_is_its_nics_or_its_leafs(rail_fabric):
    """Uplinks of a rail's leaf have that rail; of a leaf with two rails none."""
    fabric = rail_fabric(8, rails=2, per_leaf=4, spines=2)
    rails = cable_rails(fabric)

    leaf_of_uplink = [fabric.nodes.name[int(fabric.ports.node[port])] for port in fabric.links.port_a[16:]]
    assert rails[:16].tolist() == [0, 1] * 8
    assert [f"leaf{rail}" for rail in rails[16:]] == [f"leaf{int(leaf[4:]) % 2}" for leaf in leaf_of_uplink]


def test_oversubscription_counts_what_is_up(clos):
    """Two hosts of 100 on two uplinks of 100 are 1:1, with one uplink down 2:1; a leaf without uplinks has none."""
    fabric = clos(2, 2, 2)
    row = fabric.node_row("leaf0")

    assert oversubscription(fabric) == {row: 1.0, fabric.node_row("leaf1"): 1.0}
    assert oversubscription(with_down(fabric, 4))[row] == 2.0
    assert row not in oversubscription(with_down(fabric, 4, 5))


def test_accelerator_domains_are_marked(pods):
    """Hosts of a domain stand over a bar with its number."""
    text = export(pods(1, 2, 2, domain=2), "svg")["fabric.svg"]

    assert re.findall(r">(NVL \d)<", text) == ["NVL 0", "NVL 1"]


def test_nodes_of_unknown_tier_are_drawn(clos):
    """A fabric whose tiers nobody knows still has all its nodes in the drawing."""
    fabric = clos(2, 1, 1)
    nodes = replace(fabric.nodes, tier=np.full(len(fabric.nodes.name), -1))

    assert len(boxes_of(export(replace(fabric, nodes=nodes), "svg")["fabric.svg"])) == len(fabric.nodes.name)


def test_exports_are_the_same_every_time(pods):
    """No clock, no set order in any format."""
    fabric = pods(2, 2, 2, rails=2, domain=2)

    for form in EXPORTS:
        assert export(fabric, form) == export(fabric, form)


def test_a_spine_over_one_leaf_is_not_without_hosts(clos):
    """It joins nothing more, but hosts are under it; a switch that no host reaches is told apart."""
    fabric = clos(leaves=1, spines=1)
    tree = export(fabric, "tree")["fabric.txt"]
    assert tree.endswith("switches above that join nothing more\n   spine0\n")


def test_names_of_very_many_digits_are_listed_not_folded():
    """A hostlist holds numbers; a name of three hundred digits is none, and stays as it is."""
    names = ["9" * 300, "8" * 300, "h1"]
    assert folded(names) == ", ".join(names)
    assert folded(["h1", "h2"]) == "h[1-2]"
