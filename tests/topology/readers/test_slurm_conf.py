"""Slurm's topology.conf: what slurmctld accepts is read, what is fatal there is an error here.

The verdicts of the tree cases were compared with slurmctld 22.05 (Debian). Three differ on purpose: it takes the last of
two `Nodes=`, reads `n[1-40` as something else, and refuses the empty leaf that later versions take.
"""

from __future__ import annotations

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.fabric import Fabric
from topology.readers import Said, Source, detect, read
from topology.readers.slurm_topology import BlockSizes


def conf(text: str) -> Said:
    return read(Source("topology.conf", text), "slurm-conf")


def tree(levels: int, *, root_first: bool) -> str:
    lines = [f"SwitchName=s{level} Switches=s{level - 1}" for level in range(1, levels)]
    lines = ["SwitchName=s0 Nodes=n[1-2]", *lines]
    return "\n".join(reversed(lines) if root_first else lines)


def links(fabric: Fabric) -> set[str]:
    return {str(fabric.link_element(row)) for row in range(len(fabric.links.port_a))}


def test_tree() -> None:
    """Switches and hosts with tiers; each cable's ports are named after the other end, nothing has a speed."""
    said = conf(
        "SwitchName=r Switches=a,b\nSwitchName=a Nodes=n[08-10]\nSwitchName=b Nodes=x LinkSpeed=400\n"
    )
    fabric = said.to_fabric()
    assert said.logical
    assert fabric.hosts == ("n08", "n09", "n10", "x")
    assert fabric.switches == ("r", "a", "b")
    assert dict(zip(fabric.nodes.name, fabric.nodes.tier.tolist(), strict=True)) == {
        "r": 2, "a": 1, "b": 1, "n08": 0, "n09": 0, "n10": 0, "x": 0,
    }  # fmt: skip
    assert "link/a:n08--n08:a" in links(fabric)
    assert "link/a:r--r:a" in links(fabric)
    assert not fabric.ports.speed_gbps.any()
    assert said.findings == []


