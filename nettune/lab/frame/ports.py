"""Open and shut ports, and wait until the kernel has drawn its conclusions."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from collections.abc import Sequence

from nettune.lab.frame.syscalls import network_of

_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_SETTLE_TIMEOUT_S = 5.0


def set_link(iface: str, *, up: bool) -> None:
    """Open or shut an interface of the current network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        flags = _flags(sock, iface)
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh22x", iface.encode(), flags))


def wait_settled(ports: Sequence[tuple[str, str]], *, up: bool) -> None:
    """Wait until all (node, interface) are operational, or all are not.

    The kernel marks next hops behind a port dead or alive in a worker that runs a little after the carrier has
    changed, on a busy machine a second later; until then routers still hash over the old ones.
    """
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    for node, iface in ports:
        with network_of(node), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while bool(_flags(sock, iface) & _IFF_RUNNING) != up and time.monotonic() < deadline:
                time.sleep(0.001)


def _flags(sock: socket.socket, iface: str) -> int:
    answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack("16sh22x", iface.encode(), 0))
    flags: int = struct.unpack_from("16sh", answer)[1]
    return flags
