"""GID tables: `show_gids`, the lines of `ibv_devinfo -v`, and /sys."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Gid:
    """One entry of a port's table.

    Attributes:
        address: the GID as an IPv6 address; empty where it is not whole.
        version: 1 or 2 of RoCE; 0 where not told (InfiniBand, old tools).
        netdev: its interface; empty where not told.
    """

    device: str
    port: int
    index: int
    address: str
    version: int = 0
    netdev: str = ""

    @cached_property
    def ipv4(self) -> str:
        """The IPv4 address that it maps; empty for others."""
        try:
            mapped = ipaddress.IPv6Address(self.address).ipv4_mapped
        except ValueError:
            return ""
        return str(mapped) if mapped else ""


def address(text: str) -> str:
    """The compressed form of a GID; empty where it is none."""
    try:
        return str(ipaddress.IPv6Address(text.strip()))
    except ValueError:
        return ""


def version(text: str) -> int:
    """`RoCE v2`, `v2` -> 2; `IB/RoCE v1`, `v1` -> 1; else 0."""
    return 2 if "v2" in text.lower() else 1 if "v1" in text.lower() else 0


def show_gids(text: str) -> list[Gid]:
    """Rows of `show_gids`. Columns IPv4, VER and DEV may be missing, and the IPv4 cell of a row may be empty."""
    gids = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or not (words[1].isdecimal() and words[2].isdecimal()) or len(words[2]) > 6:
            continue
        rest = words[4:]
        told = next((version(word) for word in rest if re.fullmatch(r"v[12]", word)), 0)
        netdev = rest[-1] if told and not re.fullmatch(r"v[12]", rest[-1]) else ""
        gids.append(Gid(words[0], int(words[1][:4]), int(words[2]), address(words[3]), told, netdev))
    return gids


_DEVINFO = re.compile(r"GID\[\s*(\d{1,5})\]:\s*([0-9a-fA-F:.]+)(?:,\s*(RoCE v[12]|IB))?")


def devinfo_gids(text: str) -> list[Gid]:
    """The GID lines of `ibv_devinfo -v`."""
    gids = []
    device, port = "", 1
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "hca_id":
            device, port = value[:64], 1
        elif key == "port" and value.isdecimal():
            port = int(value[:4])
        elif match := _DEVINFO.search(line):
            gids.append(Gid(device, port, int(match[1]), address(match[2]), version(match[3] or "")))
    return gids
