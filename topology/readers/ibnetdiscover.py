"""`ibnetdiscover`: the subnet as its subnet-management agents tell it, a block a node, also with -g and -f.

Grammar: infiniband-diags/ibnetdiscover.c of rdma-core (out_switch, out_ca, out_switch_port, out_ca_port):

    switchguid=0x<node GUID>(<port GUID>)
    Switch  <ports> "S-<GUID>"   # "<description>" base|enhanced port 0 lid <LID> lmc <n>
    [<port>][ext <n>]  "H-<GUID>"[<port>][ext <n>](<port GUID>)   # "<description>" lid <LID> 4xNDR
    caguid=0x<node GUID>
    Ca      <ports> "H-<GUID>"   # "<description>"
    [<port>](<port GUID>)  "S-<GUID>"[<port>]   # lid <LID> lmc <n> "<description>" lid <LID> 4xNDR

The rate is that of the port whose line it is. The scan sees one subnet only, and no port that is down. With -g the
nodes of a chassis come under headings and may be printed twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.columns import NodeKind
from topology.readers.ib_lines import Oddities, cut, numbered
from topology.readers.ib_names import coded_gbps, is_aggregation_node, rate_gbps
from topology.readers.ib_subnet import IbPort, Subnet
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

NAME = "ibnetdiscover"

_RECOGNISED = re.compile(
    r'^[ \t]*(?:Switch[ \t]+[0-9]+ "S-|(?:Ca|Rt)[ \t]+[0-9]+ "[HR]-)[0-9a-f]{16}"'
    r"|^[ \t]*(?:switchguid|caguid|rtguid)=0x[0-9a-f]+"
    r"|^# Topology file: generated on"
    r"|^(?:Switch|Ca|Router)[ \t]+: 0x[0-9a-f]{16} ports [0-9]+ devid ",
    re.MULTILINE,
)
_SWITCH = re.compile(
    r'Switch\s+([0-9]{1,3})\s+"S-([0-9a-f]{16})"\s+#\s+"(.*)"\s+(?:base|enhanced) port 0 lid [0-9]{1,7} lmc [0-9]',
    re.ASCII,
)
_ADAPTER = re.compile(
    r'(?:Ca|Rt|\?\?\?)\s+([0-9]{1,3})\s+"([HR?])-([0-9a-f]{16})"\s+#\s+"(.*)"(?:\s+\(scp\))?', re.ASCII
)
_PORT = re.compile(
    r"\[([0-9]{1,3})\](?:\[ext [0-9]{1,3}\])?(?:\(([0-9a-f]{1,16})\))?\s*"
    r'"([SHR?])-([0-9a-f]{16})"\[([0-9]{1,3})\](?:\[ext [0-9]{1,3}\])?\s*(?:\(([0-9a-f]{1,16})\)\s*)?'
    r'#\s*(?:lid ([0-9]{1,7}) lmc [0-9]\s+)?"(.*)"\s+lid ([0-9]{1,7}) ([0-9?]{1,2}x|\?\?)([A-Z0-9?]+)(.*)',
    re.ASCII,
)
_FULL = re.compile(r"\bs=([0-9]{1,3}) w=([0-9]{1,3}) v=[0-9]{1,3}(?: e=([0-9]{1,3}))?", re.ASCII)
_LISTED = re.compile(r"(?:Switch|Ca|Router)\s+: 0x[0-9a-f]{16} ports", re.ASCII)
_IDS = ("vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=")
_HEADINGS = ("#", "Chassis ", "Non-Chassis Nodes", "Hostname:")
_KINDS = {"S": NodeKind.SWITCH, "H": NodeKind.HOST, "R": NodeKind.SWITCH, "?": NodeKind.HOST}
"""A router forwards, so that it is a switch here; what the tool does not know is an end node."""


def _read(source: Source) -> Said:
    subnet, odd = Subnet(source), Oddities()
    speeds: dict[str, float] = {}
    node = 0
    inside = False
    for number, text in numbered(source):
        if text[0] == "[":
            match = _PORT.fullmatch(text)
            if match is None:
                raise cut(source, text, number, NAME)
            if not inside:
                raise source.error(
                    "a port's line without the node that it belongs to; is the file cut?", number
                )
            _port(match, node, subnet, odd, speeds)
        elif text.startswith(_IDS):
            inside = False
        elif text.startswith(("Switch", "Ca", "Rt", "???")) and '"' in text:
            node = _header(source, text, number, subnet)
            inside = True
        elif not text.startswith(_HEADINGS):
            odd.noise.append((number, text))
    if not subnet.links:
        raise source.error(
            f"has no cable (nodes: {len(subnet.nodes)}): the port that ibnetdiscover ran on is down, or the file is cut"
        )
    odd.without_block = sum(
        not (node.told or is_aggregation_node(node.description)) for node in subnet.nodes.values()
    )
    odd.tell(subnet)
    return subnet.say(NAME)


def _header(source: Source, text: str, number: int, subnet: Subnet) -> int:
    """GUID of the node whose block begins."""
    switch = _SWITCH.fullmatch(text)
    if switch is not None:
        guid = int(switch[2], 16)
        subnet.node(guid, NodeKind.SWITCH, switch[3], told=True)
        return guid
    adapter = _ADAPTER.fullmatch(text)
    if adapter is None:
        if _LISTED.match(text):
            raise source.error(
                "is a list of nodes (ibnetdiscover -l, -S, -H), which has no cables; run it without", number
            )
        raise cut(source, text, number, NAME)
    guid = int(adapter[3], 16)
    subnet.node(guid, _KINDS[adapter[2]], adapter[4], told=True)
    return guid


def _port(match: re.Match[str], node: int, subnet: Subnet, odd: Oddities, speeds: dict[str, float]) -> None:
    own, own_guid, letter, far, far_port, far_guid, own_lid, description, far_lid, width, rate, more = (
        match.groups()
    )
    word = width + rate + more
    if word not in speeds:
        speeds[word] = _speed(width, rate, more)
    gbps = speeds[word]
    if not gbps:
        odd.rates[width + rate] += 1
    number, other, far_number = int(own), int(far, 16), int(far_port)
    if other not in subnet.nodes:
        subnet.node(other, _KINDS[letter], description)
    # A switch has one LID and one GUID for all its ports: those are the node's.
    subnet.ports.append(
        IbPort(node, number, gbps, int(own_lid) if own_lid else 0, int(own_guid, 16) if own_guid else 0)
    )
    if letter != "S":
        subnet.ports.append(
            IbPort(other, far_number, 0.0, int(far_lid), int(far_guid, 16) if far_guid else 0)
        )
    subnet.links.append((node, number, other, far_number))


def _speed(width: str, rate: str, more: str) -> float:
    """Speed in Gbit/s, 0 unknown; the numbers that -f adds tell rates that the tool's release has no name for."""
    known = rate_gbps(width, rate)
    full = _FULL.search(more)
    if known is None and full is not None and full[3]:
        known = coded_gbps(int(full[2]), int(full[1]), int(full[3]))
    return known or 0.0


READER = Reader(
    NAME,
    "the output of ibnetdiscover, also with -g and -f",
    lambda s: _RECOGNISED.search(s.head) is not None,
    _read,
)
