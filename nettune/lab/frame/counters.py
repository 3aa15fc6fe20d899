"""Packet counters of every port of every node, read without starting a process."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from nettune.lab.frame import netlink
from nettune.lab.frame.syscalls import CLONE_NEWNET, setns

_RTM_GETQDISC = 38
_TCMSG = struct.Struct("=BBHiIII")
_TCA_STATS2 = 7
_TCA_STATS_QUEUE = 3

Row = tuple[str, str, int, int, int, int, int]


class Counters:
    """Keeps every node's network namespace open, since it is read before and after each measurement."""

    def __init__(self) -> None:
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._nodes: list[tuple[str, int]] = []

    def read(self) -> list[Row]:
        """(node, iface, rx bytes, tx bytes, rx packets, tx packets, drops) of every port.

        Drops are those of the device in both directions and of its queues.
        """
        if not self._nodes:
            self._nodes = [
                (path.name, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                for path in sorted(Path("/run/netns").iterdir())
            ]
        rows: list[Row] = []
        try:
            for node, fd in self._nodes:
                setns(fd, CLONE_NEWNET)
                rows += _read_here(node)
        finally:
            setns(self._home, CLONE_NEWNET)
        return rows


def _read_here(node: str) -> list[Row]:
    queue_drops = _queue_drops()
    rows: list[Row] = []
    for line in Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()[2:]:
        iface, _, numbers = line.partition(":")
        iface = iface.strip()
        if iface == "lo":
            continue
        n = [int(word) for word in numbers.split()]
        rows.append((node, iface, n[0], n[8], n[1], n[9], n[3] + n[11] + queue_drops.get(iface, 0)))
    return rows


def _queue_drops() -> dict[str, int]:
    """Packets that the root qdisc of each interface dropped (an inner one's drops count at the root too)."""
    request = netlink.message(
        _RTM_GETQDISC, netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP, 1, _TCMSG.pack(0, 0, 0, 0, 0, 0, 0)
    )
    names = dict(socket.if_nameindex())
    drops: dict[str, int] = {}
    for _, payload in netlink.exchange(socket.NETLINK_ROUTE, request, 1):
        *_, ifindex, _handle, parent, _info = _TCMSG.unpack_from(payload)
        if parent != 0xFFFFFFFF or ifindex not in names:
            continue
        for kind, value in netlink.attributes(payload[_TCMSG.size :]):
            if kind == _TCA_STATS2:
                for inner, stats in netlink.attributes(value):
                    if inner == _TCA_STATS_QUEUE:
                        drops[names[ifindex]] = struct.unpack_from("=III", stats)[2]
    return drops
