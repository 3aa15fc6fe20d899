"""lstopo XML (hwloc 1, 2 and 3): GPUs and NICs of one host with their place in the PCI tree.

Grammar (open-mpi/hwloc hwloc2.dtd): `topology` > `object` with `type`; `Bridge` (bridge_type 0-1 is a host bridge, 1-1 a
PCI bridge) > `PCIDev` (pci_busid, pci_type `0207 [vendor:device] ..`) > `OSDev` (name). What a NIC or an accelerator is
follows from the PCI class and from names (`mlx5_0` before `ib0`, `cuda0`): numbers of osdev_type differ by version.
Without I/O objects (hwloc's default filter, macOS) only the host is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from topology.columns import LinkState, NodeKind
from topology.naming import element_name
from topology.readers import xml
from topology.readers.registry import Reader
from topology.readers.said import Said
from topology.readers.single_host import (
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

NAME = "lstopo"

_ACCELERATOR = re.compile(r"(cuda|nvml|rsmi|ze|ve|opencl\d{1,4}d)(\d{1,4})")
_NUMBERED = ("nvml", "rsmi", "cuda")
"""Backends whose numbers count the host's accelerators; NVML and ROCm SMI count all, CUDA what a process sees."""

_COMPUTE_CLASSES = ("0302", "12")
"""PCI classes of accelerators without a display; others need an OSDev that says so (a board's VGA is no accelerator)."""

_ACTIVE = "4"


@dataclass(frozen=True)
class _Device:
    """A PCI device: its OSDevs, its NUMA node and what stands above it, NUMA node and host bridge first."""

    element: xml.Element
    above: tuple[int, ...]
    numa: int

    @property
    def bus(self) -> str:
        return pci_address(self.element.get("pci_busid"))

    @property
    def pci_class(self) -> str:
        return self.element.get("pci_type")[:4]

    @property
    def parts(self) -> list[xml.Element]:
        return [
            child for child in self.element.children if child.get("type") == "OSDev" and child.get("name")
        ]


def _recognises(source: Source) -> bool:
    return xml.first_tag(source.head) == "topology" and ("<object" in source.head or "hwloc" in source.head)


def _read(source: Source) -> Said:
    top = xml.document(source, doctype=True)
    machine = next((child for child in top.children if child.tag == "object"), None)
    if top.tag != "topology" or machine is None:
        raise source.error(f"<{top.tag}> without <object> is no lstopo topology", top.line)
    said = Said(source.name, NAME)
    host = _host_name(source, top, machine)
    said.node(host, NodeKind.HOST)
    devices = _devices(source, machine)
    nics: dict[str, _Device] = {}
    for device in devices:
        if is_network_class(device.pci_class):
            for nic in _say_nics(source, said, host, device):
                nics.setdefault(nic, device)
    gpus = _accelerators(devices)
    near = nearest_in_tree(
        source,
        {index: gpu.above for index, gpu in gpus.items()},
        {nic: device.above for nic, device in nics.items()},
        bridges=2,
    )
    for index, gpu in gpus.items():
        said.gpu(host, index, bus=gpu.bus, numa=gpu.numa, nics=near[index])
    if not devices:
        said.findings.append(
            Finding(
                check=NAME,
                status=Status.UNKNOWN,
                where=ElementId.host(host),
                what="has no PCI devices: which NICs and accelerators the host has is not told",
                required=False,
                fix="write the file with `lstopo --filter io:important --of xml`",
            )
        )
    return said


def _host_name(source: Source, top: xml.Element, machine: xml.Element) -> str:
    """The info `HostName`, under the machine up to hwloc 2, under the topology since 3; else the file's name."""
    for info in (*top.children, *machine.children):
        if info.tag == "info" and info.get("name") == "HostName":
            try:
                return element_name(info.get("value"))
            except InputError:
                break
    return default_host(source)


def _devices(source: Source, machine: xml.Element) -> list[_Device]:
    found: list[_Device] = []
    for element, above in machine.walk():
        if element.tag != "object" or element.get("type") != "PCIDev":
            continue
        bridges = [part for part in above if part.get("type") == "Bridge"]
        chain = [id(part) for part in bridges]
        if len(chain) > 2:
            # a PCIe switch is two levels, upstream and downstream ports: the device's own downstream port is left out
            chain.pop()
        around = [part for part in above if part.get("type") != "Bridge" and part.tag == "object"]
        place = around[-1] if around else machine
        found.append(_Device(element, (id(place), *chain), _numa(source, around)))
    return found


