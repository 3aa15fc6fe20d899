"""A flow list: CSV with the columns src, dst, bytes and, where flows start later than their job, start_us or start_s."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from collectives.fabric_sim.textfile import read_text
from nettune.errors import InputError

_NEEDED = ("src", "dst", "bytes")
_STARTS = {"start_us": 1.0, "start_s": 1e6}


@dataclass(frozen=True)
class ListedFlow:
    """One line.

    Attributes:
        src, dst: names of hosts as written.
        bytes_: how much.
        start_us: after its job's start.
    """

    src: str
    dst: str
    bytes_: int
    start_us: float


def read_flows(path: Path) -> list[ListedFlow]:
    """Flows in the order of their lines; lines that begin with `#` are comments.

    Raises:
        InputError: no such file, other columns, a line that is no flow; with the line.
    """
    lines = [(number, line) for number, line in enumerate(read_text(path).splitlines(), 1) if line.strip()]
    lines = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(line for _, line in lines))))
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", path) from None
    head = [cell.strip() for cell in rows[0]] if rows else []
    if not set(_NEEDED) <= set(head) or not set(head) <= {*_NEEDED, *_STARTS} or len(set(head)) != len(head):
        raise InputError(
            f"needs the columns {', '.join(_NEEDED)}, and may have start_us or start_s, not {', '.join(head)[:80]!r}",
            path,
            lines[0][0] if lines else None,
        )
    flows = [_flow(head, row, path, number) for (number, _), row in zip(lines[1:], rows[1:], strict=False)]
    if not flows:
        raise InputError("holds no flow", path)
    return flows


def _flow(head: list[str], row: list[str], path: Path, line: int) -> ListedFlow:
    if len(row) != len(head):
        raise InputError(f"has {len(row)} cells, not {len(head)}", path, line)
    cells = dict(zip(head, (cell.strip() for cell in row), strict=True))
    bytes_ = cells["bytes"]
    if not (bytes_.isascii() and bytes_.isdigit() and len(bytes_) < 16 and int(bytes_)):
        raise InputError(f"bytes: {bytes_[:40]!r} is no whole number above 0", path, line)
    start = 0.0
    for name, factor in _STARTS.items():
        if name in cells:
            try:
                start += float(cells[name]) * factor
            except ValueError:
                start = -1.0
    if not (isfinite(start) and start >= 0):
        raise InputError("the start is no time of 0 or later", path, line)
    return ListedFlow(cells["src"], cells["dst"], int(bytes_), start)
