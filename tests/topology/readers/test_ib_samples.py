r"""Every recorded InfiniBand dump, against counts by hand.

Switches and channel adapters were counted with `grep -c '^Switch'` and `grep '^Ca'`, hosts with
`grep '^Ca' FILE | grep -v Aggregation | sed 's/.*# "//;s/ .*//' | sort -u | wc -l` plus the adapters whose description
names no host, cables as half the lines `grep -c '^\['` says in Switch blocks without those to aggregation nodes, plus
half of those to adapters. Files of ten lines were counted by eye, and opensm's with `grep -o 'NodeGUID:[0-9a-f]*'`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nettune.errors import InputError
from topology.fabric import NodeKind
from topology.readers import Source, detect, read
from topology.readers.said import Said

# file: (reader, hosts, switches, cables, aggregation nodes dropped, entries of forwarding tables)
COUNTS = {
    # 123 first words; "MT4129" and "localhost" stand for 69 and 3 adapters that name no host
    "ibnetdiscover/topograph_example.txt": ("ibnetdiscover", 121 + 69 + 3, 40, 542 + 1064 // 2, 40, 0),
    "topo/ibnetdiscover/topograph-example.out": ("ibnetdiscover", 121 + 69 + 3, 40, 542 + 1064 // 2, 40, 0),
    # 20 lines between switches in both directions less the one to the aggregation node, and 10 adapters
    "ibnetdiscover/superbench_topo_aware_azure.txt": ("ibnetdiscover", 10, 8, 7 + 10, 1, 0),
    "topo/ibnetdiscover/ibtopotool-1.topo": ("ibnetdiscover", 4, 2, 2 + 5, 0, 0),
    "topo/ibnetdiscover/ibtopotool-2.topo": ("ibnetdiscover", 2, 1, 2, 0, 0),
    # r-ufm101 has two adapters; 3 of the cables lead from a switch to itself
    "topo/ibnetdiscover/ibtopotool-3.topo": ("ibnetdiscover", 5, 2, 6 + 1 + 3, 0, 0),
    "topo/ibnetdiscover/ibtopotool-4.topo": ("ibnetdiscover", 1, 1, 1, 0, 0),
    "ibnetdiscover/ibexp_test.txt": ("ibnetdiscover-ports", 3, 4, 4, 0, 0),
    "ibnetdiscover/ibexp_test2.txt": ("ibnetdiscover-ports", 1, 5, 1, 1, 0),
    "iblinkinfo/v100_edr_sharp_aggregation_node.txt": ("iblinkinfo", 1, 1, 1, 0, 0),
    "ibdiagnet/db_csv_synthetic.txt": ("ibdiagnet", 1, 1, 1, 0, 0),
    "ib_lft/opensm_subnet.lst": ("opensm-subnet", 3, 62, 344 // 2, 0, 0),
    "ib_lft/opensm_osm.fdbs": ("lft", 0, 62, 0, 0, 4030),
    "ib_lft/dump_fts_dr_header.txt": ("lft", 0, 1, 0, 0, 1),
    "ib_lft/ibroute_excerpt.txt": ("lft", 0, 1, 0, 0, 5),
}
REFUSED = {
    "ibnetdiscover/topograph_example-bad.txt": r"no cable \(nodes: 1\): the port that ibnetdiscover ran on is down",
    "topo/ibnetdiscover/topograph-example-bad.out": r"no cable \(nodes: 1\)",
    "ibnetdiscover/ibexp_test3.txt": r"test3.txt:1: is not a whole line of ibnetdiscover -p's",
    "ibdiagnet/net_dump_synthetic.txt": "is ibdiagnet2.net_dump; give ibdiagnet2.db_csv of the same run",
}


def said_of(shared: Path, name: str) -> Said:
    return read(Source.open(shared / "samples" / name))


def test_every_recorded_file_is_in_a_table(shared: Path) -> None:
    """A sample that comes later needs its row."""
    samples = shared / "samples"
    folders = ["ibnetdiscover", "iblinkinfo", "ib_lft", "ibdiagnet", "topo/ibnetdiscover"]
    found = {
        str(path.relative_to(samples))
        for folder in folders
        for path in (samples / folder).iterdir()
        if path.suffix != ".src"
    }
    assert found == set(COUNTS) | set(REFUSED)


@pytest.mark.parametrize("name", COUNTS)
def test_a_recorded_dump_has_the_counts_of_its_file(shared: Path, name: str) -> None:
    """Hosts, switches, cables, dropped aggregation nodes and forwarding entries."""
    said = said_of(shared, name)
    kinds = Counter(node.kind for node in said.nodes.values())
    entries = sum(len(table) for table in said.forwarding.values())
    assert detect(Source.open(shared / "samples" / name)).name == said.format
    assert (
        said.format,
        kinds[NodeKind.HOST],
        kinds[NodeKind.SWITCH],
        len(said.links),
        len(said.dropped),
        entries,
    ) == COUNTS[name]
    assert len(said.to_fabric().links.port_a) == len(said.links)


@pytest.mark.parametrize("name", REFUSED)
def test_a_recorded_dump_that_has_no_fabric_is_refused_with_the_reason(shared: Path, name: str) -> None:
    """A scan that saw one port, a line that the tool does not print, another file of the same tool."""
    with pytest.raises(InputError, match=REFUSED[name]):
        said_of(shared, name)


def test_aggregation_nodes_make_no_leaves_of_spines(shared: Path) -> None:
    """Of 40 switches with such a node each, those with hosts are leaves: `awk` finds 34 Switch blocks with an "H-" else."""
    fabric = said_of(shared, "ibnetdiscover/topograph_example.txt").to_fabric()
    lines = (shared / "samples/ibnetdiscover/topograph_example.txt").read_text(encoding="utf-8").splitlines()
    with_host, switch = set(), ""
    for line in lines:
        switch = line if line.startswith("Switch") else "" if line.startswith("Ca") else switch
        if switch and '"H-' in line and line.startswith("[") and "Aggregation" not in line:
            with_host.add(switch)
    assert Counter(fabric.nodes.tier.tolist())[1] == len(with_host) < 40


def test_the_rails_of_a_recorded_fabric_are_the_numbers_of_its_devices(shared: Path) -> None:
    """mlx5_0/1/4/5 and HCA-1/2/5/6 of other hosts are rails 0 to 3; adapters without a name have none."""
    fabric = said_of(shared, "ibnetdiscover/topograph_example.txt").to_fabric()
    rails: dict[str, set[int]] = {}
    for name, rail, node in zip(
        fabric.ports.name, fabric.ports.rail.tolist(), fabric.ports.node.tolist(), strict=True
    ):
        if fabric.nodes.kind[node] == NodeKind.HOST:
            rails.setdefault(name, set()).add(rail)
    unnamed = rails.pop("HCA")
    assert unnamed == {-1}
    assert rails == {
        **{f"mlx5_{device}": {rail} for rail, device in enumerate((0, 1, 4, 5))},
        **{f"HCA-{device}": {rail} for rail, device in enumerate((1, 2, 5, 6))},
    }


def test_a_scan_that_timed_out_says_so(shared: Path) -> None:
    """The tool's own error between its lines becomes a warning with its line."""
    said = said_of(shared, "topo/ibnetdiscover/ibtopotool-3.topo")
    (noise,) = (one for one in said.findings if "lines" in one.evidence)
    assert noise.evidence["lines"] == [1]
    assert "Connection timed out" in noise.what
    assert sorted(one.where for one in said.findings if one.check == "cable-loop") == [
        f"link/SwitchIB_Mellanox_Technologies:{a}--SwitchIB_Mellanox_Technologies:{b}"
        for a, b in ((1, 2), (19, 21), (29, 30))
    ]


def test_ends_that_negotiated_otherwise_keep_their_own_speed(shared: Path) -> None:
    """In a dump from the documentation one end runs at 1x, the other says 4x."""
    fabric = said_of(shared, "topo/ibnetdiscover/ibtopotool-1.topo").to_fabric()
    port = fabric.ports.speed_gbps[fabric.port_row("SW-6IB4_Voltaire", "1")]
    other = fabric.ports.speed_gbps[fabric.port_row("ISR9024_Voltaire", "10")]
    assert (port, other) == (2.5, 10.0)
