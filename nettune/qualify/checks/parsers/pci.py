"""The PCI tree out of `lspci -vvv`, plain `lspci`, and /sys/bus/pci."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

GPU_VENDORS = frozenset({"10de", "1002"})
"""NVIDIA, AMD."""


@dataclass(frozen=True)
class Link:
    """Speed in GT/s and width in lanes; 0 where not told."""

    speed: float = 0.0
    width: int = 0


@dataclass(frozen=True)
class PciDevice:
    """One function of the tree.

    Attributes:
        address: with domain, `0000:1a:00.0`.
        parent: address of the bridge above it; empty at the root or where not told.
        kind: `gpu`, `nic`, `nvswitch`, `bridge` or `other`.
        name: lspci's words.
        max, now: what the link can do and does.
        said_downgraded: lspci wrote `(downgraded)`; old versions never do.
        said_narrow: it wrote so of the width.
        acs: redirecting bits of access control that are on; None where there is no ACSCtl line.
        max_read: maximum read request in bytes; 0 where not told.
        gone: configuration space reads all ones (`rev ff`): the device fell off the bus.
        virtual: a virtual function.
        numa: its node; None where not told, -1 where the kernel does not know.
    """

    address: str
    parent: str = ""
    kind: str = "other"
    vendor: str = ""
    name: str = ""
    max: Link = field(default_factory=Link)
    now: Link = field(default_factory=Link)
    said_downgraded: bool = False
    said_narrow: bool = False
    acs: tuple[str, ...] | None = None
    max_read: int = 0
    gone: bool = False
    virtual: bool = False
    numa: int | None = None


_HEAD = re.compile(r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^\n]{1,300})$", re.MULTILINE)
_SPEED = re.compile(r"Speed ([\d.]{1,5})\s?GT/s")
_WIDTH = re.compile(r"Width x(\d{1,3})")
_NARROW = re.compile(r"Width x\d{1,3} \(downgraded\)")
_BUS = re.compile(r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2})")
_REDIRECTING = ("ReqRedir", "CmpltRedir", "UpstreamFwd")


def link(text: str) -> Link:
    """`Speed 32GT/s (ok), Width x16 (ok)`."""
    speed, width = _SPEED.search(text), _WIDTH.search(text)
    return Link(_real(speed[1]) if speed else 0.0, int(width[1]) if width else 0)


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def full(address: str) -> str:
    """An address with its domain."""
    return address if address.count(":") == 2 else f"0000:{address}"


def kind_of(words: str) -> tuple[str, str]:
    """(kind, vendor) by lspci's words for class and name; a class number in brackets is used where it is printed."""
    low = words.lower()
    vendor = "10de" if "nvidia" in low else "1002" if "amd/ati" in low or "[amd" in low else ""
    vendor = "15b3" if "mellanox" in low else vendor
    match = re.search(r"\[([0-9a-f]{4}):[0-9a-f]{4}\]", low)
    vendor = match[1] if match else vendor
    what = low.split(":", 1)[0]
    if vendor in GPU_VENDORS and re.search(
        r"3d controller|vga compatible|display controller|processing accel", what
    ):
        return "gpu", vendor
    if re.search(r"ethernet controller|infiniband controller|network controller", what):
        return "nic", vendor
    if vendor == "10de" and what.startswith("bridge"):
        return "nvswitch", vendor
    return ("bridge" if what.startswith("pci bridge") else "other"), vendor


def lspci(text: str) -> dict[str, PciDevice]:
    """Devices of lspci with any number of v; the tree comes from the bus numbers of the bridges."""
    heads = list(_HEAD.finditer(text))
    devices: dict[str, PciDevice] = {}
    bridge_of_bus: dict[tuple[str, str], str] = {}
    for head, after in zip(heads, [*heads[1:], None], strict=False):
        body = text[head.end() : after.start() if after else len(text)]
        address = full(head[1])
        device = _device(address, head[2], body)
        devices[address] = device
        if match := _BUS.search(body):
            bridge_of_bus[address[:-8], match[2]] = address
    return {
        address: replace(device, parent=bridge_of_bus.get((address[:-8], address[-7:-5]), ""))
        for address, device in devices.items()
    }


