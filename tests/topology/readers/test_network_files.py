"""Files with real ports: NetQ's graph, Batfish's cables, containerlab; and NMX, which knows NVLink domains."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nettune.errors import InputError
from topology.fabric import Fabric
from topology.readers import Source, read


def netq(devices: list[dict[str, Any]], links: list[dict[str, Any]]) -> Fabric:
    graph = [{"nodes": [{"compounded_nodes": devices}], "links": links}]
    said = read(Source("graph.json", json.dumps(graph, indent=1)))
    assert not said.logical
    return said.to_fabric()


def names(fabric: Fabric) -> list[str]:
    return sorted(str(fabric.link_element(row)) for row in range(len(fabric.links.port_a)))


DEVICES = [
    {"id": "d1", "name": "leaf", "tier": 1},
    {"id": "d2", "name": "gpu1", "tier": -1},
    {"id": "d3", "tier": 2},
]


def test_netq() -> None:
    """Tier -1 is a host, ids become names, each cable of a bundle is one link with its ports."""
    fabric = netq(
        DEVICES,
        [
            {"compounded_links": [{"id": "d1:swp1-*-d2:eth0"}, {"id": "d1:swp2-*-d2:eth1"}]},
            {"compounded_links": [{"interfaces": [{"node": "d3", "interface": "swp9"}, {"node": "d1", "interface": "swp64"}]}]},
        ],
    )  # fmt: skip
    assert (fabric.hosts, fabric.switches) == (("gpu1",), ("leaf", "d3"))
    assert names(fabric) == [
        "link/d3:swp9--leaf:swp64",
        "link/gpu1:eth0--leaf:swp1",
        "link/gpu1:eth1--leaf:swp2",
    ]
    assert fabric.nodes.tier.tolist() == [1, 0, 2]


def test_netq_bundle_without_cables() -> None:
    """A link whose cables are not told is left out, with a finding."""
    graph = [
        {"nodes": [{"compounded_nodes": DEVICES}], "links": [{"id": "d1-*-d2", "compounded_links": None}]}
    ]
    said = read(Source("f", json.dumps(graph)))
    assert "'d1-*-d2' has no cables" in said.findings[0].what


@pytest.mark.parametrize(
    ("devices", "cable", "words"),
    [
        (DEVICES, {"id": "d1:a-*-d9:b"}, "'d9', which is no device"),
        (DEVICES, {"id": "d1:a"}, "two ends"),
        (DEVICES, {"id": "d1:a b-*-d2:c"}, "name of a port"),
        (DEVICES, {"id": "d1-*-d2"}, "name of a port"),
        ([{"id": "d1", "tier": "1"}], {}, "no tier"),
        ([{"name": "leaf", "tier": 1}], {}, "no id"),
    ],
)
def test_bad_netq(devices: list[dict[str, Any]], cable: dict[str, Any], words: str) -> None:
    """Unknown devices, ends without a port and devices without a tier are errors."""
    with pytest.raises(InputError, match=words):
        netq(devices, [{"compounded_links": [cable]}])


def test_nmx() -> None:
    """Compute trays with their NVLink domain and GPUs."""
    trays = [
        {"Name": f"t{index}", "DomainUUID": "u", "GpuIDList": ["a", "b", "c", "d"]} for index in range(2)
    ]
    said = read(Source("f", json.dumps(trays)))
    assert (len(said.gpus), {node.nvl_domain for node in said.nodes.values()}) == (8, {"u"})
    with pytest.raises(InputError, match="no Name"):
        read(Source("f", '[{"DomainUUID": "u"}]'))


def edge(a: str, b: str) -> dict[str, Any]:
    ends = [dict(zip(("hostname", "interfaceName"), end.split(" "), strict=True)) for end in (a, b)]
    return {"node1": ends[0], "node2": ends[1]}


def test_batfish() -> None:
    """Both directions of a cable are one link; all nodes are network devices."""
    edges = [
        edge("leaf1 swp1", "spine Ethernet1/1"),
        edge("spine Ethernet1/1", "leaf1 swp1"),
        edge("leaf2 swp1", "spine Ethernet1/2"),
    ]
    fabric = read(Source("f", json.dumps({"edges": edges}))).to_fabric()
    assert names(fabric) == ["link/leaf1:swp1--spine:Ethernet1/1", "link/leaf2:swp1--spine:Ethernet1/2"]
    assert fabric.hosts == ()


def test_bad_batfish() -> None:
    """A port with two cables is a contradiction; an end without a name is an error."""
    said = read(Source("f", json.dumps({"edges": [edge("a p", "b p"), edge("a p", "c p")]})))
    assert [finding.check for finding in said.findings] == ["source-conflict"]
    for text, words in (
        ('{"edges": [{"node1": {"interfaceName": "p"}}]}', "cannot be a name"),
        ('{"edges": [{"node1": {"hostname": "a", "interfaceName": "p"}}]}', "name of a port"),
        ('{"edges": [], "x": {"interfaceName": 1}}', "no edges"),
    ):
        with pytest.raises(InputError, match=words):
            read(Source("f", text))


CLAB = """\
name: pod
topology:
  defaults: {kind: nokia_srlinux}
  groups:
    clients: {kind: linux}
  nodes:
    leaf1:
    leaf2: {kind: arista_ceos}
    gpu1: {group: clients}
    gpu2: {kind: linux, group: other}
    br0: {kind: bridge}
  links:
"""


def test_containerlab() -> None:
    """Kinds by node, group and default; both forms of endpoints; ends outside the file are left out."""
    fabric = read(
        Source(
            "pod.clab.yml",
            CLAB
            + '    - endpoints: ["leaf1:e1-1", "gpu1:eth1"]\n'
            + "    - {type: veth, endpoints: [{node: leaf1, interface: e1/2}, {node: leaf2, interface: eth1}]}\n"
            + '    - endpoints: ["br0:eth1", "gpu2:eth1"]\n'
            + '    - endpoints: ["leaf1:e1-9", "mgmt-net:x"]\n'
            + "    - {type: macvlan, endpoint: {node: leaf2, interface: eth9}, host-interface: up0}\n",
        )
    ).to_fabric()
    assert (fabric.hosts, fabric.switches) == (("gpu1", "gpu2"), ("leaf1", "leaf2", "br0"))
    assert names(fabric) == [
        "link/br0:eth1--gpu2:eth1",
        "link/gpu1:eth1--leaf1:e1-1",
        "link/leaf1:e1/2--leaf2:eth1",
    ]


@pytest.mark.parametrize(
    ("link", "line", "words"),
    [
        ('endpoints: ["leaf1:e1", "leaf9:e1"]', 13, "'leaf9', which is no node"),
        ('endpoints: ["leaf1:e1"]', 13, "two endpoints"),
        ('endpoints: ["leaf1", "leaf2:e1"]', 13, "NODE:INTERFACE"),
        ("endpoints: leaf1", 13, "must be a list"),
        ('endpoints: ["{{ .a }}:e1", "leaf2:e1"]', 13, "template"),
        ("endpoints: [[leaf1]]", 13, "must be a mapping"),
    ],
)
def test_bad_containerlab(link: str, line: int, words: str) -> None:
    """Links to unknown nodes, without an interface, and templates are errors with the line."""
    with pytest.raises(InputError, match=words) as caught:
        read(Source("pod.clab.yml", f"{CLAB}    - {link}\n"))
    assert caught.value.line == line
