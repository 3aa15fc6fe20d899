"""NCCL topology XML against a checker after NCCL's own parser."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.exports import export
from topology.fabric import NodeKind

# src/graph/xml.cc: handlers of each element; src/graph/topo.cc: attributes without which it gives up
CHILDREN = {
    "": {"system"},
    "system": {"cpu"},
    "cpu": {"pci", "nic"},
    "pci": {"pci", "gpu", "nic", "pcilink"},
    "gpu": {"nvlink", "c2c"},
    "nic": {"net"},
    "net": set(),
}
REQUIRED = {
    "system": {"version"},
    "cpu": {"numaid", "arch", "vendor", "familyid", "modelid"},
    "pci": {"busid", "class", "link_speed", "link_width"},
    "gpu": {"dev", "sm", "rank", "gdr"},
    "nic": set(),
    "net": {"name", "dev"},
}
TOKEN = re.compile(
    r"<!--(?P<comment>.*?)-->|<(?P<close>/)?(?P<name>[a-z0-9]+)(?P<attributes>(?: [a-z0-9_]+=\"[^\"]*\")*)(?P<empty>/)?>",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r' ([a-z0-9_]+)="([^"]*)"')


def elements(text: str) -> list[tuple[str, dict[str, str], int]]:
    """(name, attributes, row of the parent) of a file, after NCCL's strict grammar."""
    assert text.startswith("<system"), "no prolog: NCCL takes the first name for the root"
    assert not re.search(r"[\t&\x00-\x09\x0b-\x1f]", text), "no tabs, no entities"
    found: list[tuple[str, dict[str, str], int]] = []
    stack: list[int] = [-1]
    position = 0
    for match in TOKEN.finditer(text):
        assert set(text[position : match.start()]) <= {" ", "\n"}, "only blanks between tags"
        position = match.end()
        if match["comment"] is not None:
            assert "--" not in match["comment"]
            continue
        if match["close"]:
            assert found[stack.pop()][0] == match["name"]
            continue
        attributes = ATTRIBUTE.findall(match["attributes"])
        assert len(attributes) <= 16
        assert len(dict(attributes)) == len(attributes)
        assert all(len(key) <= 255 and 0 < len(value) <= 255 for key, value in attributes)
        parent = found[stack[-1]][0] if stack[-1] >= 0 else ""
        assert match["name"] in CHILDREN[parent]
        assert set(dict(attributes)) >= REQUIRED[match["name"]]
        found.append((match["name"], dict(attributes), stack[-1]))
        if not match["empty"]:
            stack.append(len(found) - 1)
    assert text[position:] == "\n"
    assert stack == [-1]
    assert len(found) <= 256
    children = [parent for _, _, parent in found]
    assert max(children.count(row) for row in range(len(found))) <= 640
    busids = [attributes["busid"] for name, attributes, _ in found if name == "pci"]
    assert len(set(busids)) == len(busids)
    assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", busid) for busid in busids)
    return found


def test_a_gpu_stands_at_its_nic(pods):
    """GPU and nearest NIC share a bridge, NICs are in order of rails, speed is in Mbit/s."""
    builder = FabricBuilder()
    builder.node("g1", NodeKind.HOST)
    for rail in (1, 0):
        builder.port("g1", f"mlx5_{rail}", speed_gbps=400, rail=rail, plane=2)
        builder.gpu("g1", rail, numa=rail, nic=f"mlx5_{rail}")
    builder.gpu("g1", 2, numa=1)

    files = export(builder.build(), "nccl-xml")
    found = elements(files["g1.xml"])

    assert list(files) == ["g1.xml"]
    nets = [attributes for name, attributes, _ in found if name == "net"]
    assert [(net["name"], net["dev"], net["speed"], net["rail"], net["plane"]) for net in nets] == [
        ("mlx5_0", "0", "400000", "0", "2"),
        ("mlx5_1", "1", "400000", "1", "2"),
    ]

    def bridge(row: int) -> int:
        while found[row][1].get("class") != "0x060400" and found[row][0] != "cpu":
            row = found[row][2]
        return row

    gpus = {
        attributes["dev"]: bridge(row) for row, (name, attributes, _) in enumerate(found) if name == "gpu"
    }
    nics = {
        attributes["dev"]: bridge(row) for row, (name, attributes, _) in enumerate(found) if name == "net"
    }
    assert gpus["0"] == nics["0"] != gpus["1"] == nics["1"]
    assert found[gpus["2"]][:2] == ("cpu", found[gpus["2"]][1])
    assert found[gpus["2"]][1]["numaid"] == "1"


@given(st.data())
def test_any_fabric_follows_the_grammar(any_fabric, data):
    """Every host with a device has a file after NCCL's grammar with all its GPUs and NICs."""
    fabric = any_fabric(data)
    hosts = {fabric.node_row(host): host for host in fabric.hosts}
    devices = {
        host: [row for row in range(len(fabric.ports.name)) if fabric.ports.node[row] == node]
        + [row for row in range(len(fabric.gpus.host)) if fabric.gpus.host[row] == node]
        for node, host in hosts.items()
    }
    if not any(devices.values()):
        return

    files = export(fabric, "nccl-xml")

    assert set(files) == {f"{host}.xml" for host, found in devices.items() if found}
    for host, found in devices.items():
        if found:
            names = [name for name, _, _ in elements(files[f"{host}.xml"])]
            assert names.count("net") + names.count("gpu") == len(found)


def test_more_than_nccl_reads_is_refused():
    """NCCL stops at 256 elements; the error has the number."""
    builder = FabricBuilder()
    builder.node("g1", NodeKind.HOST)
    for number in range(70):
        builder.port("g1", f"nic{number}")

    with pytest.raises(InputError, match=r"needs 282 elements; NCCL reads at most 256"):
        export(builder.build(), "nccl-xml")


@pytest.mark.parametrize(
    ("host", "nic"),
    [
        ("..", "p"),
        ("a/b", "p"),
        ("a b", "p"),
        ("é", "p"),
        ("h", 'a"b'),
        ("h", "a<b"),
        ("h", "a&b"),
        ("h", "x" * 200),
    ],
)
def test_what_the_grammar_cannot_hold_is_refused(host, nic):
    """There are no entities to write a quote with, and a host's name is a file's."""
    builder = FabricBuilder()
    builder.node(host, NodeKind.HOST)
    builder.port(host, nic)

    with pytest.raises(InputError, match="cannot be"):
        export(builder.build(), "nccl-xml")


def test_what_is_made_up_is_told(pods):
    """The file says that bus ids are invented, and what was assumed."""
    text = export(pods(1, 1, 1), "nccl-xml")["h000.xml"]

    assert "bus ids are made up" in text.splitlines()[1]
    assert "gpu sm=90" in text.splitlines()[1]
