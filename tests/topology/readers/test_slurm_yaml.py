"""Slurm's topology.yaml: every type of topology, and which one of several is read."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from topology.readers import Said, Source, read
from topology.readers.slurm_topology import BlockSizes

TREE = "- topology: t\n  tree:\n    switches:\n      - switch: r\n        children: a\n      - switch: a\n        nodes: n[01-02]\n"
BLOCK = "- topology: b\n  cluster_default: TRUE\n  block:\n    block_sizes: [2, 8]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n      - {block: b2, nodes: 'n[3-4]'}\n      - block: b3\n"  # fmt: skip
TORUS = (
    "- topology: x\n  torus3d:\n    toruses:\n      - name: pod\n        dims: {x: 3, y: 2, z: 1}\n        "
)


def topo(text: str) -> Said:
    return read(Source("topology.yaml", text))


def test_tree() -> None:
    """Switches with children or nodes."""
    fabric = topo(TREE).to_fabric()
    assert (fabric.hosts, fabric.switches, len(fabric.links.port_a)) == (("n01", "n02"), ("r", "a"), 3)


def test_default_is_chosen_and_the_others_named() -> None:
    """The first with cluster_default is read, wherever it stands; without any, the first."""
    said = topo(TREE + BLOCK + "- topology: f\n  flat: true\n")
    assert said.events == [BlockSizes((2, 8), ("b3",))]
    assert said.findings[0].evidence["names"] == ["t (tree)", "f (flat)"]
    said = topo(TREE + BLOCK.replace("TRUE", "no"))
    assert "none has cluster_default" in said.findings[0].what
    assert len(said.links) == 3


def test_ring() -> None:
    """A ring of four hosts has four cables."""
    said = topo("- topology: r\n  ring:\n    rings:\n      - ring: r0\n        nodes: n[1-4]\n")
    assert len(said.links) == 4


def test_torus() -> None:
    """X runs fastest; 3 x 2 x 1: a circle of three in each row, one cable between rows (around is the same cable)."""
    said = topo(TORUS + "nodes: n[1-6]\n")
    assert sorted(f"{a}{b}" for (a, _), (b, _) in said.links) == [
        "n1n2", "n1n3", "n1n4", "n2n3", "n2n5", "n3n6", "n4n5", "n4n6", "n5n6",
    ]  # fmt: skip


def test_torus_of_regions() -> None:
    """A region has its own dims from an anchor and does not wrap; places outside regions are empty."""
    said = topo(
        TORUS
        + "regions:\n        - anchor: {x: 1}\n          dims: {x: 2, y: 1, z: 1}\n          nodes: n[1-2]\n"
    )
    assert [(a, b) for (a, _), (b, _) in said.links] == [("n1", "n2")]


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("nodes: n[1-5]\n", "3x2x1 do not match 5 nodes"),
        ("nodes: n[1-6]\n        regions: []\n", "both nodes and regions"),
        ("regions:\n        - {anchor: {x: 2}, dims: {x: 2, y: 1, z: 1}, nodes: 'n[1-2]'}\n", "beyond its dims"),
        ("regions:\n        - {dims: {x: 1, y: 1, z: 1}, nodes: n1}\n        - {dims: {x: 1, y: 1, z: 1}, nodes: n2}\n", "overlap"),
        ("regions:\n        - {dims: {x: 0, y: 1, z: 1}, nodes: n1}\n", "1 or more"),
        ("regions:\n        - {dims: {x: -1, y: 1, z: 1}, nodes: n1}\n", "no number"),
    ],
)  # fmt: skip
def test_bad_torus(rest: str, words: str) -> None:
    """Dimensions and regions that slurmctld refuses."""
    with pytest.raises(InputError, match=words):
        topo(TORUS + rest)


def test_flat() -> None:
    """A flat topology describes nothing, and that is said."""
    said = topo("- topology: f\n  flat:\n    alpha_step_rank: true\n")
    assert not said.nodes
    assert "names no hosts" in said.findings[0].what


def test_numbers_are_names() -> None:
    """Names that YAML would take for numbers keep their zeros."""
    said = topo("- topology: t\n  tree:\n    switches:\n    - switch: 007\n      nodes: 0012,1e3\n")
    assert set(said.nodes) == {"007", "0012", "1e3"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "- topology: t\n  flat: true\n- cluster_default: true\n  topology: u\n  flat: true\n",
            3,
            "must begin with",
        ),
        ("- topology: t\n  flat: true\n- topology: t\n  flat: true\n", 3, "defined twice"),
        ("- topology: t\n", 1, "must have one of"),
        ("- topology: t\n  tree: {}\n  block: {}\n", 1, "must have one of"),
        ("- topology: t\n  flat: true\n  mesh: {}\n", 1, "mesh"),
        ("- topology: t\n  cluster_default: maybe\n  flat: true\n", 1, "neither true nor false"),
        ("- topology: t\n  tree: true\n", 1, "must be a mapping"),
        ("- topology: t\n  tree:\n    switches: r\n", 3, "must be a list"),
        ("- topology: t\n  tree:\n    switches:\n    - r\n", 3, "must be a mapping"),
        ("- topology: t\n  tree:\n    switches:\n    - switch: r\n      nodes: [n1]\n", 4, "one text"),
        ("- topology: t\n  tree:\n    switches:\n    - switch: r\n      children: q\n", 4, "invalid child"),
        ("- topology: t\n  block:\n    block_sizes: [3, 5]\n    blocks: []\n", 3, "block sizes 3, 5"),
        ("- topology: {{ name }}\n  flat: true\n", 1, "template"),
        ("- topology: t\n  flat: true\n  flat: false\n", 3, "twice"),
        ("- topology: t\n  tree:\n    switches: [\n", 4, "no YAML"),
    ],
)
def test_refused(text: str, line: int, words: str) -> None:
    """What does not follow the grammar is an error with the line of its entry."""
    with pytest.raises(InputError, match=words) as caught:
        topo(text)
    assert caught.value.line == line
