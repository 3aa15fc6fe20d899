"""NCCL topology XML: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads; RCCL's version 2 as well.

Grammar (NVIDIA/nccl graph/xml.cc, graph/topo.cc): `system` > `cpu` > (`pci` | `nic`), `pci` > (`pci` | `gpu` | `nic`
| `pcilink`), `gpu` > (`nvlink` | `c2c`; RCCL: `xgmi`), `nic` > `net`. NCCL's own parser is strict about blanks and
numbers of nodes; this one reads any well-formed XML.

Static files of clouds have no `gpu` and `nic` elements, NCCL fills them in at run time from the PCI class: so does this
reader, with GPUs in order of PCI address and NICs named by address. A `gpu` without rank and a `net` without dev, which
NCCL ignores, are dropped with that reason. `ffff:ff:0N.0` are made-up PCI switches. Several `host_hash` are several
hosts: a dump of an NVLink domain that spans hosts (MNNVL).
"""

from __future__ import annotations

import string
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import NodeKind
from topology.naming import element_name
from topology.readers import xml
from topology.readers.registry import Reader
from topology.readers.said import Said
from topology.readers.single_host import (
    DeviceLink,
    default_host,
    is_accelerator_class,
    is_network_class,
    link_layer,
    nearest_in_tree,
    pci_address,
    pci_order,
)

if TYPE_CHECKING:
    from topology.readers.source import Source

NAME = "nccl-topology"

MAX_MBPS = 6_400_000
"""Faster NICs are not believed: libfabric's CXI provider told 200,000,000 Mbit/s."""

_PARTS = ("pci", "cpu", "gpu", "nic", "net")
_VERSIONS = (1, 2)


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A `net` element: one NIC port as NCCL counts them.

    Attributes:
        name: device (`mlx5_0`); `port` its port, where a NIC with two ports may be two devices with port 1 and 2.
        dev: NCCL's number of it.
        speed_mbps: as told; -1 not told, for which NCCL takes 10000.
        guid: system image GUID, 16 hex digits in network order, the same on all ports of a NIC; empty when 0.
        bus: PCI address of the NIC; empty when it hangs under a CPU.
    """

    host: str
    name: str
    dev: int
    port: int
    speed_mbps: int
    guid: str
    bus: str
    gpu_direct: bool
    max_connections: int


@dataclass
class _Host:
    """What a host's `cpu` elements hold; `path` is the elements above, outermost first."""

    gpus: list[tuple[xml.Element, tuple[xml.Element, ...]]] = field(default_factory=list)
    nets: list[tuple[xml.Element, tuple[xml.Element, ...]]] = field(default_factory=list)
    pcis: list[tuple[xml.Element, tuple[xml.Element, ...]]] = field(default_factory=list)
    has_nic: bool = False


def _recognises(source: Source) -> bool:
    tag = xml.first_tag(source.head)
    return tag == "system" or (tag in _PARTS and "busid=" in source.head)


def _read(source: Source) -> Said:
    if xml.first_tag(source.head) in _PARTS:
        raise source.error("is a fragment of an NCCL topology, without <system>; give the whole file", 1)
    top = xml.document(source)
    version = xml.number(source, top, "version", -1)
    if top.tag != "system" or version not in _VERSIONS:
        raise source.error(
            f"<{top.tag}> of version {version if version >= 0 else 'not told'} is no NCCL topology of version 1 or RCCL's 2",
            top.line,
        )
    said = Said(source.name, NAME)
    hosts = _hosts(source, top)
    for name, host in hosts.items():
        said.node(name, NodeKind.HOST, nvl_domain=default_host(source) if len(hosts) > 1 else "")
        _describe(source, said, name, host)
    return said


