"""NCCL graph XML: what NCCL_GRAPH_DUMP_FILE writes: the rings and trees of one host by channel.

Grammar (NVIDIA/nccl graph/search.cc): `graphs version="1"` > `graph` > `channel` > (`net` | `gpu`). `dev` is written
base 16 and may carry the system's number in its top byte (NCCL_TOPO_ID); `rank` is decimal. The graphs are events; the
fabric learns the accelerators, and nothing of NICs, which have numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import NodeKind
from topology.readers import xml
from topology.readers.registry import Reader
from topology.readers.said import Said
from topology.readers.single_host import default_host

if TYPE_CHECKING:
    from topology.readers.source import Source

NAME = "nccl-graph"

GRAPHS = {0: "ring", 1: "tree", 2: "collnet-chain", 3: "nvls", 4: "collnet-direct"}
"""Graph ids by order of NCCL's search (init.cc: ring, tree, collnet chain and direct, NVLS)."""

PATTERNS = {1: "balanced-tree", 2: "split-tree", 3: "tree", 4: "ring", 5: "nvls", 6: "collnet-direct"}
"""NCCL_TOPO_PATTERN_* (include/graph.h)."""

_SYSTEM_SHIFT = 56


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or NIC by NCCL's number; `system` counts the hosts of a fused topology, `rank` is -1 where not told."""

    kind: str
    dev: int
    system: int = 0
    rank: int = -1


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph.

    Attributes:
        id: 0 ring, 1 tree, 2 collnet chain, 3 NVLS (its channels have one GPU).
        pattern: number of the search pattern, see `PATTERNS`.
        channels: the devices of each channel in order: NIC in, GPUs, NIC out; no NICs on a single host.
        speed_intra_gbytes_per_s, speed_inter_gbytes_per_s: of each channel, inside and between hosts.
        type_intra, type_inter: worst path (`NVL`, `PIX`, `SYS`).
        latency_inter_us: 0 in dumps that lack it.
    """

    id: int
    pattern: int
    cross_nic: int
    channels: tuple[tuple[Device, ...], ...]
    speed_intra_gbytes_per_s: float
    speed_inter_gbytes_per_s: float
    latency_inter_us: float
    type_intra: str
    type_inter: str
    same_channels: bool

    @property
    def kind(self) -> str:
        """`ring`, `tree`, ...; `graph-N` for an id that is not known."""
        return GRAPHS.get(self.id, f"graph-{self.id}")


def _recognises(source: Source) -> bool:
    return xml.first_tag(source.head) == "graphs"


def _read(source: Source) -> Said:
    top = xml.document(source)
    if top.tag != "graphs" or xml.number(source, top, "version", -1) != 1:
        raise source.error(f"<{top.tag}> is no NCCL graph file of version 1", top.line)
    said = Said(source.name, NAME)
    host = default_host(source)
    said.node(host, NodeKind.HOST)
    for element in top.children:
        if element.tag != "graph":
            raise source.error(f"<{element.tag}> does not belong into <graphs>", element.line)
        graph = _graph(source, element)
        said.events.append(graph)
        told = xml.number(source, element, "nchannels", -1)
        if told not in {-1, len(graph.channels)}:
            said.findings.append(_cut(host, graph, told))
        for device in dict.fromkeys(device for channel in graph.channels for device in channel):
            if device.kind != "gpu":
                continue
            name = f"{host}-{device.system}" if device.system else host
            said.gpu(name, device.dev)
    return said


def _graph(source: Source, element: xml.Element) -> Graph:
    number, decimal = xml.number, xml.decimal
    if "id" not in element.attributes:
        raise source.error("<graph> has no id", element.line)
    return Graph(
        id=number(source, element, "id", -1),
        pattern=number(source, element, "pattern", -1),
        cross_nic=number(source, element, "crossnic", 0),
        channels=tuple(
            tuple(_device(source, part) for part in channel.children if part.tag in {"net", "gpu"})
            for channel in element.children
            if channel.tag == "channel"
        ),
        speed_intra_gbytes_per_s=decimal(source, element, "speedintra", 0.0),
        speed_inter_gbytes_per_s=decimal(source, element, "speedinter", 0.0),
        latency_inter_us=decimal(source, element, "latencyinter", 0.0),
        type_intra=element.get("typeintra"),
        type_inter=element.get("typeinter"),
        same_channels=number(source, element, "samechannels", 0) != 0,
    )


def _device(source: Source, element: xml.Element) -> Device:
    if "dev" not in element.attributes:
        raise source.error(f"<{element.tag}> has no dev", element.line)
    dev = xml.number(source, element, "dev", 0, base=16)
    if dev < 0:
        raise source.error(f"dev of <{element.tag}> is no 64-bit number", element.line)
    return Device(
        kind=element.tag,
        dev=dev & ((1 << _SYSTEM_SHIFT) - 1),
        system=dev >> _SYSTEM_SHIFT,
        rank=xml.number(source, element, "rank", -1),
    )


def _cut(host: str, graph: Graph, told: int) -> Finding:
    return Finding(
        check="nccl-graph",
        status=Status.WARN,
        where=ElementId.host(host),
        what=f"the {graph.kind} graph tells {told} channels and has {len(graph.channels)}",
        evidence={"told": told, "found": len(graph.channels)},
        fix="dump the graphs again with NCCL_GRAPH_DUMP_FILE",
    )


READER = Reader(NAME, "NCCL_GRAPH_DUMP_FILE: NCCL's rings and trees as XML", _recognises, _read)
