"""NCCL topology XML, one file a host. Keeps: GPUs with their nearest NIC; NICs with speed, rail and plane.

A GPU's NUMA node is that of the first GPU at its NIC; speeds are whole Mbit/s.

A fabric does not know PCI addresses, so these are made up, as are the attributes that NCCL wants and nobody told
(`ASSUMED`): the files feed tools that model NCCL's choices offline. On a real host NCCL would take the made-up devices
for absent ones and drop them; its own dump (NCCL_TOPO_DUMP_FILE) is the one to load there.

Strict grammar of NCCL's own parser (src/graph/xml.cc, xml.h): no prolog, no tabs, no blanks around `=`, no entities,
at most 16 attributes, 255 characters a value, 256 elements a file. Required attributes: src/graph/topo.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.columns import NodeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.fabric import Fabric

MAX_ELEMENTS = 256

ASSUMED = {
    "cpu": {"arch": "x86_64", "vendor": "GenuineIntel", "familyid": "6", "modelid": "143"},
    "gpu": {"sm": "90", "gdr": "1"},
    "pci": {"link_speed": "32.0 GT/s PCIe", "link_width": "16"},
    "net": {"gdr": "1"},
}
"""Attributes that NCCL requires and a fabric does not hold: Sapphire Rapids, Hopper, PCIe 5.0 x16."""

_NOTE = "bus ids are made up, and assumed: " + ", ".join(
    f"{kind} {key}={text}" for kind, assumed in ASSUMED.items() for key, text in assumed.items()
)
_BRIDGE, _GPU, _ETHERNET = "0x060400", "0x030200", "0x020000"  # PCI classes
_SLOTS = 31  # device numbers of a bus, but for the NIC's own
# No entities: a quote, an angle bracket or an ampersand cannot be written.
_VALUE = re.compile(r"[A-Za-z0-9_.,:;@+/~=-]{1,127}")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass
class _Element:
    name: str
    attributes: dict[str, str]
    children: list[_Element] = field(default_factory=list)

    def lines(self, depth: int = 0) -> Iterator[str]:
        indent = "  " * depth
        head = f"{indent}<{self.name}" + "".join(f' {key}="{text}"' for key, text in self.attributes.items())
        if not self.children:
            yield f"{head}/>"
            return
        yield f"{head}>"
        if depth == 0:
            yield f"  <!-- {_NOTE} -->"
        for child in self.children:
            yield from child.lines(depth + 1)
        yield f"{indent}</{self.name}>"

    def count(self) -> int:
        return 1 + sum(child.count() for child in self.children)


def export(fabric: Fabric) -> dict[str, str]:
    """`<host>.xml` of each host that has a GPU or a NIC: the format has no host's name, readers take the file's.

    Raises:
        InputError: a name or a number of devices that the format cannot hold, no device at all.
    """
    is_host = (fabric.nodes.kind == NodeKind.HOST).tolist()
    nics: dict[int, list[int]] = {}
    for port, node in enumerate(fabric.ports.node.tolist()):
        if is_host[node]:
            nics.setdefault(node, []).append(port)
    gpus: dict[int, list[int]] = {}
    for row, node in enumerate(fabric.gpus.host.tolist()):
        gpus.setdefault(node, []).append(row)
    files = {}
    for node in np.flatnonzero(is_host).tolist():
        if node in nics or node in gpus:
            host = fabric.nodes.name[node]
            if not _HOST.fullmatch(host):
                raise InputError(
                    f"host {host!r} cannot be the name of a file: letters, digits, '_', '-', '.' only"
                )
            system = _system(fabric, host, nics.get(node, []), gpus.get(node, []))
            if system.count() > MAX_ELEMENTS:
                raise InputError(
                    f"host {host!r} needs {system.count()} elements; NCCL reads at most {MAX_ELEMENTS} in a file"
                )
            files[f"{host}.xml"] = "\n".join(system.lines()) + "\n"
    if not files:
        raise InputError("no host of the fabric has a NIC or a GPU: there is nothing to tell NCCL")
    return files


def _system(fabric: Fabric, host: str, nics: list[int], gpus: list[int]) -> _Element:
    """A cpu for each NUMA node > a bridge for each NIC with its GPUs, and GPUs that are near no NIC."""
    near: dict[int, list[int]] = {}
    for gpu in gpus:
        nic = int(fabric.gpus.nic[gpu])
        near.setdefault(nic if nic in nics else -1, []).append(gpu)
    numa = {nic: int(fabric.gpus.numa[of_nic[0]]) for nic, of_nic in near.items()}
    cpus: dict[int, _Element] = {}

    def cpu(node: int) -> _Element:
        return cpus.setdefault(node, _Element("cpu", {"numaid": str(node), **ASSUMED["cpu"]}))

    rails = fabric.ports.rail
    for device, nic in enumerate(sorted(nics, key=lambda port: (rails[port] < 0, rails[port], port))):
        bridge = _pci(device + 1, 0, _BRIDGE)
        bridge.children += [
            _gpu(fabric, gpu, device + 1, slot) for slot, gpu in enumerate(near.get(nic, ()), 1)
        ]
        bridge.children.append(_net(fabric, host, nic, device))
        cpu(numa.get(nic, -1)).children.append(bridge)
    for slot, gpu in enumerate(near.get(-1, ()), 1):
        cpu(int(fabric.gpus.numa[gpu])).children.append(_gpu(fabric, gpu, 0, slot))
    return _Element("system", {"version": "1"}, [cpus[node] for node in sorted(cpus)])


def _pci(bus: int, slot: int, device_class: str) -> _Element:
    device, function = (_SLOTS, 0) if slot < 0 else (slot % _SLOTS, slot // _SLOTS)
    address = f"{bus >> 8:04x}:{bus & 255:02x}:{device:02x}.{function}"
    return _Element("pci", {"busid": address, "class": device_class, **ASSUMED["pci"]})


def _gpu(fabric: Fabric, gpu: int, bus: int, slot: int) -> _Element:
    index = str(fabric.gpus.index[gpu])
    pci = _pci(bus, slot, _GPU)
    pci.children.append(_Element("gpu", {"dev": index, "rank": index, **ASSUMED["gpu"]}))
    return pci


def _net(fabric: Fabric, host: str, nic: int, device: int) -> _Element:
    name = fabric.ports.name[nic]
    if not _VALUE.fullmatch(name):
        raise InputError(f"NIC {name!r} of {host!r} cannot be written for NCCL: its XML knows no entities")
    speed_mbps = round(float(fabric.ports.speed_gbps[nic]) * 1000)
    told = {"speed": speed_mbps, "rail": int(fabric.ports.rail[nic]), "plane": int(fabric.ports.plane[nic])}
    known = {key: str(number) for key, number in told.items() if number >= (key == "speed")}
    net = _Element("net", {"name": name, "dev": str(device), "port": "1", **known, **ASSUMED["net"]})
    pci = _pci(device + 1, -1, _ETHERNET)
    pci.children.append(_Element("nic", {}, [net]))
    return pci
