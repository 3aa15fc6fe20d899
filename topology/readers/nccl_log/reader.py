"""What an NCCL log says of hosts: their GPUs, NICs and GPUs' nearest NICs; everything else stays an event."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.columns import NodeKind
from topology.naming import element_name
from topology.readers.nccl_log.comm_events import CommInit
from topology.readers.nccl_log.events import (
    Event,
    GpuDirectPath,
    NetDevice,
    NetUsing,
    NetworkChosen,
    Other,
    QueuePair,
    UsedDevice,
)
from topology.readers.nccl_log.gid import ipv4_of_gid
from topology.readers.nccl_log.reported import complaints
from topology.readers.nccl_log.tokenizer import tokenize
from topology.readers.registry import Reader
from topology.readers.said import Said
from topology.readers.single_host import default_host
from topology.readers.textlines import lines_of

if TYPE_CHECKING:
    from topology.readers.source import Source

NAME = "nccl-log"

_LOG = re.compile(r"(?:^|\s)NCCL (?:INFO|WARN) ", re.MULTILINE)
_RAS = re.compile(r"^[NR]CCL version \S+ compiled with ", re.MULTILINE)
_TELLS = (NetUsing, NetDevice, CommInit, QueuePair)
"""Events that tell something of the host even where its name is missing."""

_DEVICE_NAME = re.compile(r"(?!.*--)[\w.+@-]{1,64}")
"""RDMA devices and interfaces; other names come from torn lines."""

_PARTS = ("=== System : maxBw ", "ProcessGroupNCCL.cpp:")


@dataclass
class _Host:
    """What the lines of one host tell before names of NICs are settled."""

    used: dict[str, dict[tuple[int, str, int], UsedDevice]] = field(default_factory=dict)
    devices: dict[tuple[int, str, int], NetDevice] = field(default_factory=dict)
    chosen: str = ""
    inits: dict[tuple[int, str], CommInit] = field(default_factory=dict)
    pairs: dict[tuple[int, int], QueuePair] = field(default_factory=dict)
    direct: dict[str, dict[int, int]] = field(default_factory=dict)


def _recognises(source: Source) -> bool:
    head = source.head
    return (
        _LOG.search(head) is not None or _RAS.search(head) is not None or any(part in head for part in _PARTS)
    )


def _read(source: Source) -> Said:
    said = Said(source.name, NAME)
    hosts: dict[str, _Host] = {}
    texts = 0
    for event in tokenize(lines_of(source.text)):
        if isinstance(event, Other) and not event.level:
            texts += 1
            continue
        said.events.append(event)
        if event.writer.host or isinstance(event, _TELLS):
            _learn(hosts.setdefault(_host_name(source, event), _Host()), event)
    if not said.events:
        raise source.error(f"has no line of NCCL among {texts} lines")
    for name, host in hosts.items():
        said.node(name, NodeKind.HOST)
        _describe(said, name, host)
    said.findings += complaints(said.events, _writer)
    return said


def _writer(event: Event) -> str:
    try:
        return element_name(event.writer.host)
    except InputError:
        return ""


def _host_name(source: Source, event: Event) -> str:
    """The writer's host; the file's name where prefixes are missing or blanked."""
    try:
        return element_name(event.writer.host)
    except InputError:
        return default_host(source)


def _learn(host: _Host, event: Event) -> None:
    match event:
        case NetUsing():
            used = host.used.setdefault(event.transport, {})
            for device in event.devices:
                if _DEVICE_NAME.fullmatch(device.name):
                    used.setdefault((device.index, device.name, device.port), device)
        case NetDevice() if _DEVICE_NAME.fullmatch(event.name):
            host.devices.setdefault((event.index, event.name, event.port), event)
        case NetworkChosen():
            host.chosen = host.chosen or event.name
        case CommInit() if event.state in {"START", "COMPLETE"}:
            host.inits.setdefault((event.nvml_dev, event.bus), event)
        case QueuePair():
            host.pairs.setdefault((event.ib_dev, event.port), event)
        case GpuDirectPath():
            host.direct.setdefault(event.bus, {}).setdefault(event.hca, event.distance)
        case _:
            pass


def _address(text: str) -> str:
    """An IP address without its zone; empty where a line is torn."""
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return ""


def _describe(said: Said, name: str, host: _Host) -> None:
    """RDMA NICs of any transport; the interfaces of a socket transport only where it is the one that is used."""
    rdma = [device for used in host.used.values() for device in used.values() if device.link_layer]
    names: dict[int, str] = {}
    ports = {(device.name, device.port): device for device in rdma}
    many = Counter(device for device, _ in ports)
    for (device, port), used in ports.items():
        nic = f"{device}:{port}" if many[device] > 1 and port > 1 else device
        names.setdefault(used.index, nic)
        said.port(name, nic, link_layer="IB" if used.link_layer == "IB" else "Ethernet")
    for known in host.devices.values():
        nic = f"{known.name}:{known.port}" if many[known.name] > 1 and known.port > 1 else known.name
        names.setdefault(known.index, nic)
        said.port(
            name,
            nic,
            link_layer="IB" if known.link_layer == "IB" else "Ethernet",
            speed_gbps=max(0, known.speed_mbps) / 1000,
        )
    for (ib_dev, _), pair in host.pairs.items():
        if ib_dev in names:
            lid, subnet = max(0, pair.lid), pair.subnet_prefix
            said.port(name, names[ib_dev], address=ipv4_of_gid(pair.gid), lid=lid, subnet=subnet)
    for transport, listed in host.used.items():
        if transport == host.chosen or (not rdma and not host.chosen):
            for interface in listed.values():
                if not interface.link_layer:
                    said.port(name, interface.name, address=_address(interface.address))
    for (index, bus), init in host.inits.items():
        near = host.direct.get(bus, {})
        best = min(near.values(), default=0)
        nics = tuple(names[hca] for hca in sorted(near) if near[hca] == best and hca in names)
        number = index if index >= 0 else init.cuda_dev
        if number >= 0:
            said.gpu(name, number, bus=bus, nics=nics)


READER = Reader(
    NAME, "NCCL_DEBUG=INFO log of any ranks, PyTorch's NCCL watchdog, ncclras", _recognises, _read
)