def _device(address: str, words: str, body: str) -> PciDevice:
    kind, vendor = kind_of(words)
    able, now, acs, read = Link(), Link(), None, 0
    downgraded = narrow = False
    for line in body.splitlines():
        word = line.strip()
        if word.startswith("LnkCap:"):
            able = link(word)
        elif word.startswith("LnkSta:"):
            now, downgraded = link(word), "(downgraded)" in word
            narrow = _NARROW.search(word) is not None
        elif word.startswith("ACSCtl:"):
            acs = redirecting(word)
        elif match := re.search(r"MaxReadReq (\d{1,5}) bytes", word):
            read = int(match[1])
    numa = re.search(r"NUMA node: (\d{1,3})", body)
    return PciDevice(
        address,
        kind=kind,
        vendor=vendor,
        name=words.split(": ", 1)[-1].strip(),
        max=able,
        now=now,
        said_downgraded=downgraded,
        said_narrow=narrow,
        acs=acs,
        max_read=read,
        gone="(rev ff)" in words or "Unknown header type 7f" in body,
        virtual="virtual function" in words.lower(),
        numa=int(numa[1]) if numa else None,
    )


def redirecting(line: str) -> tuple[str, ...]:
    """Bits of an ACSCtl line that send peer-to-peer traffic up to the root complex."""
    return tuple(bit for bit in _REDIRECTING if f"{bit}+" in line)


_ADDRESS = re.compile(r"[0-9a-f:]+\.[0-7]")
_NODE = re.compile(r"-?\d{1,4}")


def sysfs(files: Mapping[str, Mapping[str, str]], paths: Mapping[str, str]) -> dict[str, PciDevice]:
    """Devices of /sys/bus/pci.

    Args:
        files: address -> attribute -> text.
        paths: address -> the real path of its folder, which passes through all bridges above it.
    """
    devices: dict[str, PciDevice] = {}
    for address in dict.fromkeys([*files, *paths]):
        own = files.get(address, {})

        def value(name: str, own: Mapping[str, str] = own) -> str:
            return own.get(name, "").strip()

        code, vendor = value("class").removeprefix("0x")[:4], value("vendor").removeprefix("0x")
        chain = [part for part in paths.get(address, "").split("/") if _ADDRESS.fullmatch(part)]
        numa = value("numa_node")
        devices[address] = PciDevice(
            address,
            parent=chain[-2] if len(chain) > 1 else "",
            kind=_kind_of_class(code, vendor),
            vendor=vendor,
            name=f"{vendor}:{value('device').removeprefix('0x')}" if vendor else "",
            max=Link(_speed(value("max_link_speed")), _width(value("max_link_width"))),
            now=Link(_speed(value("current_link_speed")), _width(value("current_link_width"))),
            numa=int(numa) if _NODE.fullmatch(numa) else None,
        )
    return devices


def _kind_of_class(code: str, vendor: str) -> str:
    if code in {"0300", "0302", "0380", "1200"} and vendor in GPU_VENDORS:
        return "gpu"
    if code in {"0200", "0207", "0280"}:
        return "nic"
    if code == "0680" and vendor == "10de":
        return "nvswitch"
    return "bridge" if code == "0604" else "other"


_SYS_SPEED = re.compile(r"[\d.]{1,5}")
_SYS_WIDTH = re.compile(r"\d{1,2}")


def _speed(text: str) -> float:
    match = _SYS_SPEED.match(text)
    return _real(match[0]) if match else 0.0


def _width(text: str) -> int:
    # 255 is what the kernel prints for a device without a link.
    return int(text) if _SYS_WIDTH.fullmatch(text) else 0


def merged(by_lspci: Mapping[str, PciDevice], by_sys: Mapping[str, PciDevice]) -> dict[str, PciDevice]:
    """One tree: /sys where it speaks, lspci for what only it has (ACS, read requests, `rev ff`)."""
    devices = dict(by_lspci)
    for address, other in by_sys.items():
        known = devices.get(address)
        if known is None:
            devices[address] = other
            continue
        devices[address] = replace(
            known,
            parent=other.parent or known.parent,
            kind=other.kind if other.vendor else known.kind,
            vendor=other.vendor or known.vendor,
            max=other.max if other.max.width else known.max,
            now=other.now if other.now.width else known.now,
            numa=other.numa if other.numa is not None else known.numa,
        )
    return devices


def path_to(devices: Mapping[str, PciDevice], address: str) -> list[PciDevice]:
    """The device and the bridges above it, the root port first; a loop in a damaged capture ends it."""
    path: list[PciDevice] = []
    seen: set[str] = set()
    while address in devices and address not in seen:
        seen.add(address)
        path.insert(0, devices[address])
        address = devices[address].parent
    return path


def of_kind(devices: Iterable[PciDevice], kind: str) -> list[PciDevice]:
    """Devices of one kind, by address."""
    return sorted((device for device in devices if device.kind == kind), key=lambda device: device.address)
