"""What InfiniBand tools print as text: node descriptions, GUIDs, widths and rates.

A channel adapter describes itself as `<host> <device>` (`node7 mlx5_3`; older stacks `node7 HCA-4`, counted from 1), a
managed switch as `MF0;<host name>:<model>/<module>/U<chip>`; what nobody configured has the vendor's words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.naming import element_name, natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Nominal rate of one lane in Gbit/s, as the kernel's `rate` file counts: 4x NDR is 400."""

SIGNALLING = {
    "2.5": "SDR",
    "5.0": "DDR",
    "10.0": "QDR",
    "14.0625": "FDR",
    "25.78125": "EDR",
    "53.125": "HDR",
    "106.25": "NDR",
    "212.5": "XDR",
}
"""Signalling rate of a lane in Gbit/s, as iblinkinfo prints it -> the rate's name."""

LANES_OF_CODE = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
"""LinkWidthActive of PortInfo -> lanes (ibnetdiscover.c, dump_linkwidth_compat)."""

_BASE_SPEEDS = {1: "SDR", 2: "DDR", 4: "QDR"}
_EXTENDED_SPEEDS = {1: "FDR", 2: "EDR", 4: "HDR", 8: "NDR", 16: "XDR"}

_VENDORS = re.compile(
    r"technologies|mellanox|nvidia|voltaire|qlogic|infinihost|connectx|infiniscale|localhost|\bswitch\b",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"mlx[0-9]_[0-9]+|HCA-[0-9]+")
_MANAGED = re.compile(r"MF0;([^:;]+):([^/]*)((?:/[^/]*)*)")


def guid_text(guid: int) -> str:
    """A GUID as it stands in a `Fabric`: `0x` and 16 digits."""
    return f"0x{guid:016x}"


def rate_gbps(width: str, rate: str) -> float | None:
    """Nominal speed of a port: `4x`, `NDR` is 400; None where a word is not known (`??`, `???`)."""
    lanes = width.rstrip("xX")
    if rate not in LANE_GBPS or lanes not in {"1", "2", "4", "8", "12"}:
        return None
    return int(lanes) * LANE_GBPS[rate]


def coded_gbps(width: int, base: int, extended: int) -> float | None:
    """Nominal speed from the numbers of PortInfo: LinkWidthActive, LinkSpeedActive, LinkSpeedExtActive.

    The extended speed counts where it is set: a port at HDR still says QDR in the base field.
    """
    rate = _EXTENDED_SPEEDS.get(extended) if extended else _BASE_SPEEDS.get(base)
    lanes = LANES_OF_CODE.get(width)
    return None if rate is None or lanes is None else lanes * LANE_GBPS[rate]


def is_aggregation_node(description: str) -> bool:
    """Whether a channel adapter is the SHARP engine inside a switch: it computes, but no job runs there."""
    return "aggregation node" in description.lower()


def is_generic(description: str) -> bool:
    """Whether a description is a vendor's default, which tells nothing of the host."""
    return not description.strip() or _VENDORS.search(description) is not None


def host_and_device(description: str) -> tuple[str, str] | None:
    """(host, device) that a channel adapter belongs to and is; None where the description does not say."""
    words = description.split()
    if len(words) > 1 and _DEVICE.fullmatch(words[1]) and words[0] != "localhost":
        return _name(words[0]), _name(words[1]).strip("-")
    if is_generic(description) or len(words) > 2 or _DEVICE.fullmatch(words[0]):
        return None
    host, device = _name(words[0]), _name(words[1]).strip("-") if len(words) == 2 else ""
    return (host, device) if host else None


def switch_name(description: str) -> str:
    """A switch's name; empty where the description has none.

    `MF0;leaf1:MQM9700/U1` is leaf1; modules of a chassis and further chips keep theirs: `MF0;core:CS8500/L01/U1` is
    core_L01_U1.
    """
    managed = _MANAGED.fullmatch(description.strip())
    if managed is None:
        return _name(description)
    modules = managed[3].strip("/")
    return _name(managed[1] if modules in {"", "U1"} else f"{managed[1]}/{modules}")


def device_index(device: str) -> int | None:
    """Number of a device on its host from 0: mlx5_3 and HCA-4 are both 3; None where its name has no such number."""
    number = re.fullmatch(r"mlx[0-9]_([0-9]{1,4})|HCA-([0-9]{1,4})", device)
    if number is None:
        return None
    return int(number[1]) if number[1] is not None else int(number[2]) - 1


def rails(devices: Mapping[tuple[str, str], tuple[str, int]]) -> dict[tuple[str, str], int]:
    """Rail of each NIC, given (host, NIC) -> (device, port number).

    It is the rank of the device's number among all numbers of the subnet, so that hosts whose mlx5_1 is in another
    network still count alike; where a device has several ports in use each is a rail. NICs of a host with other device
    names count in order of these names.
    """
    by_host: dict[str, list[str]] = {}
    ports_of: dict[tuple[str, str], int] = {}
    all_unnamed = all(_is_unnamed(device) for device, _ in devices.values())
    for (host, nic), (device, _) in devices.items():
        if all_unnamed or not _is_unnamed(device):
            by_host.setdefault(host, []).append(nic)
        ports_of[host, device] = ports_of.get((host, device), 0) + 1
    several = any(count > 1 for count in ports_of.values())
    keys: dict[tuple[str, str], tuple[int, int]] = {}
    found: dict[tuple[str, str], int] = {}
    for host, nics in by_host.items():
        numbers = [device_index(devices[host, nic][0]) for nic in nics]
        if None in numbers:
            ordered = sorted(
                nics, key=lambda nic: (natural_key(devices[host, nic][0]), devices[host, nic][1])
            )
            found |= {(host, nic): place for place, nic in enumerate(ordered)}
            continue
        for nic, number in zip(nics, numbers, strict=True):
            assert number is not None
            keys[host, nic] = (number, devices[host, nic][1] if several else 0)
    ranks = _ranks(keys.values())
    return found | {end: ranks[key] for end, key in keys.items()}


def _is_unnamed(device: str) -> bool:
    return device == "HCA" or device.startswith("H-")


def _ranks(keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    return {key: rank for rank, key in enumerate(sorted(set(keys)))}


def _name(text: str) -> str:
    try:
        return element_name(text)
    except InputError:
        return ""
