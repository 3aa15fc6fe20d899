"""The kernel's figures of one TCP connection. Standard library only.

Source: struct tcp_info of include/uapi/linux/tcp.h; older kernels return less of it, and what they lack is 0.
"""

from __future__ import annotations

import socket
import struct

_FIELDS = {
    "snd_mss": (16, "I"),
    "pmtu": (60, "I"),
    "rtt_us": (68, "I"),
    "total_retrans": (100, "I"),
    "bytes_acked": (120, "Q"),
    "segs_out": (136, "I"),
    "min_rtt_us": (148, "I"),
    "data_segs_out": (156, "I"),
    "delivery_rate": (160, "Q"),
    "busy_time_us": (168, "Q"),
    "sndbuf_limited_us": (184, "Q"),
    "bytes_sent": (200, "Q"),
    "bytes_retrans": (208, "Q"),
    "dsack_dups": (216, "I"),
}
_SIZE = 280


def tcp_info(sock: socket.socket) -> dict[str, int]:
    """Chosen fields by name; times in microseconds, rates in bytes per second."""
    data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE).ljust(_SIZE, b"\0")
    return {
        name: int(struct.unpack_from("=" + kind, data, offset)[0]) for name, (offset, kind) in _FIELDS.items()
    }
