"""`ibnetdiscover -p`: one line a port, with GUIDs of ports; ports without a cable are there too.

Grammar: infiniband-diags/ibnetdiscover.c of rdma-core (dump_ports_report):

    <CA|SW|RT> <LID> <port> 0x<port GUID> 4x NDR - <type> <LID> <port> 0x<port GUID> ( '<description>' - '<other's>' )
    <CA|SW|RT> <LID> <port> 0x<port GUID> 4x SDR                                    '<description>'

All ports of a switch have its GUID. The rate of a port without a cable means nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.columns import LinkState, NodeKind
from topology.readers.ib_lines import Oddities, cut, numbered
from topology.readers.ib_names import rate_gbps
from topology.readers.ib_subnet import IbPort, Subnet
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

NAME = "ibnetdiscover-ports"

_TYPE = r"(CA|SW|RT|\?\?)\s+([0-9]{1,7})\s+([0-9]{1,3})\s+0x([0-9a-f]{16})"
_LINE = re.compile(
    rf"{_TYPE}\s+([0-9]{{1,2}}x|\?\?)\s+([A-Z0-9?]+)\s+(?:-\s+{_TYPE}\s+\(\s*'(.*)'\s+-\s+'(.*)'\s*\)|'(.*)')",
    re.ASCII,
)
_RECOGNISED = re.compile(
    r"^[ \t]*(?:CA|SW|RT)[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+0x[0-9a-f]{16}[ \t]+[0-9?]+x?[ \t]+[A-Z0-9?]+[ \t]",
    re.MULTILINE,
)
_KINDS = {"SW": NodeKind.SWITCH, "CA": NodeKind.HOST, "RT": NodeKind.SWITCH, "??": NodeKind.HOST}


def _read(source: Source) -> Said:
    subnet, odd = Subnet(source), Oddities()
    for number, text in numbered(source):
        if text[:2] not in _KINDS:
            odd.noise.append((number, text))
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise cut(source, text, number, "ibnetdiscover -p")
        kind, lid, port, guid, width, rate, far_kind, far_lid, far_port, far_guid, name, far_name, alone = (
            match.groups()
        )
        own = int(guid, 16)
        subnet.node(own, _KINDS[kind], (name if far_kind else alone).strip(), told=True)
        own_lid, own_guid = (int(lid), own) if kind != "SW" else (0, 0)
        if not far_kind:
            subnet.ports.append(IbPort(own, int(port), lid=own_lid, port_guid=own_guid, state=LinkState.DOWN))
            continue
        gbps = rate_gbps(width, rate)
        if gbps is None:
            odd.rates[width + rate] += 1
        other = int(far_guid, 16)
        subnet.node(other, _KINDS[far_kind], far_name.strip())
        subnet.ports.append(IbPort(own, int(port), gbps or 0.0, own_lid, own_guid))
        far_end = (int(far_lid), other) if far_kind != "SW" else (0, 0)
        subnet.ports.append(IbPort(other, int(far_port), 0.0, *far_end))
        subnet.links.append((own, int(port), other, int(far_port)))
    odd.tell(subnet)
    return subnet.say(NAME)


READER = Reader(
    NAME,
    "the output of ibnetdiscover -p",
    lambda source: _RECOGNISED.search(source.head) is not None,
    _read,
)
