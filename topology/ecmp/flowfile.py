"""Flows from a CSV file: the 5-tuples of running connections, from `ss`, an NCCL log or counters, one a line.

    src,dst,sport,dport,proto,src_qp,dst_qp,bytes
    h0,h5,51712,4791,udp,,291,1048576
    h0,h5,,,,280,499,1048576

`src`, `dst` and `sport` are needed; `dport` is 4791 and `proto` udp where left out. In place of a RoCE flow's `sport` its two
QP numbers are enough, as NCCL's INFO log has them (`qp_num`), where nobody sets a flow label. A NIC is an IPv4 address of the
fabric, `HOST`, or `HOST:PORT`.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.ecmp.roce import sport_of_qps
from topology.ecmp.tuples import ROCE_PORT, TCP, UDP
from topology.ecmp.walk import FlowColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from topology.fabric import Fabric

_PROTOCOLS = {"tcp": TCP, "udp": UDP}
_NEEDED = ("src", "dst")
_OPTIONAL = ("sport", "dport", "proto", "src_qp", "dst_qp", "bytes")
_LIMITS = {"sport": 2**16, "dport": 2**16, "src_qp": 2**24, "dst_qp": 2**24, "bytes": 2**62}
_MOST_DIGITS = 20
_DEFAULTS = {"sport": -1, "dport": ROCE_PORT, "src_qp": -1, "dst_qp": -1, "bytes": 1}


def read_flows(path: Path, fabric: Fabric) -> tuple[FlowColumns, NDArray[np.float64]]:
    """(F flows, (F,) bytes, equal where the file has none).

    Raises:
        InputError: no such file, an unknown or missing column, a bad number, a NIC that the fabric does not have, no flow.
    """
    found = [_flow(row, fabric, path, line) for row, line in csv_rows(path, _NEEDED, _OPTIONAL)]
    if not found:
        raise InputError("holds no flows", path)
    columns = np.array(found, dtype=np.int64).T
    return FlowColumns(*columns[:6]), columns[6].astype(np.float64)


def csv_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[dict[str, str], int]]:
    """(column -> cell, line) of each row of a CSV file that is neither empty nor a # comment.

    Raises:
        InputError: it cannot be read, is no CSV, or its first line names other columns.
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
        known = {*needed, *optional}
        if not set(needed) <= set(head) or not set(head) <= known or len(set(head)) < len(head):
            may = f", and may name {', '.join(optional)}" if optional else ""
            raise InputError(f"its first line must name the columns {', '.join(needed)}{may}", path, 1)
        for row in rows:
            if len(row) > len(head):
                raise InputError(
                    f"has {len(row)} cells, the first line names {len(head)}", path, rows.line_num
                )
            if row and not row[0].startswith("#"):
                yield dict(zip(head, [cell.strip() for cell in row], strict=False)), rows.line_num
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", path, rows.line_num) from error


def _flow(row: dict[str, str], fabric: Fabric, path: Path, line: int) -> tuple[int, ...]:
    proto = row.get("proto") or "udp"
    if proto not in _PROTOCOLS:
        raise InputError(f"proto {proto!r} is neither tcp nor udp", path, line)
    numbers = {}
    for name, limit in _LIMITS.items():
        given = row.get(name) or name not in _DEFAULTS
        numbers[name] = number_of(row, name, limit, path, line) if given else _DEFAULTS[name]
    if numbers["sport"] < 0:
        if min(numbers["src_qp"], numbers["dst_qp"]) < 0 or (proto, numbers["dport"]) != ("udp", ROCE_PORT):
            raise InputError("needs a sport, or for RoCE src_qp and dst_qp", path, line)
        numbers["sport"] = sport_of_qps(numbers["src_qp"], numbers["dst_qp"])
    src, dst = pair_of(row, fabric, path, line)
    return (
        src,
        dst,
        _PROTOCOLS[proto],
        numbers["sport"],
        numbers["dport"],
        numbers["dst_qp"],
        numbers["bytes"],
    )


def number_of(row: Mapping[str, str], name: str, limit: int, path: Path, line: int) -> int:
    """A cell's whole number below a limit.

    Raises:
        InputError: it is none.
    """
    text = row.get(name) or ""
    # Longer ones than any limit are not turned into numbers, which takes long.
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) < limit):
        raise InputError(f"{name} {text[:_MOST_DIGITS]!r} is no number from 0 to {limit - 1}", path, line)
    return int(text)


def pair_of(row: Mapping[str, str], fabric: Fabric, path: Path, line: int) -> tuple[int, int]:
    """Port rows of the cells `src` and `dst`.

    Raises:
        InputError: a NIC that the fabric does not have, or both are of one host.
    """
    src, dst = (_nic(row.get(name) or "", fabric, path, line) for name in ("src", "dst"))
    if fabric.ports.node[src] == fabric.ports.node[dst]:
        raise InputError(
            f"{row['src']} and {row['dst']} are of one host: no switch sees the flow", path, line
        )
    return src, dst


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
