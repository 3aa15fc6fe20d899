"""Routing out of InfiniBand forwarding tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nettune.checks import Finding, Status
from nettune.errors import InputError
from topology.discovery.lft import lft_routing
from topology.fabric import Fabric
from topology.readers import Source, read
from topology.readers.said import Said
from topology.routing import FlowKey, Routing

EXAMPLES = Path(__file__).parent / "readers" / "examples"


@pytest.fixture
def dumps() -> tuple[Said, Fabric]:
    """The example subnet as ibnetdiscover has it, with the tables of dump_fts."""
    said = read(Source.open(EXAMPLES / "ibnetdiscover.txt"))
    said.forwarding = {
        switch: dict(table) for switch, table in read(Source.open(EXAMPLES / "lft.txt")).forwarding.items()
    }
    return said, said.to_fabric()


def names(fabric: Fabric, routing: Routing, source: tuple[str, str], target: tuple[str, str]) -> list[str]:
    flow = FlowKey(fabric.port_row(*source), fabric.port_row(*target))
    return [fabric.directed_name(link) for link in routing.path(flow)]


def problems(found: list[Finding]) -> dict[tuple[str, str], str]:
    return {(one.evidence["kind"], str(one.where)): one.what for one in found if one.status is Status.FAIL}


def test_a_path_follows_the_tables_without_any_hash(dumps: tuple[Said, Fabric]) -> None:
    """Odd LIDs cross the second of two parallel cables, even ones the first; nothing of the transport is needed."""
    routing, found = lft_routing(*dumps)
    fabric = dumps[1]
    assert routing.source == "LFT"
    # node3 mlx5_0 has LID 14, node2 mlx5_1 LID 13
    assert names(fabric, routing, ("node1", "mlx5_1"), ("node3", "mlx5_0")) == [
        "node1:mlx5_1 > leaf2:1", "leaf2:33 > spine1:3", "spine1:1 > leaf1:33", "leaf1:3 > node3:mlx5_0"
    ]  # fmt: skip
    assert names(fabric, routing, ("node1", "mlx5_0"), ("node2", "mlx5_1")) == [
        "node1:mlx5_0 > leaf1:1", "leaf1:34 > spine1:2", "spine1:4 > leaf2:34", "leaf2:2 > node2:mlx5_1"
    ]  # fmt: skip
    assert [(one.status, one.what) for one in found] == [
        (
            Status.PASS,
            "each of 3 switches with a table reaches each of 6 LIDs of NICs; at most 3 switches are crossed",
        )
    ]
    nics = [fabric.port_row("node1", "mlx5_0"), fabric.port_row("node2", "mlx5_1")]
    assert routing.spread(*nics) == dict.fromkeys(routing.path(FlowKey(*nics)), 1.0)


def test_tables_of_switches_by_other_names_are_found_by_guid(dumps: tuple[Said, Fabric]) -> None:
    """An .fdbs file has GUIDs only."""
    said, fabric = dumps
    expected = lft_routing(said, fabric)[0]
    said.forwarding = {f"S-{said.nodes[name].guid[2:]}": table for name, table in said.forwarding.items()}
    for name in ("leaf1", "leaf2", "spine1"):
        said.node(f"S-{said.nodes[name].guid[2:]}", guid=said.nodes[name].guid)
    assert lft_routing(said, fabric)[0].table == expected.table


def test_a_missing_entry_a_port_without_cable_and_a_wrong_host_are_findings(
    dumps: tuple[Said, Fabric],
) -> None:
    """Each names the switch and the destination."""
    said, fabric = dumps
    del said.forwarding["spine1"][14]
    said.forwarding["leaf2"][10] = 40
    said.forwarding["leaf1"][12] = 1
    assert problems(lft_routing(said, fabric)[1]) == {
        ("missing", "switch/spine1"): "LIDs that it has no way to: 1; LID 14 (host/node3/nic/mlx5_0)",
        (
            "nowhere",
            "switch/leaf2",
        ): "LIDs that it sends to ports without a cable: 1; LID 10 (host/node1/nic/mlx5_0) to port 40",
        (
            "wrong",
            "switch/leaf1",
        ): "LIDs that it sends to another host: 1; LID 12 (host/node2/nic/mlx5_0) to host/node1/nic/mlx5_0",
    }


def test_a_loop_is_found_and_named(dumps: tuple[Said, Fabric]) -> None:
    """A spine that sends a LID back to where it came from."""
    said, fabric = dumps
    said.forwarding["spine1"][15] = 1
    (what,) = problems(lft_routing(said, fabric)[1]).values()
    assert re.fullmatch(
        r"LIDs that circle through it: 1; LID 15 \(host/node3/nic/mlx5_1\): (leaf1 > spine1|spine1 > leaf1)",
        what,
    )


def test_a_switch_without_a_table_is_unknown_and_fails_nothing(dumps: tuple[Said, Fabric]) -> None:
    """Paths through it are not known; others are."""
    said, fabric = dumps
    del said.forwarding["spine1"]
    routing, found = lft_routing(said, fabric)
    assert [one.status for one in found] == [Status.UNKNOWN, Status.PASS]
    assert not found[0].required
    assert len(names(fabric, routing, ("node1", "mlx5_0"), ("node3", "mlx5_0"))) == 2


def test_tables_of_another_subnet_are_refused(dumps: tuple[Said, Fabric]) -> None:
    """No tables, none of these switches, and no LIDs."""
    said, fabric = dumps
    tables = said.forwarding
    said.forwarding = {}
    with pytest.raises(InputError, match="no forwarding tables: give the output of dump_fts"):
        lft_routing(said, fabric)
    said.forwarding = {"x": tables["leaf1"]}
    with pytest.raises(InputError, match="switches of the forwarding tables are not in the fabric"):
        lft_routing(said, fabric)
    said.forwarding = tables
    for port in said.ports.values():
        port.lid = 0
    with pytest.raises(InputError, match="LIDs of the NICs are not in the fabric"):
        lft_routing(said, fabric)


def test_paths_of_a_recorded_subnet_have_the_hops_that_opensm_counted(shared: Path) -> None:
    """62 switches, 3 adapters: the .fdbs file says for each switch and LID how many hops are left."""
    folder = shared / "samples" / "ib_lft"
    said = read(Source.open(folder / "opensm_subnet.lst"))
    tables = read(Source.open(folder / "opensm_osm.fdbs"))
    said.forwarding = tables.forwarding
    for name, node in tables.nodes.items():
        said.node(name, node.kind, guid=node.guid)
    fabric = read(Source.open(folder / "opensm_subnet.lst")).to_fabric()
    routing, found = lft_routing(said, fabric)
    assert [one.status for one in found] == [Status.PASS]
    counted: dict[tuple[str, int], int] = {}
    guid = ""
    for line in (folder / "opensm_osm.fdbs").read_text(encoding="utf-8").splitlines():
        if line.startswith("dump_ucast_routes"):
            guid = line.rpartition(" ")[2]
        elif line.startswith("0x"):
            counted[guid, int(line[:6], 16)] = int(line.split(":")[2])
    lids = {port.lid: fabric.port_row(*end) for end, port in said.ports.items() if port.lid}
    assert len(lids) == 3
    checked = 0
    for source in lids.values():
        for lid, target in lids.items():
            if source != target:
                path = routing.path(FlowKey(source, target))
                for left, link in enumerate(reversed(path[1:]), 1):
                    row = int(fabric.ports.node[fabric.directed_ports[link, 0]])
                    assert counted[fabric.nodes.guid[row], lid] == left
                    checked += 1
    assert checked == sum(
        len(routing.path(FlowKey(a, b))) - 1 for a in lids.values() for b in lids.values() if a != b
    )
    assert checked > 20
