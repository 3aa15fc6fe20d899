"""`ibdiagnet2.db_csv`: a file of sections; NODES, PORTS and LINKS are read, all others passed over.

    START_LINKS
    NodeGuid1,PortNum1,NodeGuid2,PortNum2
    0xb83fd20300bb0001,1,0xb83fd20300aa0001,1
    END_LINKS

Columns are found by the names in a section's first line; releases differ in which there are. NodeType is 1 for a channel
adapter, 2 a switch, 3 a router. LinkSpeedActv has the extended speed in its second byte and the base speed in the first
(2048 is NDR), LinkWidthActv is PortInfo's code, PortState 4 is active. A switch's LID is that of its port 0.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from topology.columns import LinkState, NodeKind
from topology.readers.ib_lines import Oddities
from topology.readers.ib_names import coded_gbps
from topology.readers.ib_subnet import IbPort, Subnet
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from topology.readers.said import Said
    from topology.readers.source import Source

NAME = "ibdiagnet"

_RECOGNISED = re.compile(r"^START_(?:NODES|PORTS|LINKS|RUN_INFO|DUPLICATED_NODES)[ \t]*$", re.MULTILINE)
_NET_DUMP = re.compile(r'^"[^"\n]{0,128}", [^,\n]{0,64}, 0x[0-9a-f]{1,16}, LID [0-9]+[ \t]*$', re.MULTILINE)
_READ = {"NODES", "PORTS", "LINKS"}
_KINDS = {1: NodeKind.HOST, 2: NodeKind.SWITCH, 3: NodeKind.SWITCH}
_ACTIVE = 4

Row = dict[str, str]


def _recognises(source: Source) -> bool:
    return _RECOGNISED.search(source.head) is not None or _NET_DUMP.search(source.head) is not None


def _read(source: Source) -> Said:
    sections = _sections(source)
    if "NODES" not in sections or "LINKS" not in sections:
        if _NET_DUMP.search(source.head):
            raise source.error("is ibdiagnet2.net_dump; give ibdiagnet2.db_csv of the same run")
        missing = " and ".join(sorted({"NODES", "LINKS"} - set(sections)))
        raise source.error(f"has no section {missing}: the file is cut, or is not ibdiagnet2.db_csv")
    subnet, odd = Subnet(source), Oddities()
    for number, row in _rows(source, sections["NODES"]):
        guid = _number(source, number, row, "NodeGUID")
        kind = _KINDS.get(_number(source, number, row, "NodeType"))
        if kind is None:
            raise source.error("NodeType is none of 1 (channel adapter), 2 (switch), 3 (router)", number)
        subnet.node(guid, kind, row.get("NodeDesc", "").strip(), told=True)
    for number, row in _rows(source, sections.get("PORTS", [])):
        _port(source, number, row, subnet, odd)
    for number, row in _rows(source, sections["LINKS"]):
        ends = [
            (_number(source, number, row, f"NodeGuid{end}"), _number(source, number, row, f"PortNum{end}"))
            for end in (1, 2)
        ]
        for end in ends:
            if end[0] not in subnet.nodes:
                raise source.error(
                    f"a link's node 0x{end[0]:016x} is not among NODES; is the file cut?", number
                )
            subnet.ports.append(IbPort(*end))
        subnet.links.append((*ends[0], *ends[1]))
    odd.tell(subnet)
    return subnet.say(NAME)


def _port(source: Source, number: int, row: Row, subnet: Subnet, odd: Oddities) -> None:
    guid, port = _number(source, number, row, "NodeGuid"), _number(source, number, row, "PortNum")
    node = subnet.nodes.get(guid)
    if node is None:
        raise source.error(f"a port's node 0x{guid:016x} is not among NODES; is the file cut?", number)
    if port == 0:
        return  # a switch's own management port
    is_adapter = node.kind is NodeKind.HOST
    lid = _number(source, number, row, "LID", 0) if is_adapter else 0
    port_guid = _number(source, number, row, "PortGuid", 0) if is_adapter else 0
    if _number(source, number, row, "PortState", _ACTIVE) != _ACTIVE:
        subnet.ports.append(IbPort(guid, port, 0.0, lid, port_guid, state=LinkState.DOWN))
        return
    width, speed = (_number(source, number, row, name, 0) for name in ("LinkWidthActv", "LinkSpeedActv"))
    gbps = coded_gbps(width, speed & 0xFF, speed >> 8 & 0xFF)
    if gbps is None:
        odd.rates[f"width {width} speed {speed}"] += 1
    prefix = row.get("GIDPrfx", "").strip()
    subnet.ports.append(IbPort(guid, port, gbps or 0.0, lid, port_guid, "" if prefix == "N/A" else prefix))


def _sections(source: Source) -> dict[str, list[tuple[int, str]]]:
    """Section -> its lines; those that are not read are only looked through for their end."""
    found: dict[str, list[tuple[int, str]]] = {}
    name, begun = "", 0
    lines: list[tuple[int, str]] = []
    for number, line in _lines(source):
        if line.startswith("START_"):
            if name:
                raise source.error(f"section {name} has no end before this line; is the file cut?", number)
            name, begun, lines = line[6:].strip(), number, []
            if name in _READ:
                if name in found:
                    raise source.error(f"section {name} is there twice; give one run's file", number)
                found[name] = lines
        elif line.startswith("END_"):
            if line[4:].strip() != name:
                raise source.error(f"{line[:60].strip()} ends no section that is open", number)
            name = ""
        elif name in _READ:
            lines.append((number, line))
    if name:
        raise source.error(f"section {name} has no END_{name}: the file is cut", begun)
    return found


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.text.split("\n"), 1):
        if line and not line.isspace():
            yield number, line


def _rows(source: Source, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    """Rows by the names of the section's first line."""
    names: list[str] = []
    for number, line in lines:
        if len(line) > 1 << 16:
            raise source.error(f"a line of {len(line)} characters", number)
        try:
            cells = next(csv.reader([line], skipinitialspace=True, strict=True))
        except (csv.Error, StopIteration) as error:
            raise source.error(f"is no line of comma-separated values: {error}", number) from error
        if not names:
            names = [cell.strip() for cell in cells]
        elif len(cells) != len(names):
            raise source.error(f"has {len(cells)} values for {len(names)} columns; is the file cut?", number)
        else:
            yield number, dict(zip(names, cells, strict=True))


def _number(source: Source, line: int, row: Row, name: str, default: int | None = None) -> int:
    text = row.get(name, "").strip()
    if text in {"", "N/A"} and default is not None:
        return default
    hexadecimal = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", text)
    if hexadecimal:
        return int(hexadecimal[1], 16)
    if re.fullmatch(r"[0-9]{1,20}", text):
        return int(text)
    raise source.error(
        f"{name} is {text[:30]!r}, not a number" if name in row else f"has no column {name}", line
    )


READER = Reader(NAME, "ibdiagnet2.db_csv of ibdiagnet", _recognises, _read)
