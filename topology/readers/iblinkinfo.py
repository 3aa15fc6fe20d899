"""`iblinkinfo`: every port with its state, width and speed, also with -l (one line a link) and -p.

Grammar: infiniband-diags/iblinkinfo.c of rdma-core (print_node_header, print_port):

    CA: <description>:
          0x<port GUID>  <LID>  <port>[<ext>] ==( 4X  106.25 Gbps Active/  LinkUp)==>  <LID>  <port>[  ] "<description>" ( )
    Switch: 0x<GUID> <description>:
           <LID>  <port>[  ] ==(                Down/ Polling)==>             [  ] "" ( )

and with -l, where nothing says what a node is:

    0x<port GUID> "   <description>" <LID> <port>[  ] ==(...)==> 0x<port GUID>  <LID> <port>[  ] "<description>" ( )

Without -l a neighbour is told by its LID and its description only. The last brackets say what the port could run at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topology.columns import LinkState, NodeKind
from topology.readers.ib_lines import Oddities, cut, numbered
from topology.readers.ib_names import SIGNALLING, host_and_device, is_aggregation_node, rate_gbps
from topology.readers.ib_subnet import IbPort, Subnet
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

NAME = "iblinkinfo"

_HEADER = re.compile(r"(CA|Router|\?\?): (.*):|Switch: 0x([0-9a-f]{16}) (.*):")
_OWN = re.compile(
    r'(?:0x([0-9a-f]{16})\s+)?(?:"(.*)"\s+)?([0-9]{1,7})\s+([0-9]{1,3})\[[ 0-9]{2,3}\]', re.ASCII
)
_FAR = re.compile(r'(?:0x([0-9a-f]{16})\s+)?([0-9]{1,7})\s+([0-9]{1,3})\[[ 0-9]{2,3}\] "', re.ASCII)
_NOBODY = {'[  ] "" ( )', '"Port not available"'}
_RECOGNISED = re.compile(r"\] ?==\((?:[^()\n]|\([^()\n]{0,40}\)){0,120}\)(?: \(HOQ:[^()\n]{0,40}\))?==>")
_BEGINS = ("CA: ", "Router: ", "Switch: 0x", "??: ")


@dataclass(frozen=True, slots=True)
class Line:
    """One port; 0 and empty are not told, kind None is to be found out."""

    guid: int
    kind: NodeKind | None
    description: str
    number: int
    lid: int
    gbps: float
    state: LinkState | None
    far_guid: int = 0
    far_lid: int = 0
    far_number: int = 0
    far_description: str = ""


def _read(source: Source) -> Said:
    subnet, odd = Subnet(source), Oddities()
    lines: list[Line] = []
    header: tuple[NodeKind, int, str] | None = None
    for number, text in numbered(source):
        if "==(" in text:
            lines.append(_line(source, text, number, header, subnet, odd))
        elif text.startswith(_BEGINS):
            header = _header(source, text, number, subnet)
        else:
            odd.noise.append((number, text))
    _tell_nodes(lines, subnet)
    for line in lines:
        end = (line.guid, line.number)
        is_switch = subnet.nodes[line.guid].kind is NodeKind.SWITCH
        # A switch has one LID and one GUID for all its ports: those are the node's.
        own = (0, 0) if is_switch else (line.lid, line.guid)
        subnet.ports.append(IbPort(*end, line.gbps, *own, state=line.state))
    _join(lines, subnet)
    odd.without_block = sum(
        not (node.told or is_aggregation_node(node.description)) for node in subnet.nodes.values()
    )
    odd.tell(subnet)
    return subnet.say(NAME)


def _header(source: Source, text: str, number: int, subnet: Subnet) -> tuple[NodeKind, int, str]:
    """(kind, GUID of a switch, description) of the node whose lines follow."""
    match = _HEADER.fullmatch(text)
    if match is None:
        raise cut(source, text, number, NAME)
    if match[3]:
        guid, description = int(match[3], 16), match[4].strip()
        subnet.node(guid, NodeKind.SWITCH, description, told=True)
        return NodeKind.SWITCH, guid, description
    return (NodeKind.SWITCH if match[1] == "Router" else NodeKind.HOST), 0, match[2].strip()


def _line(
    source: Source,
    text: str,
    number: int,
    header: tuple[NodeKind, int, str] | None,
    subnet: Subnet,
    odd: Oddities,
) -> Line:
    before, _, rest = text.partition("==(")
    inside, arrow, far = rest.partition("==>")
    own = _OWN.fullmatch(before.strip())
    far, about = far.strip(), inside.strip()
    if own is None or not arrow or not about.endswith(")"):
        raise cut(source, text, number, NAME)
    kind, guid, description = None, int(own[1], 16) if own[1] else 0, (own[2] or "").strip()
    if own[2] is None:
        if header is None:
            raise source.error("a port's line without the node that it belongs to; is the file cut?", number)
        kind, switch, description = header
        guid = guid or switch
    if not guid:
        raise source.error("a port without its GUID; is the file edited?", number)
    gbps, state = _link(source, about.partition(" (HOQ:")[0].rstrip(")"), number, odd, far in _NOBODY)
    line = Line(guid, kind, description, int(own[4]), int(own[3]), gbps, state)
    if far in _NOBODY:
        return line
    head = _FAR.match(far)
    name, quote, could = far[head.end() if head else 0 :].rpartition('" (')
    if head is None or not quote or not could.endswith(")"):
        raise cut(source, text, number, NAME)
    if could[:-1].strip():
        subnet.warn(
            f"port {line.number} of {description!r} runs at {about.partition(' Gbps')[0]} Gbps: {could[:-1].strip()}",
            "look for a bad cable, or a port that was set to less",
            line=number,
        )
    return replace(
        line,
        far_guid=int(head[1], 16) if head[1] else 0,
        far_lid=int(head[2]),
        far_number=int(head[3]),
        far_description=name.strip(),
    )


def _link(
    source: Source, about: str, number: int, odd: Oddities, alone: bool
) -> tuple[float, LinkState | None]:
    """(speed, state) out of `4X  106.25 Gbps Active/  LinkUp`; only an active port carries traffic."""
    words = about.rpartition("/")[0].split()
    if not words:
        raise source.error(f"width, speed and state are not readable: {about[:60]!r}", number)
    if words[-1] != "Active":
        return 0.0, LinkState.DOWN
    width, speed = words[0], words[1] if len(words) > 1 else ""
    gbps = rate_gbps(width, "FDR10" if "(FDR10)" in words else SIGNALLING.get(speed, speed))
    if gbps is None and not alone:
        odd.rates[" ".join(words[:-1])] += 1
    return gbps or 0.0, None


def _tell_nodes(lines: list[Line], subnet: Subnet) -> None:
    """Nodes; in the form of one line a link those with several ports or a managed switch's name are switches."""
    numbers: dict[int, set[int]] = {}
    for line in lines:
        numbers.setdefault(line.guid, set()).add(line.number)
        if line.far_guid:
            numbers.setdefault(line.far_guid, set()).add(line.far_number)

    def guessed(guid: int, description: str) -> NodeKind:
        several = len(numbers[guid]) > 1 or description.startswith("MF0;")
        return NodeKind.SWITCH if several and not is_aggregation_node(description) else NodeKind.HOST

    for line in lines:
        kind = guessed(line.guid, line.description) if line.kind is None else line.kind
        subnet.node(line.guid, kind, line.description, told=True)
    for line in lines:
        if line.far_guid:
            subnet.node(line.far_guid, guessed(line.far_guid, line.far_description), line.far_description)


