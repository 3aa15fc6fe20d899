"""Addresses as NCCL prints them: GIDs as two numbers of this host's byte order, bus ids as one number."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=1 << 12)
def gid_address(subnet_prefix: str, interface_id: str) -> str:
    """The two halves of a GID, as `%lX` printed them, in IPv6 notation.

    Verbs hold a GID in network order; NCCL prints each half as a number of the host, which is little-endian on every
    platform with GPUs: ::ffff:10.0.0.1 is printed as `0/100000AFFFF0000`, fe80:: as `80FE/...`.

    Raises:
        ValueError: more than 16 hex digits.
    """
    if max(len(subnet_prefix), len(interface_id)) > 16:
        raise ValueError(subnet_prefix, interface_id)
    data = b"".join(int(half, 16).to_bytes(8, "little") for half in (subnet_prefix, interface_id))
    address = ipaddress.IPv6Address(data)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else address.compressed


def ipv4_of_gid(gid: str) -> str:
    """The IPv4 address that a RoCE v2 GID stands for; empty where it is none (link-local, InfiniBand)."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return ""
    return str(mapped) if mapped else ""


def subnet_prefix_digits(decimal: str) -> str:
    """A subnet prefix, which `%lu` printed in the same way, as 16 hex digits: 33022 is fe80000000000000.

    Raises:
        ValueError: more than 64 bits.
    """
    value = int(decimal)
    if value >= 1 << 64:
        raise ValueError(decimal)
    return value.to_bytes(8, "little").hex()


def bus_address(digits: str) -> str:
    """The PCI address of a `busId`: `61000` is 0000:61:00.0.

    The digits are domain, bus (2), device (2) and function (1) in hex without leading zeros (NVIDIA/nccl misc/utils.cc
    `busIdToInt64`).
    """
    padded = digits.lower().zfill(9)
    domain, bus, device, function = padded[:-5], padded[-5:-3], padded[-3:-1], padded[-1]
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}"
