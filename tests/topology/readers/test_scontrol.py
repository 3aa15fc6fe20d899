"""`scontrol show topology`: tree, block, ring and torus as Slurm prints them."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from topology.readers import Said, Source, read
from topology.readers.slurm_topology import BlockSizes


def shown(text: str) -> Said:
    return read(Source("topo.txt", text))


def test_tree() -> None:
    """Captured from slurmctld 22.05: above level 0, Nodes are all hosts below and no children."""
    fabric = shown(
        "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-20]\n"
        "SwitchName=b Level=0 LinkSpeed=1 Nodes=n[21-40]\n"
        "SwitchName=r Level=1 LinkSpeed=10 Nodes=n[1-40] Switches=a,b\n"
    ).to_fabric()
    assert (len(fabric.hosts), fabric.switches, len(fabric.links.port_a)) == (40, ("a", "b", "r"), 42)
    assert fabric.nodes.tier[fabric.node_row("r")] == 2


@pytest.mark.parametrize("null", ["(null)", "None"])
def test_null_is_nothing(null: str) -> None:
    """`(null)` and `None` stand for an empty list, not for a host."""
    fabric = shown(
        f"SwitchName=r Level=1 LinkSpeed=1 Nodes=n1 Switches=a,b\nSwitchName=a Level=0 LinkSpeed=1 Nodes=n1 Switches={null}\n"
        f"SwitchName=b Level=0 LinkSpeed=1 Nodes={null} Switches={null}\n"
    ).to_fabric()
    assert (fabric.hosts, fabric.switches) == (("n1",), ("r", "a", "b"))


def test_blocks() -> None:
    """Blocks are accelerator domains; aggregated ones only tell a size."""
    said = shown(
        "BlockName=b0 BlockIndex=0 Nodes=10.0.0.1,10.0.0.3 BlockSize=2\n"
        "BlockName=b1 BlockIndex=1 Nodes=10.0.0.2,10.0.0.4 BlockSize=2\n"
        "AggregatedBlock=b[0-1] BlockIndex=2 Nodes=10.0.0.[1-4] BlockSize=4\n"
    )
    assert said.events == [BlockSizes((2, 4))]
    assert {name: node.nvl_domain for name, node in said.nodes.items()} == {
        "10.0.0.1": "b0", "10.0.0.3": "b0", "10.0.0.2": "b1", "10.0.0.4": "b1",
    }  # fmt: skip


def test_ring_and_torus() -> None:
    """A ring has its cables; a torus is printed without the places of its hosts, which is said."""
    assert len(shown("RingName=r0 Nodes=n[1-4] RingSize=4\n").to_fabric().links.port_a) == 4
    torus = shown("TorusName=t Dims=2x2x1 Nodes=n[1-4]\n  TorusName=t PlacementDims=2x1x1(2) Anchors=2\n")
    assert len(torus.to_fabric().hosts) == 4
    assert "without their places" in torus.findings[0].what


def test_one_branch_only() -> None:
    """The output for one node lists children that have no line: switches of which nothing is known, and a finding."""
    said = shown(
        "SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=r Level=1 LinkSpeed=1 Nodes=n[1-9] Switches=a,b\n"
    )
    assert [finding.what for finding in said.findings] == ["1 child switches have no line of their own: b"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-", 1, "not closed"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=b Lev", 2, "no Key=Value"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=b", 2, "SLURM_TOPO_LEN"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\nBlockName=b BlockIndex=0 Nodes=n1 BlockSize=1", 2, "one topology"),
        ("SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\nName=b", 2, "begins no line"),
        ("SwitchName=a Level=x LinkSpeed=1 Nodes=n1", 1, "no number for level"),
    ],
)  # fmt: skip
def test_refused(text: str, line: int, words: str) -> None:
    """Cut lines and mixed outputs are errors with the line."""
    with pytest.raises(InputError, match=words) as caught:
        shown(text)
    assert caught.value.line == line