def _join(lines: list[Line], subnet: Subnet) -> None:
    """Find the neighbour of each port and say the cables."""
    by_lid: dict[tuple[int, int], int] = {}
    switch_of_lid: dict[int, int] = {}
    by_description: dict[str, list[int]] = {}
    for guid, node in subnet.nodes.items():
        by_description.setdefault(node.description, []).append(guid)
    for line in lines:
        if not line.lid:
            continue
        by_lid.setdefault((line.lid, line.number), line.guid)
        if subnet.nodes[line.guid].kind is NodeKind.SWITCH:
            switch_of_lid.setdefault(line.lid, line.guid)
    for line in lines:
        if not line.far_number:
            continue
        far = line.far_guid or by_lid.get((line.far_lid, line.far_number)) or switch_of_lid.get(line.far_lid)
        named = by_description.get(line.far_description, [])
        if far is None:
            far = named[0] if len(named) == 1 else None
        if far is None:
            # The file has no GUID of it, so the LID stands for one: no vendor's GUIDs are that small.
            far = line.far_lid
            is_host = host_and_device(line.far_description) or is_aggregation_node(line.far_description)
            subnet.node(far, NodeKind.HOST if is_host else NodeKind.SWITCH, line.far_description)
        is_switch = subnet.nodes[far].kind is NodeKind.SWITCH
        subnet.ports.append(IbPort(far, line.far_number, lid=0 if is_switch else line.far_lid))
        subnet.links.append((line.guid, line.number, far, line.far_number))


READER = Reader(
    NAME,
    "the output of iblinkinfo, also with -l",
    lambda source: _RECOGNISED.search(source.head) is not None,
    _read,
)
