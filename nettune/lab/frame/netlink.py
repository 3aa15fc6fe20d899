"""Just enough netlink: build messages and attributes, send, collect answers."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300
NLM_F_CREATE = 0x400

NLMSG_ERROR = 2
NLMSG_DONE = 3

_HEADER = struct.Struct("=IHHII")
_NLA_TYPE_MASK = 0x3FFF
_NLA_F_NESTED = 0x8000


class RefusedError(OSError):
    """The kernel refused one message of a request."""

    def __init__(self, code: int, sequence: int) -> None:
        super().__init__(code, os.strerror(code))
        self.sequence = sequence


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to 4 bytes."""
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """An attribute that holds attributes."""
    return attribute(kind | _NLA_F_NESTED, b"".join(parts))


def text(kind: int, value: str) -> bytes:
    """A zero-terminated string."""
    return attribute(kind, value.encode() + b"\0")


def u32be(kind: int, value: int) -> bytes:
    """A number in network order, as nf_tables wants them."""
    return attribute(kind, struct.pack(">I", value))


def message(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """One message; its length needs no padding because attributes are padded."""
    return _HEADER.pack(_HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, payload) of a run of attributes."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & _NLA_TYPE_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


def exchange(family: int, request: bytes, last: int) -> list[tuple[int, bytes]]:
    """Send `request` (one or more messages) and collect (type, payload) of the answers.

    Ends at the acknowledgement of sequence number `last`, or at the end of a dump.

    Raises:
        RefusedError: the kernel's refusal, with the sequence number of the refused message.
    """
    answers: list[tuple[int, bytes]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family) as sock:
        sock.settimeout(10)
        sock.bind((0, 0))
        sock.sendto(request, (0, 0))
        while True:
            data = sock.recv(1 << 18)
            at = 0
            while at < len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
                payload = data[at + _HEADER.size : at + length]
                at += (length + 3) & ~3
                if kind == NLMSG_DONE:
                    return answers
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", payload)[0]
                    if code:
                        raise RefusedError(code, sequence)
                    if sequence == last:
                        return answers
                else:
                    answers.append((kind, payload))
