"""Flows from a CSV file: the 5-tuples of running connections, from `ss`, an NCCL log or counters, one a line.

    src,dst,sport,dport,proto,dst_qp,bytes
    h0,h5,51712,4791,udp,291,1048576

`src`, `dst` and `sport` are needed; `dport` is 4791 and `proto` udp where left out. A NIC is an IPv4 address of the
fabric, `HOST`, or `HOST:PORT`.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.ecmp.tuples import ROCE_PORT, TCP, UDP
from topology.ecmp.walk import FlowColumns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from topology.fabric import Fabric

_PROTOCOLS = {"tcp": TCP, "udp": UDP}
_NEEDED = ("src", "dst", "sport")
_KNOWN = (*_NEEDED, "dport", "proto", "dst_qp", "bytes")
_LIMITS = {"sport": 2**16, "dport": 2**16, "dst_qp": 2**24, "bytes": 2**62}
_DEFAULTS = {"dport": ROCE_PORT, "dst_qp": -1, "bytes": 1}


def read_flows(path: Path, fabric: Fabric) -> tuple[FlowColumns, NDArray[np.float64]]:
    """(F flows, (F,) bytes, equal where the file has none).

    Raises:
        InputError: no such file, an unknown or missing column, a bad number, a NIC that the fabric does not have, no flow.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        raise InputError("is no UTF-8 text", path) from error
    rows = csv.reader(lines)
    try:
        head = [name.strip() for name in next(rows, [])]
        if not set(_NEEDED) <= set(head) or not set(head) <= set(_KNOWN) or len(set(head)) < len(head):
            raise InputError(
                f"its first line must name the columns {', '.join(_NEEDED)}, and may name {', '.join(_KNOWN[3:])}",
                path,
                1,
            )
        found = [
            _flow(dict(zip(head, [cell.strip() for cell in row], strict=False)), fabric, path, rows.line_num)
            for row in rows
            if row and not row[0].startswith("#")
        ]
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", path, rows.line_num) from error
    if not found:
        raise InputError("holds no flows", path)
    columns = np.array(found, dtype=np.int64).T
    return FlowColumns(*columns[:6]), columns[6].astype(np.float64)


def _flow(row: dict[str, str], fabric: Fabric, path: Path, line: int) -> tuple[int, ...]:
    proto = row.get("proto") or "udp"
    if proto not in _PROTOCOLS:
        raise InputError(f"proto {proto!r} is neither tcp nor udp", path, line)
    numbers = {}
    for name, limit in _LIMITS.items():
        text = row.get(name) or ""
        if not text and name in _DEFAULTS:
            numbers[name] = _DEFAULTS[name]
        elif text.isascii() and text.isdecimal() and int(text) < limit:
            numbers[name] = int(text)
        else:
            raise InputError(f"{name} {text!r} is no number from 0 to {limit - 1}", path, line)
    src, dst = (_nic(row.get(name) or "", fabric, path, line) for name in ("src", "dst"))
    if fabric.ports.node[src] == fabric.ports.node[dst]:
        raise InputError(
            f"{row['src']} and {row['dst']} are of one host: no switch sees the flow", path, line
        )
    return (
        src,
        dst,
        _PROTOCOLS[proto],
        numbers["sport"],
        numbers["dport"],
        numbers["dst_qp"],
        numbers["bytes"],
    )


def _nic(text: str, fabric: Fabric, path: Path, line: int) -> int:
    row = fabric.port_of_address(text) if text else None
    host, _, port = text.partition(":")
    if row is None and host in fabric.hosts:
        nics = {fabric.ports.name[nic]: nic for nic in fabric.nics(host)}
        row = nics.get(port) if port else next(iter(nics.values()), None)
    if row is None or row not in fabric.nics(fabric.nodes.name[int(fabric.ports.node[row])]):
        raise InputError(
            f"{text!r} is no NIC of the fabric: write an address, a host, or HOST:PORT", path, line
        )
    return row
