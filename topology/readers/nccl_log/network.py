"""How messages about networks are recognised: transports, NICs, GPUDirect, plugins, queue pairs, variables.

Each function takes where a message came from and its text, and gives its event, or None where it is none of its kind.
All patterns are anchored or begin with a literal, and none repeats a repetition: time grows with the text's length.
"""

from __future__ import annotations

import re

from topology.readers.nccl_log import events as e
from topology.readers.nccl_log.gid import bus_address, gid_address, subnet_prefix_digits

_VERSION = re.compile(r"(NCCL|RCCL) version ?:? ?(\d[^\s+]*)(?:\+([a-z]+[\d.]*)| compiled with (\w+ \S+))?")
_ENVIRONMENT = re.compile(r"([A-Z][A-Z0-9]*_\w+) set (?:by environment )?to (.*)")
_INVALID = re.compile(r"Invalid value (.*) for (\w+), using default (.*)")
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?([^\s:]+):(\S+?)(?:<\d+>)?\s*$")
_USING = re.compile(r"NET/([^/:]+?) ?: Using(?: (?=\[)|$)(.*)")
_OOB = re.compile(r"; OOB ([^\s:]{1,64}):([^\s<]{1,100})")
_ABSENT = re.compile(r"NET/([^/:]+?) ?: No device found")
_NO_LIBRARY = re.compile(r"Failed to open libibverbs")
_RDMA_ENTRY = re.compile(r"\[(\d{1,6})\] ?([^\s:\[\]{}]{1,64}):(\d{1,6})/(IB|RoCE)(/SHARP)?")
_SOCKET_ENTRY = re.compile(r"\[(\d{1,6})\]([^\s:\[\]]{1,64}):([^\s<]{1,100})<\d{1,6}>")
_CHOSEN = re.compile(r"(?:\[Rank \d+\] )?Using network (.*)")
_DEVICE = re.compile(
    r"NET/\w+ ?: \[(\d{1,6})\] ([^\s:]+):[^\s:]*:(\d{1,6})/(IB|RoCE) provider=(.*?) speed=(-?\d{1,12}) (.*)"
)
_DEVICE_TAIL = re.compile(r"pciPath=(\S+) ar=(\d)")
_VIRTUAL = re.compile(
    r"NET/\w+ ?: Made virtual device \[(\d{1,6})\] name=(\S+) speed=(-?\d{1,12}) ndevs=(\d{1,6})"
)
_HCA = re.compile(
    r"NET/\w+ ?: GPU Direct RDMA (?:\([^)]*\) )?([Ee]n|[Dd]is)abled for HCA (\d{1,6}) '([^']*)'"
)
_GPU_DIRECT = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU (?:\d{1,9} / )?(?:\d{1,3}-)?([0-9a-fA-F]{1,16}) / HCA (\d{1,6}) "
    r"\(distance (\d{1,6}) (?:<=|>) (\d{1,6})\)"
)
_PLUGIN = re.compile(r"([A-Za-z_-]+)/Plugin ?:? ?(.*)")
_QUEUE_PAIR = re.compile(
    r"NET/\w+ ?: (?:\w+: )?NCCL (Merged)?Dev (\d{1,9}) Ib[Dd]ev (\d{1,9}) Port (\d{1,9}) (?:qpn|qp_num) (\d{1,9}) "
    r"mtu (\d{1,4}) (.*)",
    re.IGNORECASE,
)
_ROCE = re.compile(r"(?:query_ece=\{[^}]*\} )?GID (-?\d{1,9}) \(([0-9A-Fa-f]{1,16})/([0-9A-Fa-f]{1,16})\)")
_IB = re.compile(r"(?:query_ece=\{[^}]*\} )?LID (\d{1,9})(?: subnet-prefix (\d{1,20}))?(?: +FLID (\d{1,9}))?")

MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
"""`enum ibv_mtu` (rdma-core libibverbs/verbs.h)."""


def version(at: e.At, text: str) -> e.Event | None:
    """`NCCL version ...`, with or without prefix."""
    match = _VERSION.match(text)
    return e.Version(*at, match[1], match[2], match[3] or match[4] or "") if match else None


