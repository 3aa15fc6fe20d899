"""`opensm-subnet.lst`: a line for each end of each cable, written by opensm and ibdiagnet beside their tables.

Grammar: opensm/osm_dump.c (dump_topology_node):

    { SW Ports:08 SystemGUID:<16> NodeGUID:<16> PortGUID:<16> VenID:.. DevID:.. Rev:.. {<description>} LID:0002 PN:05 }
    { CA-SM ... } PHY=4x LOG=ACT SPD=25

all on one line. LID and PN (the port) are hexadecimal; SPD, the rate of a lane in Gbit/s, is not in older files, and
opensm has no word for rates above 25.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.columns import LinkState, NodeKind
from topology.readers.ib_lines import Oddities, cut, numbered
from topology.readers.ib_names import LANE_GBPS, rate_gbps
from topology.readers.ib_subnet import IbPort, Subnet
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

NAME = "opensm-subnet"

_END = (
    r"\{ (SW|CA|Rt|RTR|\*\*)(?:-SM)? Ports:[0-9A-F]{1,3} SystemGUID:[0-9a-f]{16} NodeGUID:([0-9a-f]{16})"
    r" PortGUID:([0-9a-f]{16}) VenID:[0-9A-F]+ DevID:[0-9A-F]+ Rev:[0-9A-F]+ \{([^\n]*?)\} LID:([0-9A-F]{1,6})"
    r" PN:([0-9A-F]{1,3}) \}"
)
_LINE = re.compile(rf"{_END} {_END} PHY=(\S+) LOG=([A-Z?]+)(?: SPD=(\S+))?", re.ASCII)
_RECOGNISED = re.compile(
    r"^[ \t]*\{ (?:SW|CA|Rt|RTR|\*\*)(?:-SM)? Ports:[0-9A-F]+ SystemGUID:[0-9a-f]{16} NodeGUID:", re.MULTILINE
)
_KINDS = {"SW": NodeKind.SWITCH, "CA": NodeKind.HOST, "**": NodeKind.HOST}
_RATES = {f"{gbps:g}": rate for rate, gbps in LANE_GBPS.items() if rate != "FDR10"} | {"FDR10": "FDR10"}


def _read(source: Source) -> Said:
    subnet, odd = Subnet(source), Oddities()
    for number, text in numbered(source):
        if not text.startswith("{"):
            odd.noise.append((number, text))
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise cut(source, text, number, "opensm-subnet.lst")
        groups = match.groups()
        width, logical, speed = groups[12:]
        gbps = rate_gbps(width, _RATES.get(speed, speed)) if speed else None
        if gbps is None and speed:
            odd.rates[f"{width} {speed}"] += 1
        state = None if logical == "ACT" else LinkState.DOWN
        ends: list[tuple[int, int]] = []
        for kind, guid, port_guid, description, lid, port in (groups[:6], groups[6:12]):
            node = int(guid, 16)
            is_adapter = _KINDS.get(kind, NodeKind.SWITCH) is NodeKind.HOST
            subnet.node(node, _KINDS.get(kind, NodeKind.SWITCH), description.strip(), told=True)
            ids = (int(lid, 16), int(port_guid, 16)) if is_adapter else (0, 0)
            is_own = not ends
            subnet.ports.append(
                IbPort(
                    node,
                    int(port, 16),
                    (gbps or 0.0) if is_own else 0.0,
                    *ids,
                    state=state if is_own else None,
                )
            )
            ends.append((node, int(port, 16)))
        subnet.links.append((*ends[0], *ends[1]))
    odd.tell(subnet)
    return subnet.say(NAME)


READER = Reader(
    NAME,
    "opensm-subnet.lst of opensm or ibdiagnet",
    lambda source: _RECOGNISED.search(source.head) is not None,
    _read,
)