@pytest.mark.parametrize(
    "text",
    [
        "SWITCHNAME=a nodes=n[1-4]",
        "# SwitchName=z Nodes=m\nSwitchName=a Nodes=n[1-4] # SwitchName=y Nodes=m",
        "SwitchName=a Nodes=n[1-4]#x",
        "SwitchName=a \\\n  Nodes=n[1-2],\\\nn[3-4]",
        "SwitchName = a   Nodes = n[1-4]",
        'SwitchName="a" Nodes="n[1-4]"',
        "SwitchName=a Nodes=n[3,1,2,4]",
        "SwitchName=a Nodes=n[1-4],",
        "\t SwitchName=a\tNodes=n[1-4]\t\n\n",
        "SwitchName=a LinkSpeed=4294967295 Nodes=n[1-4]",
    ],
)
def test_spellings(text: str) -> None:
    """Case of keys, comments, continued lines, blanks, quotes and the order of numbers do not matter."""
    fabric = conf(text).to_fabric()
    assert sorted(fabric.hosts) == ["n1", "n2", "n3", "n4"]
    assert fabric.switches == ("a",)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", 2, "defined twice, first on line 1"),
        ("SwitchName=a Nodes=n1\nSwitchName=r Switches=a,b", 2, "invalid child 'b'"),
        ("SwitchName=a Switches=a", 1, "invalid child 'a'"),
        ("SwitchName=l Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=a", 2, "no tree"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2 Switches=a", 2, "both child switches and nodes"),
        ("SwitchName=a Nodes=n1 Speed=3", 1, "'speed' is no key"),
        ("SwitchName=a Nodes=n1 LinkSpeed=fast", 1, "LinkSpeed"),
        ("SwitchName=a Nodes=n1 LinkSpeed=4294967296", 1, "LinkSpeed"),
        ("SwitchName=" + "a" * 65 + " Nodes=n1", 1, "1 to 64 characters"),
        ("\nSwitchName=a Nodes=n[1-4", 2, "not closed"),
        ("SwitchName=a Nodes=n[4-1]", 1, "no hostlist"),
        ("SwitchName=a Nodes=n1 Nodes=n2", 1, "given twice"),
        ("SwitchName=a Nodes=n1\nhello", 2, "no Key=Value"),
        ("SwitchName=a Nodes=n1\nNodes=n2", 2, "begin a line"),
        ("SwitchName=a Nodes=n1\nSwitchName=a2 \\\n Nodes=n2 \\\n Odd=1", 2, "'odd'"),
        ("SwitchName=a Nodes=switch{b}", 1, "hostlist function switch"),
        ("SwitchName=a Nodes=block{b}", 1, "hostlist function block"),
        ("SwitchName=a Nodes=blockwith{n1}", 1, "hostlist function blockwith"),
        ("SwitchName=a Nodes=feature{gpu}", 1, "hostlist function feature"),
        ("SwitchName=a Nodes=n1\ninclude more.conf", 2, "include"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n1", 2, "beside switchname on line 1"),
        ("SwitchName=a Nodes=a", 1, "name of a host and of a switch"),
        ("SwitchName=: Nodes=n1", 1, "cannot be a name"),
        ("SwitchName=a Nodes=n1\nSwitchName={{ .Name }} Nodes=n2", 2, "template"),
        ("BlockName=a Nodes=n1\nBlockName=a Nodes=n2", 2, "defined twice"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=2,6", 2, "block sizes 2, 6"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=0", 2, "block sizes 0"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=1,65536", 2, "block sizes"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=two", 2, "no list of numbers"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=2\nBlockSizes=4", 3, "given twice, first on line 2"),
        ("BlockName=a Switches=b", 1, "'switches' is no key"),
        ("RingName=r Nodes=n[1-17]", 1, "has 17 hosts"),
        ("RingName=r Nodes=n1\nRingName=r Nodes=n2", 2, "defined twice"),
        ("BlockSizes=4", 1, "has no SwitchName"),
        ("# nothing", 1, "has no SwitchName"),
    ],
)  # fmt: skip
def test_refused(text: str, line: int, words: str) -> None:
    """What slurmctld calls fatal, and what would be read as something else, is an error with its line."""
    with pytest.raises(InputError, match=words) as caught:
        conf(text)
    assert (caught.value.file, caught.value.line) == ("topology.conf", line)


def test_depth() -> None:
    """Slurmctld makes 21 passes over the file: 22 levels at most when the root comes first, any depth from the leaves."""
    assert len(conf(tree(22, root_first=True)).to_fabric().switches) == 22
    assert len(conf(tree(40, root_first=False)).to_fabric().switches) == 40
    with pytest.raises(InputError, match="no tree"):
        conf(tree(23, root_first=True))


def test_unbalanced_tree() -> None:
    """A switch above another switch and a leaf is one tier above the higher of them."""
    fabric = conf(
        "SwitchName=r Switches=m,b\nSwitchName=m Switches=a\nSwitchName=a Nodes=n1\nSwitchName=b Nodes=n2"
    ).to_fabric()
    assert fabric.nodes.tier[fabric.node_row("r")] == 3


def test_empty_leaf() -> None:
    """A switch with neither hosts nor children is a leaf that is not filled yet."""
    fabric = conf("SwitchName=a\nSwitchName=b Nodes=n1\nSwitchName=r Switches=a,b").to_fabric()
    assert fabric.nodes.tier[fabric.node_row("a")] == 1


def test_host_on_several_leaves() -> None:
    """Rail fabrics: only a warning in Slurm, a finding here, and the host has a cable to each leaf."""
    said = conf("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[1-2]\nSwitchName=r Switches=a,b")
    (finding,) = said.findings
    assert finding.status is Status.WARN
    assert finding.what.startswith("2 hosts hang under several switches: n1, n2")
    assert len(said.to_fabric().nics("n1")) == 2


def test_no_common_root() -> None:
    """Parts without a switch above them are a warning, unless each reaches every host."""
    (finding,) = conf("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2").findings
    assert finding.what == "no switch reaches all hosts: 2 have none above them: a, b"
    several = conf("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[1-2]").findings
    assert not [finding for finding in several if "reaches" in finding.what]


def test_blocks() -> None:
    """The hosts of a block are one accelerator domain; sizes and blocks without hosts are kept as an event."""
    said = conf("BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=spare\nBlockSizes=4,8,32\n")
    fabric = said.to_fabric()
    assert said.events == [BlockSizes((4, 8, 32), ("spare",))]
    assert said.nodes["n1"].nvl_domain == "b1"
    assert fabric.nodes.nvl_domain.tolist() == [0] * 4 + [1] * 4
    assert len(fabric.links.port_a) == 0


def test_host_in_two_blocks() -> None:
    """A host in a second block is a contradiction: the first one stays."""
    said = conf("BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n1\n")
    assert said.nodes["n1"].nvl_domain == "b1"
    assert [finding.check for finding in said.findings] == ["source-conflict"]


def test_ring() -> None:
    """Each host is cabled to the next one in the order of the file, the last to the first."""
    fabric = conf(
        "RingName=r Nodes=n[3,1,2,4]\nRingName=pair Nodes=p[1-2]\nRingName=one Nodes=q\n"
    ).to_fabric()
    assert links(fabric) == {
        "link/n1:n3--n3:n1", "link/n1:n2--n2:n1", "link/n2:n4--n4:n2", "link/n3:n4--n4:n3", "link/p1:p2--p2:p1",
    }  # fmt: skip


def test_detection() -> None:
    """Found by its lines wherever they begin; what scontrol prints is not taken for it."""
    assert detect(Source("f", "# head\n\n  switchname=a nodes=b\n")).name == "slurm-conf"
    assert detect(Source("f", "SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\n")).name == "scontrol"
