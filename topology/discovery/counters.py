"""Bytes, drops and carrier changes of each port out of captures, and what happened between two captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nettune.errors import InputError
from topology.capture import HostCapture
from topology.discovery.interfaces import LINKS
from topology.discovery.rows import Row, reading, rows_of, whole, word
from topology.fabric import Fabric

DEVICES = "/proc/net/dev"
_MAX = 2**64 - 1


@dataclass(frozen=True)
class PortCounters:
    """Counters of one interface since it was made; bytes include Ethernet headers.

    Attributes:
        rx_drops: packets dropped on the way in (too large for the MTU, no memory, no receiver).
        carrier_changes: times that the carrier came or went; None where it is not told (/proc/net/dev).
    """

    rx_bytes: int
    tx_bytes: int
    rx_drops: int
    carrier_changes: int | None


def counters_of(capture: HostCapture) -> dict[str, PortCounters]:
    """Interface -> counters: from `ip -s link` where it was read, else from /proc/net/dev.

    Raises:
        InputError: neither could be read, or it holds something else; names the host.
    """
    if capture.text(LINKS) is not None:
        with reading(capture.host, LINKS):
            return {word(row, "ifname"): _of_row(row) for row in rows_of(capture, LINKS) if "stats64" in row}
    text = capture.text(DEVICES)
    if text is None:
        raise InputError(f"{capture.host}: neither `{LINKS}` nor {DEVICES} was read: no counters")
    with reading(capture.host, DEVICES):
        return dict(_of_line(line) for line in text.splitlines() if ":" in line)


def port_counters(captures: Sequence[HostCapture], fabric: Fabric) -> dict[int, PortCounters]:
    """Port row -> counters for the fabric's ports that the captures cover.

    Raises:
        InputError: as `counters_of`, or a capture of a node that the fabric does not have.
    """
    found = {}
    for capture in captures:
        node = fabric.node_row(capture.host)
        own = counters_of(capture)
        for port in np.flatnonzero(fabric.ports.node == node).tolist():
            if fabric.ports.name[port] in own:
                found[port] = own[fabric.ports.name[port]]
    return found


def link_bytes(
    fabric: Fabric, before: Mapping[int, PortCounters], after: Mapping[int, PortCounters]
) -> NDArray[np.float64]:
    """(2L,) bytes on each directed link between two readings: sent by the one end, or received by the other.

    NaN where neither end was read.

    Raises:
        InputError: a counter went backwards: the interface was made anew in between.
    """
    moved = np.full(fabric.directed_count, np.nan)
    for directed, (sender, receiver) in enumerate(fabric.directed_ports.tolist()):
        if sender in before and sender in after:
            moved[directed] = after[sender].tx_bytes - before[sender].tx_bytes
        elif receiver in before and receiver in after:
            moved[directed] = after[receiver].rx_bytes - before[receiver].rx_bytes
        if moved[directed] < 0:
            raise InputError(
                f"the counters of {fabric.directed_name(directed)} went backwards: read both again"
            )
    return moved


def _of_row(row: Row) -> PortCounters:
    stats: dict[str, Any] = row["stats64"]
    received, sent = stats["rx"], stats["tx"]
    changes = whole(sent, "carrier_changes", 0, _MAX, -1) if "carrier_changes" in sent else None
    drops = sum(whole(received, key, 0, _MAX, 0) for key in ("dropped", "missed_errors"))
    return PortCounters(whole(received, "bytes", 0, _MAX), whole(sent, "bytes", 0, _MAX), drops, changes)


def _of_line(line: str) -> tuple[str, PortCounters]:
    name, _, numbers = line.partition(":")
    fields = [int(field) for field in numbers.split()]
    if len(fields) < 16 or min(fields) < 0:
        raise InputError(f"{line.strip()!r:.60} is no line of {DEVICES}; was it cut?")
    # Columns: bytes packets errs drop fifo frame compressed multicast, received then sent. Drops include misses here.
    return name.strip(), PortCounters(fields[0], fields[8], fields[3], None)
