"""Switch segmentation offloads of an interface (what `ethtool -K IF tso off gso off gro off` does)."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_ETHTOOL_STSO = 0x1F
_ETHTOOL_SGSO = 0x24
_ETHTOOL_SGRO = 0x2C


def set_offloads(interface: str, *, on: bool) -> None:
    """Turn TSO, GSO and GRO of `interface` in the current network namespace on or off.

    With them off every packet on the link is at most one MTU, so counters and random drops count what a wire
    would carry.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in (_ETHTOOL_STSO, _ETHTOOL_SGSO, _ETHTOOL_SGRO):
            value = ctypes.create_string_buffer(struct.pack("=II", command, int(on)))
            request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
            fcntl.ioctl(sock, _SIOCETHTOOL, request)
