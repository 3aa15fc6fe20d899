"""Linear forwarding tables: for each switch and destination LID the port out.

Three spellings: `dump_fts` and `ibroute` of infiniband-diags (dump_fts.c, dump_unicast_tables), opensm-lfts.dump
(osm_dump.c, dump_ucast_lfts), and the .fdbs files of opensm and ibdiagnet (dump_ucast_routes):

    Unicast lids [0x0-0x1400] of switch DR path slid 0; dlid 0; 0,1 guid 0x0002c90300000001 (leaf1):
    0x0003 024 : (Switch portguid 0x0002c90300000002: 'spine1')
    0x0004 255 : (illegal port)
    3 valid lids dumped

    dump_ucast_routes: Switch 0x0002c90300000001
    LID    : Port : Hops : Optimal
    0x0001 : 005  : 05   : yes
    0x0002 : UNREACHABLE

LIDs without a way out are left out. Only switches that have a table are nodes; what the LIDs belong to is read from a
dump of the subnet (`ibnetdiscover`, opensm-subnet.lst).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from topology.columns import NodeKind
from topology.readers.ib_lines import Oddities, cut, numbered
from topology.readers.ib_subnet import Subnet
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

NAME = "lft"

_NO_PATH = 255

_UNICAST = re.compile(
    r"Unicast lids \[[0-9a-fx]+-[0-9a-fx]+\] of switch (?:.* )?guid 0x([0-9a-f]{16}) \('?(.*?)'?\):", re.ASCII
)
_ROUTES = re.compile(r"(?:osm_ucast_mgr_)?dump_ucast_routes: Switch 0x([0-9a-f]{1,16})", re.ASCII)
_ENTRY = re.compile(r"0x([0-9a-fA-F]{1,6})\s+(?::\s+)?(?:([0-9]{3})\b.*|UNREACHABLE)", re.ASCII)
_DUMPED = re.compile(r"([0-9]{1,7}) (valid )?lids dumped", re.ASCII)
_OTHER_TABLE = re.compile(r"PLFT_NUM: *([0-9]{1,3})", re.ASCII)
_RECOGNISED = re.compile(
    r"^[ \t]*(?:Unicast lids \[[0-9a-fx]+-[0-9a-fx]+\] of switch |(?:osm_ucast_mgr_)?dump_ucast_routes: Switch 0x)",
    re.MULTILINE,
)
_HEADINGS = ("Lid  Out", "Port     Info", "LID    :", "#")


@dataclass
class _Table:
    """The table that is being read."""

    guid: int
    has_end: bool = False
    ended: bool = False
    entries: int = 0
    read: bool = True
    twice: list[int] = field(default_factory=list)


def _read(source: Source) -> Said:
    subnet, odd = Subnet(source), Oddities()
    tables: list[_Table] = []
    skipping = False
    for number, text in numbered(source):
        if text.startswith("Multicast mlids"):
            skipping = True
        elif text.startswith("Unicast lids") or "dump_ucast_routes: Switch" in text:
            skipping = False
            tables.append(_begin(source, text, number, subnet))
        elif skipping:
            continue
        elif text.startswith("0x"):
            if not tables:
                raise source.error("an entry without the switch that it belongs to; is the file cut?", number)
            _entry(source, text, number, tables[-1], subnet)
        elif not _skipped(text, tables):
            odd.noise.append((number, text))
    _tell(tables, subnet)
    odd.tell(subnet)
    return subnet.say(NAME)


def _begin(source: Source, text: str, number: int, subnet: Subnet) -> _Table:
    match, description, has_end = _ROUTES.fullmatch(text), "", False
    if match is None:
        match, has_end = _UNICAST.fullmatch(text), True
        if match is None:
            raise cut(source, text, number, "dump_fts")
        description = match[2].strip()
    guid = int(match[1], 16)
    subnet.node(guid, NodeKind.SWITCH, description, told=True)
    subnet.forwarding.setdefault(guid, {})
    return _Table(guid, has_end)


def _entry(source: Source, text: str, number: int, table: _Table, subnet: Subnet) -> None:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise cut(source, text, number, "a forwarding table")
    if not table.read:
        return
    table.entries += 1
    lid, port = int(match[1], 16), int(match[2] or _NO_PATH)
    if port >= _NO_PATH or "(illegal port)" in text or "- illegal port)" in text:
        return
    if subnet.forwarding[table.guid].setdefault(lid, port) != port:
        table.twice.append(lid)


def _skipped(text: str, tables: list[_Table]) -> bool:
    """Whether a line is a heading, the end of a table, or the number of a private one (adaptive routing), not read."""
    if text.startswith(_HEADINGS):
        return True
    dumped, other = _DUMPED.fullmatch(text), _OTHER_TABLE.fullmatch(text)
    if not tables or (dumped is None and other is None):
        return False
    if dumped is not None:
        # opensm prints the highest LID there, dump_fts the number of lines.
        tables[-1].ended = not dumped[2] or int(dumped[1]) == tables[-1].entries
    elif other is not None:
        tables[-1].read = int(other[1]) == 0
    return True


def _tell(tables: list[_Table], subnet: Subnet) -> None:
    cut_off = [f"0x{table.guid:016x}" for table in tables if table.has_end and not table.ended]
    if cut_off:
        subnet.warn(
            f"tables without an end, or with fewer lines than it says: {len(cut_off)}, of {', '.join(cut_off[:4])}",
            "dump them again: routes may be missing",
            switches=cut_off[:64],
        )
    twice = [table for table in tables if table.twice]
    if twice:
        subnet.warn(
            f"switches with two ports out for a LID: {len(twice)}, 0x{twice[0].guid:016x} for LID {twice[0].twice[0]}; "
            "the first is kept",
            "give one dump",
            switches=[f"0x{table.guid:016x}" for table in twice[:64]],
        )


READER = Reader(
    NAME,
    "forwarding tables: dump_fts, ibroute, opensm-lfts.dump, .fdbs of opensm or ibdiagnet",
    lambda source: _RECOGNISED.search(source.head) is not None,
    _read,
)