def _numa(source: Source, around: list[xml.Element]) -> int:
    """The NUMA node of the innermost object that names exactly one; -1 where none does."""
    for part in reversed(around):
        if part.get("type") == "NUMANode" and "os_index" in part.attributes:
            return max(-1, xml.number(source, part, "os_index", -1))
        nodeset = part.get("nodeset")
        if nodeset:
            bits = _bits(source, part, nodeset)
            return bits.bit_length() - 1 if bits.bit_count() == 1 else -1
    return -1


def _bits(source: Source, element: xml.Element, text: str) -> int:
    """A mask of comma-separated 32-bit words, most significant first; an empty word is 0, a first `0xf...f` is endless."""
    value = 0
    for word in text[:4096].split(","):
        digits = word.strip().lower().removeprefix("0x").replace("...", "")
        try:
            value = value << 32 | int(digits or "0", 16)
        except ValueError:
            raise source.error(f"nodeset={text[:40]!r} is no mask", element.line) from None
    return value


def _say_nics(source: Source, said: Said, host: str, device: _Device) -> list[str]:
    """The names of a network device's ports: its RDMA devices, else its interfaces, else its PCI address."""
    infos = {part.get("name"): _infos(part) for part in device.parts}
    rdma = [name for name, info in infos.items() if "NodeGUID" in info]
    if not infos:
        _say_nic(source, said, host, device, device.bus)
        return [device.bus]
    if not rdma:
        for name, info in infos.items():
            _say_nic(source, said, host, device, name, guid=info.get("Address", "").lower())
        return list(infos)
    names = []
    for name in rdma:
        info = infos[name]
        for port in [int(key[4:-5]) for key in info if re.fullmatch(r"Port\d{1,3}State", key)] or [1]:
            nic = name if port == 1 else f"{name}:{port}"
            state = info.get(f"Port{port}State", "")
            gid = info.get(f"Port{port}GID0", "").replace(":", "")
            lid = info.get(f"Port{port}LID", "0x0")
            ib = link_layer(device.pci_class) == "IB"
            _say_nic(
                source,
                said,
                host,
                device,
                nic,
                guid=f"0x{gid[16:].lower()}" if ib and len(gid) == 32 else "",
                lid=int(lid, 16) if ib and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", lid) else 0,
                state=(LinkState.UP if state == _ACTIVE else LinkState.DOWN) if state else None,
            )
            names.append(nic)
    return names


def _say_nic(
    source: Source,
    said: Said,
    host: str,
    device: _Device,
    name: str,
    *,
    guid: str = "",
    lid: int = 0,
    state: LinkState | None = None,
) -> None:
    if not name or "--" in name or name.split() != [name]:
        raise source.error(f"{name[:40]!r} cannot be the name of a NIC", device.element.line)
    said.port(host, name, link_layer=link_layer(device.pci_class), guid=guid, lid=lid, state=state)


def _infos(part: xml.Element) -> dict[str, str]:
    return {info.get("name"): info.get("value") for info in part.children if info.tag == "info"}


def _accelerators(devices: list[_Device]) -> dict[int, _Device]:
    """Index -> accelerator: by a backend that numbers all of them, else in order of PCI address."""
    found: list[tuple[_Device, dict[str, int]]] = []
    for device in devices:
        matches = [_ACCELERATOR.fullmatch(part.get("name")) for part in device.parts]
        numbers = {match[1]: int(match[2]) for match in matches if match}
        plain = device.pci_class.startswith(_COMPUTE_CLASSES) or (
            device.pci_class == "0380" and "[1002:" in device.element.get("pci_type").lower()
        )
        if plain or (is_accelerator_class(device.pci_class) and numbers):
            found.append((device, numbers))
    for backend in _NUMBERED:
        told = {numbers[backend]: device for device, numbers in found if backend in numbers}
        if found and len(told) == len(found):
            return told
    return dict(enumerate(sorted((device for device, _ in found), key=lambda device: pci_order(device.bus))))


READER = Reader(NAME, "lstopo: a host's devices as XML", _recognises, _read)
