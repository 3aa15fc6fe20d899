"""A plan of cables, one a line: `node_a,port_a,node_b,port_b` and, where given, `speed_gbps`, `kind_a`, `kind_b`, `rail`.

The first line names the columns, in any order; they are separated by comma, semicolon or tab. Empty lines and those
that begin with `#` are left out. `kind_a` and `kind_b` are `host` or `switch`; where they are not given, names of ports
tell what they can (`swp3`, `Ethernet1/1`; `eth0`, `ens1f0np0`, `mlx5_0`). `rail` counts from 0 and is a NIC's: on a
cable between two switches it says nothing.
"""

from __future__ import annotations

import csv
import math
import re
from typing import TYPE_CHECKING

from topology.columns import NodeKind
from topology.naming import element_name
from topology.readers.ethernet import kind_by_port, port_name
from topology.readers.registry import Reader
from topology.readers.said import Said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.readers.said import End
    from topology.readers.source import Source

_NEEDED = ("node_a", "port_a", "node_b", "port_b")
_COLUMNS = (*_NEEDED, "speed_gbps", "kind_a", "kind_b", "rail")
_KINDS = {"host": NodeKind.HOST, "switch": NodeKind.SWITCH, "": None}
_MOST_GBPS = 100_000.0
_LONGEST_LINE = 10_000


def recognises(source: Source) -> bool:
    """Whether the first line that says something names the columns of a plan."""
    for line in source.head.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            names = re.split(r"[,;\t]", line[:_LONGEST_LINE].lower())
            return {name.strip(' "') for name in names} >= {"node_a", "port_a"}
    return False


def read(source: Source) -> Said:
    """The cables of a plan.

    Raises:
        InputError: a column is missing or not known; a line has other columns, a name is empty, a number is none, a
            node is both host and switch, a port has a second cable.
    """
    rows = _rows(source)
    line, header = next(rows, (1, {}))
    if not header:
        raise source.error(f"has no line that names the columns: {','.join(_NEEDED)}", line)
    said = Said(source.name, READER.name)
    kinds: dict[str, tuple[NodeKind, int]] = {}
    cabled: dict[End, int] = {}
    for line, row in rows:
        ends = [_end(source, line, row, side) for side in "ab"]
        speed, rail = _speed(source, line, row), _rail(source, line, row)
        for (node, port), side in zip(ends, "ab", strict=True):
            if (node, port) in cabled or ends[0] == ends[1]:
                where = f"on line {cabled[node, port]}" if (node, port) in cabled else "to itself"
                raise source.error(f"{node}:{port} is cabled {where} already", line)
            kind = _kind(source, line, row, side)
            if kind is not None and kinds.setdefault(node, (kind, line))[0] is not kind:
                raise source.error(
                    f"{node} is a {kinds[node][0].name.lower()} on line {kinds[node][1]}", line
                )
            said.node(node, kind)
        for (node, port), side in zip(ends, "ab", strict=True):
            cabled[node, port] = line
            is_switch = _kind(source, line, row, side) is NodeKind.SWITCH
            said.port(node, port, speed_gbps=speed, rail=-1 if is_switch else rail)
        said.link(ends[0], ends[1])
    if not cabled:
        raise source.error("names columns, but no cable", line)
    # What a name of a port tells counts where no line says otherwise.
    for node, port in cabled:
        if node not in kinds and said.nodes[node].kind is None:
            said.node(node, kind_by_port(port))
    return said


def _rows(source: Source) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> value); the first is the header itself."""
    names: list[str] = []
    delimiter = ","
    for number, line in enumerate(source.text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(line) > _LONGEST_LINE:
            raise source.error(f"has more than {_LONGEST_LINE} characters in a line", number)
        if not names:
            delimiter = next((mark for mark in ",;\t" if mark in line), ",")
        try:
            values = [value.strip() for value in next(csv.reader([line], delimiter=delimiter, strict=True))]
        except csv.Error as error:
            raise source.error(f"is no row of a table: {error}", number) from None
        if not names:
            names = [value.lower() for value in values]
            _check_header(source, number, names)
        elif len(values) != len(names):
            raise source.error(f"has {len(values)} columns, the first line names {len(names)}", number)
        yield number, dict(zip(names, values, strict=True))


def _check_header(source: Source, line: int, names: list[str]) -> None:
    for name in _NEEDED:
        if name not in names:
            raise source.error(f"column {name} is missing; needed are {','.join(_NEEDED)}", line)
    for name in names:
        if name not in _COLUMNS:
            raise source.error(f"column {name[:40]!r} is not known; known are {','.join(_COLUMNS)}", line)
        if names.count(name) > 1:
            raise source.error(f"column {name} appears twice", line)


def _end(source: Source, line: int, row: dict[str, str], side: str) -> End:
    node, port = row[f"node_{side}"], row[f"port_{side}"]
    if not node.strip("_/:- \t") or not port_name(port):
        raise source.error(
            f"node_{side} {node[:40]!r} and port_{side} {port[:40]!r} must both name something", line
        )
    return element_name(node), port_name(port)


def _kind(source: Source, line: int, row: dict[str, str], side: str) -> NodeKind | None:
    text = row.get(f"kind_{side}", "").lower()
    if text not in _KINDS:
        raise source.error(f"kind_{side} {text[:40]!r} is neither host nor switch", line)
    return _KINDS[text]


def _speed(source: Source, line: int, row: dict[str, str]) -> float:
    text = row.get("speed_gbps", "")
    try:
        speed = float(text or 0)
    except ValueError:
        speed = math.nan
    if not 0 <= speed <= _MOST_GBPS:
        raise source.error(f"speed_gbps {text[:40]!r} is no number of Gbit/s up to {_MOST_GBPS:g}", line)
    return speed


def _rail(source: Source, line: int, row: dict[str, str]) -> int:
    text = row.get("rail", "")
    if re.fullmatch(r"\d{0,4}", text, re.ASCII) is None:
        raise source.error(f"rail {text[:40]!r} is no number from 0 to 9999", line)
    return int(text) if text else -1


READER = Reader(
    name="cabling",
    what="a plan of cables as CSV: node_a,port_a,node_b,port_b[,speed_gbps][,kind_a,kind_b][,rail]",
    recognises=recognises,
    read=read,
)
