from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nettune.errors import InputError
from topology.columns import LinkState, NodeKind
from topology.readers import Said, Source, read
from topology.readers.ethernet import SwitchHash

EXAMPLE = Path(__file__).parent / "examples/sonic.json"


def said(config: dict[str, Any], name: str = "tor-1.config_db.json") -> Said:
    return read(Source(name, json.dumps(config)), "sonic")


def test_example() -> None:
    """Ports with speed and mtu, neighbours of both forms, aggregation, addresses, hashing.

    By hand: 5 ports, 4 neighbours, of which two answer on eth0, 2 members of one port channel, 1 port is down.
    """
    result = read(Source.open(EXAMPLE))
    fabric = result.to_fabric()
    assert result.format == "sonic"
    assert (fabric.hosts, fabric.switches) == (
        ("Servers0", "Servers1"),
        ("tor-1", "ARISTA01T1", "ARISTA02T1"),
    )
    assert sorted(str(fabric.link_element(row)) for row in range(len(fabric.links.port_a))) == [
        "link/ARISTA01T1:Ethernet1--tor-1:Ethernet240",
        "link/ARISTA02T1:Ethernet1--tor-1:Ethernet248",
        "link/Servers0:eth0--tor-1:Ethernet0",
        "link/Servers1:eth0--tor-1:Ethernet8",
    ]
    own = {port: said for (node, port), said in result.ports.items() if node == "tor-1"}
    assert {port: (said.speed_gbps, said.mtu, said.lag, said.address) for port, said in own.items()} == {
        "Ethernet0": (100, 9100, -1, ""),
        "Ethernet8": (100, 9100, -1, ""),
        "Ethernet16": (100, 9100, -1, ""),
        "Ethernet240": (400, 9100, 101, "10.0.0.56"),
        "Ethernet248": (400, 9100, 101, ""),
    }
    assert own["Ethernet16"].state is LinkState.DOWN
    assert result.nodes["tor-1"].guid == "1c:34:da:00:00:01"
    assert not result.findings
    assert result.events == [
        SwitchHash(
            "tor-1",
            {
                "ecmp": ("DST_IP", "SRC_IP", "L4_DST_PORT", "L4_SRC_PORT"),
                "ecmp ipv4 rdma": ("DST_IP", "SRC_IP", "RDMA_BTH_DEST_QP"),
                "lag": ("DST_IP", "SRC_IP"),
            },
            {"ecmp": "CRC_CCITT", "lag": "CRC"},
        )
    ]


def test_sample(shared: Path) -> None:
    """The recorded SWITCH_HASH: its 6 lists counted with grep, their lengths by hand, 2 algorithms, no port at all."""
    result = read(Source.open(shared / "samples/topo/sonic-config-db/switch-hash-rdma.json"))
    assert (list(result.nodes), len(result.ports), len(result.links)) == (["switch-hash-rdma"], 0, 0)
    (event,) = result.events
    assert {use: len(fields) for use, fields in event.fields.items()} == {
        "ecmp": 19,
        "lag": 17,
        "ecmp ipv4": 8,
        "ecmp ipv6": 9,
        "ecmp ipv4 rdma": 10,
        "ecmp ipv6 rdma": 11,
    }
    assert event.fields["ecmp ipv4 rdma"][-1] == "RDMA_BTH_DEST_QP"
    assert event.algorithms == {"ecmp": "CRC", "lag": "CRC"}


def test_both_spellings_of_hash_keys_are_one() -> None:
    """`ecmp_hash@ipv4` and `ecmp_hash_ipv4` are the same key."""
    fields = [
        said({"SWITCH_HASH": {"GLOBAL": {key: ["SRC_IP"]}}}).events[0].fields
        for key in ("ecmp_hash@ipv4_rdma", "ecmp_hash_ipv4_rdma")
    ]
    assert fields == [{"ecmp ipv4 rdma": ("SRC_IP",)}] * 2


def test_the_first_address_of_version_4_counts() -> None:
    """A port may have several addresses; flows are IPv4 where there is one."""
    keys = [
        "Ethernet0",
        "Ethernet0|fc00::1/126",
        "Ethernet0|10.0.0.0/31",
        "Ethernet0|10.9.9.9/31",
        "Ethernet4|fc00::5/126",
    ]
    ports = said({"PORT": {}, "INTERFACE": {key: {} for key in keys}}).ports
    assert [ports["tor-1", port].address for port in ("Ethernet0", "Ethernet4")] == ["10.0.0.0", "fc00::5"]


def test_without_a_hostname_the_file_names_the_switch() -> None:
    """The file's name stands in, with `.config_db` as a suffix."""
    assert list(said({"PORT": {"Ethernet0": {"speed": "100000"}}}).nodes) == ["tor-1"]


def test_a_neighbour_without_a_port_is_a_finding() -> None:
    """No cable is invented for it."""
    result = said({"DEVICE_NEIGHBOR": {"Ethernet0": {"name": "g1"}}})
    assert [str(finding.where) for finding in result.findings] == ["switch/tor-1/port/Ethernet0"]
    assert not result.links


def test_kinds_of_neighbours() -> None:
    """The neighbour's configured type decides, else the name of its port."""
    neighbors = {
        "Ethernet0": {"name": "a", "port": "rail0"},
        "Ethernet4": {"name": "b", "port": "Ethernet0"},
        "Ethernet8": {"name": "c", "port": "x"},
        "Ethernet12": {"name": "d", "port": "ens1f0"},
    }
    types = {"a": {"type": "Server"}, "d": {"type": "LeafRouter"}}
    nodes = said({"DEVICE_NEIGHBOR": neighbors, "DEVICE_NEIGHBOR_METADATA": types}).nodes
    assert [nodes[name].kind for name in "abcd"] == [NodeKind.HOST, NodeKind.SWITCH, None, NodeKind.SWITCH]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"VLAN": {}}', ": has none of PORT, DEVICE_NEIGHBOR"),
        ("[1]", ": has none of PORT, DEVICE_NEIGHBOR"),
        ('{"PORT":\n [1]}', ":2: PORT should be an object"),
        (
            '{"PORT": {"Ethernet0": {\n"speed": "fast"}}}',
            ":2: PORT Ethernet0: speed 'fast' is no number up to 10000000",
        ),
        (
            '{"PORT": {"Ethernet0": {"mtu": "999999"}}}',
            ":1: PORT Ethernet0: mtu '999999' is no number up to 100000",
        ),
        ('{"PORT": {" ": {}}}', ": PORT has a port without a name"),
        (
            '{"DEVICE_NEIGHBOR": {\n"Ethernet0": {"port": "eth0"}}}',
            ":2: DEVICE_NEIGHBOR 'Ethernet0' names no port and",
        ),
    ],
)
def test_errors(text: str, why: str) -> None:
    """Each error names the file, and the line where one value is wrong."""
    with pytest.raises(InputError) as caught:
        read(Source("config_db.json", text), "sonic")
    assert str(caught.value).startswith(f"config_db.json{why}")