def environment(at: e.At, text: str) -> e.Event | None:
    """`NCCL_X set by environment to Y.` (the full stop of some versions is dropped), `Invalid value ..`."""
    if match := _ENVIRONMENT.match(text):
        return e.EnvironmentSet(*at, match[1], match[2].rstrip().removesuffix("."))
    if match := _INVALID.match(text):
        return e.EnvironmentInvalid(*at, match[2], match[1], match[3].rstrip().removesuffix("."))
    return None


def using(at: e.At, text: str) -> e.Event | None:
    """What was chosen at start: `Bootstrap: Using ..`, `Using network ..`; `Failed to open libibverbs.so[.1]`."""
    if match := _BOOTSTRAP.match(text):
        return e.Bootstrap(*at, match[1], match[2])
    if match := _CHOSEN.match(text):
        return e.NetworkChosen(*at, match[1].strip())
    if _NO_LIBRARY.match(text):
        return e.NetAbsent(*at, "IB", text.strip())
    return None


def plugin(at: e.At, text: str) -> e.Event | None:
    """`KIND/Plugin` lines; loaded where the text says so and does not deny it."""
    match = _PLUGIN.match(text)
    if match is None:
        return None
    words = match[2].lower()
    denied = any(word in words for word in ("could not", "no plugin", "not find", "fail"))
    return e.Plugin(*at, match[1], "loaded" in words and not denied, match[2].strip())


def gpu_direct(at: e.At, text: str) -> e.Event | None:
    """`GPU Direct RDMA Enabled for GPU .. / HCA ..`."""
    match = _GPU_DIRECT.match(text)
    if match is None:
        return None
    bus = bus_address(match[2])
    return e.GpuDirectPath(*at, match[1] == "Enabled", bus, int(match[3]), int(match[4]), int(match[5]))


def network(at: e.At, text: str) -> e.Event | None:
    """Messages that begin with `NET/` and are not of a plugin."""
    if match := _USING.match(text):
        return _net_using(at, match[1], match[2])
    if match := _QUEUE_PAIR.match(text):
        return _queue_pair(at, match)
    if match := _DEVICE.match(text):
        tail = _DEVICE_TAIL.search(match[7])
        return e.NetDevice(
            *at,
            index=int(match[1]),
            name=match[2],
            port=int(match[3]),
            link_layer=match[4],
            provider=match[5],
            speed_mbps=int(match[6]),
            bus=tail[1].rsplit("/", 1)[-1] if tail else "",
            adaptive_routing=tail is not None and tail[2] != "0",
        )
    if match := _VIRTUAL.match(text):
        return e.VirtualDevice(*at, int(match[1]), match[2], int(match[3]), int(match[4]))
    if match := _HCA.match(text):
        return e.GpuDirectHca(*at, match[1].lower() == "en", int(match[2]), match[3])
    if match := _ABSENT.match(text):
        return e.NetAbsent(*at, match[1], "no device found")
    return None


def _net_using(at: e.At, transport: str, text: str) -> e.Event:
    oob = _OOB.search(text)
    listed = text[: oob.start()] if oob else text
    devices = [
        e.UsedDevice(int(match[1]), match[2], int(match[3]), match[4], sharp=match[5] is not None)
        for match in _RDMA_ENTRY.finditer(listed)
    ] or [e.UsedDevice(int(match[1]), match[2], address=match[3]) for match in _SOCKET_ENTRY.finditer(listed)]
    return e.NetUsing(
        *at,
        transport=transport.strip(),
        devices=tuple(devices),
        relaxed_ordering="[RO]" in listed,
        oob_interface=oob[1] if oob else "",
        oob_address=oob[2] if oob else "",
    )


def _queue_pair(at: e.At, match: re.Match[str]) -> e.Event | None:
    roce, ib = _ROCE.match(match[7]), _IB.match(match[7])
    try:
        return e.QueuePair(
            *at,
            merged=match[1] is not None,
            dev=int(match[2]),
            ib_dev=int(match[3]),
            port=int(match[4]),
            qp_num=int(match[5]),
            mtu=MTU_BYTES.get(int(match[6]), -1),
            gid_index=int(roce[1]) if roce else -1,
            gid=gid_address(roce[2], roce[3]) if roce else "",
            lid=int(ib[1]) if ib else -1,
            subnet_prefix=subnet_prefix_digits(ib[2]) if ib and ib[2] else "",
            flid=int(ib[3] or 0) or -1 if ib else -1,
        )
    except ValueError:  # a subnet prefix of more than 64 bits: torn
        return None
