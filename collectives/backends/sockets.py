"""This process's own TCP connections: 5-tuples, bytes and retransmissions, straight from its sockets.

Read through the process's file descriptors, so it works in any network namespace, without privileges or programs,
and sees no connection of anybody else.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

# struct tcp_info, include/uapi/linux/tcp.h: tcpi_total_retrans at 100, tcpi_bytes_acked at 120, tcpi_bytes_received at
# 128, tcpi_bytes_sent at 200 and tcpi_bytes_retrans at 208 (both since Linux 4.19).
_TCP_INFO_BYTES = 232
_U32, _U64 = struct.Struct("=I"), struct.Struct("=Q")
_TCP_ESTABLISHED = 1
_SO_MAX_PACING_RATE = (
    47  # include/uapi/asm-generic/socket.h; TCP paces itself since Linux 4.13, without a qdisc
)


@dataclass(frozen=True)
class TcpSocket:
    """One established connection as its owner sees it.

    Attributes:
        local_address, local_port, remote_address, remote_port: its ends; IPv4 in dotted form also on an IPv6 socket.
        sent_bytes: payload handed to the network, retransmissions included.
        retransmitted_bytes: payload sent again.
        received_bytes: payload received.
        inode: the kernel's number of the socket; the same as long as it lives.
    """

    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    sent_bytes: int
    retransmitted_bytes: int
    received_bytes: int
    inode: int


def own_connections() -> list[TcpSocket]:
    """Established TCP connections of this process, in the order of their descriptors."""
    found: dict[int, TcpSocket] = {}
    for name in sorted(Path("/proc/self/fd").iterdir(), key=lambda path: int(path.name)):
        # A descriptor may be closed by another thread, or by the listing itself, at any moment.
        with contextlib.suppress(OSError):
            state = os.fstat(int(name.name))
            if stat.S_ISSOCK(state.st_mode):
                read = _read(int(name.name), state.st_ino)
                if read is not None:
                    found[state.st_ino] = read
    return list(found.values())


def pace(inodes: Collection[int], bytes_per_s: float) -> int:
    """Limit what these sockets of this process send, bytes per second each; how many there were."""
    found = 0
    for name in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.fstat(int(name.name)).st_ino in inodes:
                with socket.socket(fileno=os.dup(int(name.name))) as copy:
                    copy.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, max(1, int(bytes_per_s)))
                found += 1
    return found


def _read(descriptor: int, inode: int) -> TcpSocket | None:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        if copy.family not in {socket.AF_INET, socket.AF_INET6} or copy.type != socket.SOCK_STREAM:
            return None
        info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        if info[0] != _TCP_ESTABLISHED or len(info) < 216:
            return None
        local, remote = copy.getsockname(), copy.getpeername()
    return TcpSocket(
        local_address=str(local[0]).removeprefix("::ffff:"),
        local_port=int(local[1]),
        remote_address=str(remote[0]).removeprefix("::ffff:"),
        remote_port=int(remote[1]),
        sent_bytes=int(_U64.unpack_from(info, 200)[0]),
        retransmitted_bytes=int(_U64.unpack_from(info, 208)[0]),
        received_bytes=int(_U64.unpack_from(info, 128)[0]),
        inode=inode,
    )