def _hosts(source: Source, top: xml.Element) -> dict[str, _Host]:
    """Hosts by name: the file's where there is one, `host-<host_hash>` where there are several."""
    cpus = [element for element in top.children if element.tag == "cpu"]
    if not cpus:
        raise source.error("has no <cpu>: nothing is described", top.line)
    hashes = list(dict.fromkeys(cpu.get("host_hash") for cpu in cpus))
    hosts: dict[str, _Host] = {}
    for cpu in cpus:
        told = cpu.get("host_hash")
        name = default_host(source) if len(hashes) == 1 else element_name(f"host-{told.removeprefix('0x')}")
        host = hosts.setdefault(name, _Host())
        for element, above in cpu.walk():
            if element.tag == "pci":
                host.pcis.append((element, above))
            elif element.tag == "gpu":
                host.gpus.append((element, above))
            elif element.tag == "nic":
                host.has_nic = True
            elif element.tag == "net":
                host.nets.append((element, above))
    return hosts


def _describe(source: Source, said: Said, name: str, host: _Host) -> None:
    gpus = _gpus(source, said, name, host)
    nics = _nics(source, said, name, host)
    near = nearest_in_tree(
        source,
        {index: _ids(above) for index, (_, above) in gpus.items()},
        {nic: _ids(above) for nic, above in nics.items()},
        bridges=1,
    )
    for index, (bus, above) in gpus.items():
        said.gpu(
            name, index, bus=bus, nics=near[index], numa=max(-1, xml.number(source, above[0], "numaid", -1))
        )
    unknown = [element for element, _ in host.pcis if "class" not in element.attributes]
    if unknown and not gpus and not nics:
        said.findings.append(
            Finding(
                check="nccl-topology",
                status=Status.UNKNOWN,
                where=ElementId.host(name),
                what=f"{len(unknown)} PCI devices have no class: NCCL finds out at run time what they are",
                evidence={"devices": len(unknown), "first_line": unknown[0].line},
                required=False,
                fix="dump the topology of a running job with NCCL_TOPO_DUMP_FILE",
            )
        )


def _ids(above: tuple[xml.Element, ...]) -> tuple[int, ...]:
    """The CPU and the bridges above a device: by identity, since addresses of made-up switches may repeat."""
    return tuple(id(element) for element in above)


def _gpus(
    source: Source, said: Said, name: str, host: _Host
) -> dict[int, tuple[str, tuple[xml.Element, ...]]]:
    """Index -> (PCI address, CPU and bridges above its PCI device)."""
    found: dict[int, tuple[str, tuple[xml.Element, ...]]] = {}
    for element, above in host.gpus:
        index = xml.number(source, element, "dev", -1)
        bus = pci_address(above[-1].get("busid")) if above[-1].tag == "pci" else ""
        if index < 0:
            raise source.error("<gpu> has no dev", element.line)
        if "rank" not in element.attributes:
            said.dropped[str(ElementId.gpu(name, index))] = f"line {element.line}: no rank, NCCL ignores it"
            continue
        if index in found:
            raise source.error(f"<gpu> dev {index} appears twice on one host", element.line)
        found[index] = (bus, above[:-1] or above)
        for link in element.children:
            kind = {"nvlink": "NVL", "xgmi": "XGMI", "c2c": "C2C"}.get(link.tag)
            if kind is None:
                continue
            target = pci_address(link.get("target")) or f"cpu{above[0].get('numaid')}"
            count = xml.number(source, link, "count", 0)
            # NCCL writes C2C bandwidth in MB/s per link, which is GB/s * 1000 (graph/xml.cc, "bw" of c2c)
            rate = xml.decimal(source, link, "bw", 0.0) / 1000
            said.events.append(DeviceLink(name, bus, target, kind, count, rate))
    if host.gpus:
        return found
    devices = [
        (pci_address(element.get("busid")), above)
        for element, above in host.pcis
        if is_accelerator_class(element.get("class"))
    ]
    return dict(enumerate(sorted(devices, key=lambda device: pci_order(device[0]))))


