from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nettune.errors import InputError
from topology.columns import LinkState, NodeKind
from topology.readers import Said, Source, read
from topology.readers.ethernet import UnnamedNeighbor

EXAMPLE = Path(__file__).parent / "examples/eos.json"


def said(*outputs: dict[str, Any], name: str = "leaf1.json") -> Said:
    return read(Source(name, "\n".join(map(json.dumps, outputs))), "eos")


def detail(port: str, **neighbor: Any) -> dict[str, Any]:
    return {"lldpNeighbors": {port: {"lldpNeighborInfo": [neighbor]}}}


def test_example() -> None:
    """An eAPI answer of four commands: ports, speeds, states and groups; neighbours with names, and one without.

    By hand: 5 front ports are in the example, 1 Port-Channel; 3 neighbours have a systemName.
    """
    result = read(Source.open(EXAMPLE))
    fabric = result.to_fabric()
    assert (result.format, fabric.hosts, fabric.switches) == (
        "eos",
        ("g1.pod2.example",),
        ("leaf1", "spine1"),
    )
    assert sorted(str(fabric.link_element(row)) for row in range(len(fabric.links.port_a))) == [
        "link/g1.pod2.example:ens1f0np0--leaf1:Ethernet1/1",
        "link/leaf1:Ethernet61/1--spine1:Ethernet1/1",
        "link/leaf1:Ethernet62/1--spine1:Ethernet1/5",
    ]
    ports = {port: said for (node, port), said in result.ports.items() if node == "leaf1"}
    assert {port: (said.speed_gbps, said.lag, said.state) for port, said in ports.items()} == {
        "Ethernet1/1": (400, -1, LinkState.UP),
        "Ethernet2/1": (400, -1, LinkState.UP),
        "Ethernet3/1": (400, -1, LinkState.DOWN),
        "Ethernet61/1": (800, 10, LinkState.UP),
        "Ethernet62/1": (800, 10, LinkState.DOWN),
    }
    assert result.nodes["leaf1"].guid == "c4:ca:2b:00:00:01"
    assert result.ports["g1.pod2.example", "ens1f0np0"].guid == "b8:59:9f:00:00:10"
    assert result.events == [
        UnnamedNeighbor("leaf1", "Ethernet2/1", "b8:59:9f:00:00:30", "b8:59:9f:00:00:30")
    ]
    down = [
        str(fabric.link_element(row))
        for row, state in enumerate(fabric.links.state)
        if state == LinkState.DOWN
    ]
    assert down == ["link/leaf1:Ethernet62/1--spine1:Ethernet1/5"]


def test_short_form() -> None:
    """`show lldp neighbors`: a list; who printed it is the file's name; a MAC in the place of a name is no name."""
    result = said(
        {
            "tablesInserts": 5,
            "lldpNeighbors": [
                {
                    "ttl": 120,
                    "neighborDevice": "spine1",
                    "neighborPort": "Ethernet3/1",
                    "port": "Ethernet49/1",
                },
                {"ttl": 120, "neighborDevice": "g1", "neighborPort": "b859.9f00.0010", "port": "Ethernet1"},
                {
                    "ttl": 120,
                    "neighborDevice": "b859.9f00.0030",
                    "neighborPort": "b859.9f00.0030",
                    "port": "Ethernet2",
                },
                {"ttl": 120, "neighborDevice": "g2", "neighborPort": "eth2", "port": "Ethernet3"},
            ],
        },
        name="captures/tor-7.json",
    )
    assert {name: node.kind for name, node in result.nodes.items()} == {
        "tor-7": NodeKind.SWITCH,
        "spine1": NodeKind.SWITCH,
        "g1": None,
        "g2": NodeKind.HOST,
    }
    assert (("g1", "b8:59:9f:00:00:10"), ("tor-7", "Ethernet1")) in result.links
    assert list(result.dropped) == ["host/b8_59_9f_00_00_30"]


def test_outputs_one_after_the_other_are_of_one_switch() -> None:
    """Several `| json` outputs in one file; `show hostname` names the switch wherever it stands."""
    result = said(
        detail("Ethernet1", systemName="g1", neighborInterfaceInfo={"interfaceId": '"eth0"'}),
        {"interfaceStatuses": {"Ethernet1": {"bandwidth": 0, "linkStatus": "connected"}}},
        {"hostname": "leaf9", "fqdn": "leaf9.example"},
        name="-",
    )
    assert list(result.links) == [(("g1", "eth0"), ("leaf9", "Ethernet1"))]
    assert result.ports["leaf9", "Ethernet1"].speed_gbps == 0


def test_stations_by_capability() -> None:
    """EOS calls the LLDP capability Station `stationOnly`."""
    result = said(
        detail(
            "Ethernet1",
            systemName="g1",
            systemCapabilities={"stationOnly": True, "bridge": False},
            neighborInterfaceInfo={"interfaceId_v2": "rail0", "interfaceIdType": "interfaceName"},
        )
    )
    assert result.nodes["g1"].kind is NodeKind.HOST


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '{"jsonrpc": "2.0", "id": 1,\n "error": {"code": 1002, "message": "invalid command"}}',
            ":2: is an error that",
        ),
        ('{"hostname": "leaf1"}', ": has neither lldpNeighbors nor interfaceStatuses"),
        ('{"lldpNeighbors": 3}', ": lldpNeighbors should be a list, or an object by port"),
        ('{"interfaceStatuses": [1]}', ": interfaceStatuses should be an object by port"),
        (
            '{"lldpNeighbors": [{"port": "Ethernet1", "neighborDevice": "/", "neighborPort": "x"}]}',
            ": the neighbour on",
        ),
        ('{"lldpNeighbors": [', ":1: the JSON is cut short"),
    ],
)
def test_errors(text: str, why: str) -> None:
    """Each error names the file and what is wrong."""
    with pytest.raises(InputError) as caught:
        read(Source("leaf1.json", text), "eos")
    assert str(caught.value).startswith(f"leaf1.json{why}")