def _nics(source: Source, said: Said, name: str, host: _Host) -> dict[str, tuple[xml.Element, ...]]:
    """NIC -> CPU and bridges above its PCI device; each becomes a port of the host."""
    found: dict[str, tuple[xml.Element, ...]] = {}
    many = Counter(element.get("name") for element, _ in host.nets if "dev" in element.attributes)
    for element, above in host.nets:
        device = element.get("name") or f"net{element.get('dev')}"
        port = xml.number(source, element, "port", 1)
        nic = f"{device}:{port}" if many[element.get("name")] > 1 and port > 1 else device
        nic = _port_name(source, element, nic)
        if "dev" not in element.attributes:
            said.dropped[str(ElementId.nic(name, nic))] = f"line {element.line}: no dev, NCCL ignores it"
            continue
        if nic in found:
            raise source.error(f"<net> {nic!r} appears twice on one host", element.line)
        pci = next((part for part in reversed(above) if part.tag == "pci"), None)
        bridges = tuple(part for part in above if part.tag in {"cpu", "pci"} and part is not pci)
        speed = xml.number(source, element, "speed", -1)
        if speed > MAX_MBPS:
            said.findings.append(_unbelievable(name, nic, speed))
        said.port(
            name,
            nic,
            speed_gbps=speed / 1000 if 0 < speed <= MAX_MBPS else 0.0,
            link_layer=link_layer(pci.get("class")) if pci else "",
            rail=max(-1, xml.number(source, element, "rail", -1)),
            plane=max(-1, xml.number(source, element, "plane", -1)),
        )
        said.events.append(
            NetDevice(
                host=name,
                name=device,
                dev=xml.number(source, element, "dev", -1),
                port=port,
                speed_mbps=speed,
                guid=system_image_guid(element.get("guid")),
                bus=pci_address(pci.get("busid")) if pci else "",
                gpu_direct=element.get("gdr") == "1",
                max_connections=xml.number(source, element, "maxconn", 0),
            )
        )
        found[nic] = bridges
    if host.has_nic or host.nets:
        return found
    for element, above in host.pcis:
        if is_network_class(element.get("class")):
            nic = _port_name(source, element, pci_address(element.get("busid")))
            if nic in found:
                raise source.error(f"<pci> {nic!r} appears twice on one host", element.line)
            said.port(name, nic, link_layer=link_layer(element.get("class")))
            found[nic] = above
    return found


def _port_name(source: Source, element: xml.Element, name: str) -> str:
    """Checked against the grammar of element names.

    Raises:
        InputError: empty, has blanks or `--`.
    """
    if not name or "--" in name or any(character.isspace() for character in name):
        raise source.error(f"{name[:40]!r} of <{element.tag}> cannot be the name of a NIC", element.line)
    return name


def _unbelievable(host: str, nic: str, speed: int) -> Finding:
    return Finding(
        check="nccl-topology",
        status=Status.WARN,
        where=ElementId.nic(host, nic),
        what=f"its speed of {speed} Mbit/s is not believed and left out",
        evidence={"speed_mbps": speed, "most_mbps": MAX_MBPS},
        fix="correct `speed` (in Mbit/s) in the topology file: NCCL believes it",
    )


def system_image_guid(text: str) -> str:
    """A `guid` attribute as 16 hex digits in network order; empty when it is none.

    NCCL prints the 64 bits that verbs give in network order as a number of this (little-endian) host: 0x9a70500003ae6d94
    is GUID 946dae030050709a. Written with 0x, or without it as 16 hex digits; a small decimal number (static files
    count their NICs) is no GUID.
    """
    digits = text.strip().lower().removeprefix("0x")
    if not digits or not set(digits) <= set(string.hexdigits) or len(digits) > 16:
        return ""
    if len(digits) < 8:  # a counter: no vendor's GUID begins with five zero bytes
        return ""
    return int(digits, 16).to_bytes(8, "little").hex()


READER = Reader(NAME, "NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE: NCCL or RCCL topology XML", _recognises, _read)
