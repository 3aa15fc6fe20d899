"""`Subnet`: what a dump of an InfiniBand subnet has, by GUID and port number, before nodes get names.

All InfiniBand readers fill one. GUIDs are unique and descriptions are not, and which ones are shared is known only at
the end of a file; so names are given in `Subnet.say`, once for all formats:

- a managed switch has its host name, one whose description others share too is `S-<GUID>` as in ibnetdiscover's output;
- a channel adapter is a NIC of the host that its description names. One whose description names no host, or that of
  another adapter, is a host of its own, `H-<GUID>`;
- port 1 of a NIC has the device's name, a further one `<device>:<port>`; a switch's ports have their numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import LinkState, NodeKind
from topology.readers import ib_names
from topology.readers.said import PortSaid, Said

if TYPE_CHECKING:
    from topology.readers.said import End
    from topology.readers.source import Source

CHECK = "subnet-dump"
"""Name of the findings about how complete a dump is."""

IbEnd = tuple[int, int]
"""(node GUID, port number)."""


@dataclass(slots=True)
class IbNode:
    """A node; `told` says that the dump describes it itself, not only as somebody's neighbour."""

    kind: NodeKind
    description: str
    told: bool = False


class IbPort(NamedTuple):
    """What one line says of a port; 0, empty or None is not known."""

    guid: int
    number: int
    gbps: float = 0.0
    lid: int = 0
    port_guid: int = 0
    subnet: str = ""
    state: LinkState | None = None


@dataclass
class Subnet:
    """Nodes, ports and cables of one dump, and the forwarding tables where it has some.

    Attributes:
        source: the input.
        nodes: GUID -> node. Where a format has the GUIDs of ports only, a channel adapter's port is a node.
        ports: in the order of the lines; a port may be told several times. A switch's port of which only the cable is
            known need not be there.
        links: GUID and port number of both ends of each cable; either direction or both.
        forwarding: switch GUID -> LID -> port number.
        findings: about the dump.
    """

    source: Source
    nodes: dict[int, IbNode] = field(default_factory=dict)
    ports: list[IbPort] = field(default_factory=list)
    links: list[tuple[int, int, int, int]] = field(default_factory=list)
    forwarding: dict[int, dict[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def node(self, guid: int, kind: NodeKind, description: str, *, told: bool = False) -> None:
        """Say that a node exists; the first description stays."""
        node = self.nodes.get(guid)
        if node is None:
            self.nodes[guid] = IbNode(kind, description, told)
        elif told:
            node.told = True

    def warn(self, what: str, fix: str, **evidence: object) -> None:
        """A finding about the dump as a whole."""
        self.findings.append(
            Finding(
                check=CHECK,
                status=Status.WARN,
                where=ElementId.fabric(),
                what=f"{self.source.name}: {what}",
                evidence=dict(evidence),
                fix=fix,
            )
        )

    def say(self, format_name: str) -> Said:
        """The same by name.

        Raises:
            InputError: there is no node at all.
        """
        if not self.nodes:
            raise self.source.error("has no InfiniBand node: the dump is empty or cut")
        said = Said(self.source.name, format_name)
        said.findings += self.findings
        engines = {
            guid
            for guid, node in self.nodes.items()
            if node.kind is NodeKind.HOST and ib_names.is_aggregation_node(node.description)
        }
        places = self._places(engines, said)
        for guid, (name, device) in places.items():
            if device is None:
                said.node(name, NodeKind.SWITCH, guid=ib_names.guid_text(guid))
            else:
                said.node(name, NodeKind.HOST)
        inner = self._drop_engines(engines, places, said)
        devices = self._say_ports(places, inner, said)
        self._say_links(places, inner, said)
        for (host, nic), rail in ib_names.rails(devices).items():
            said.ports[host, nic].rail = rail
        for guid, table in self.forwarding.items():
            said.forwarding[places[guid][0]] = table
        return said

    def _places(self, engines: set[int], said: Said) -> dict[int, tuple[str, str | None]]:
        """GUID -> (node's name, device), device None for a switch; aggregation nodes are left out."""
        wanted: dict[int, tuple[str, str | None]] = {}
        numbers: dict[int, set[int]] = {}
        for guid, number, *_ in self.ports:
            if self.nodes[guid].kind is NodeKind.HOST:
                numbers.setdefault(guid, set()).add(number)
        claims: Counter[tuple[str, str | None, int]] = Counter()
        for guid, node in self.nodes.items():
            if guid in engines:
                continue
            if node.kind is NodeKind.SWITCH:
                name = ib_names.switch_name(node.description)
                wanted[guid] = (name or f"S-{guid:016x}", None)
            else:
                host, nic = ib_names.host_and_device(node.description) or (f"H-{guid:016x}", "HCA")
                wanted[guid] = (host, nic or f"H-{guid:016x}")
            claims.update((*wanted[guid], number) for number in self._numbers(guid, numbers))
        hosts = {name for name, device in wanted.values() if device is not None}
        unclear: Counter[str] = Counter()
        for guid, (name, device) in list(wanted.items()):
            if device is None:
                if claims[name, None, 0] > 1 or name in hosts:
                    wanted[guid] = (f"S-{guid:016x}", None)
            elif any(claims[name, device, number] > 1 for number in self._numbers(guid, numbers)):
                wanted[guid] = (f"H-{guid:016x}", device)
            if device is not None and wanted[guid][0] == f"H-{guid:016x}":
                unclear[self.nodes[guid].description] += 1
        if unclear:
            self._say_unclear(unclear, said)
        return wanted

    def _numbers(self, guid: int, numbers: dict[int, set[int]]) -> set[int]:
        """Ports that two nodes of one name cannot both have; a switch as a whole counts as port 0."""
        if self.nodes[guid].kind is NodeKind.SWITCH:
            return {0}
        return numbers.get(guid) or {1}

    def _say_unclear(self, unclear: Counter[str], said: Said) -> None:
        examples = ", ".join(f"{text!r} ({count})" for text, count in unclear.most_common(4))
        said.findings.append(
            Finding(
                check=CHECK,
                status=Status.WARN,
                where=ElementId.fabric(),
                what=f"channel adapters that do not say whose they are, by a vendor's description or that of another "
                f"adapter: {unclear.total()}, {examples}; each is taken as a host of its own",
                evidence={"descriptions": dict(unclear.most_common(32))},
                fix="let rdma-ndd set node descriptions to host and device name, and scan again",
            )
        )

    def _drop_engines(
        self, engines: set[int], places: dict[int, tuple[str, str | None]], said: Said
    ) -> set[IbEnd]:
        """Keep SHARP's aggregation nodes, and the switch ports inside the chip that lead to them, out of the fabric."""
        inner: set[IbEnd] = set()
        where: dict[int, str] = {}
        if engines:
            for guid, number, far, far_number in self.links:
                for engine, end in ((guid, (far, far_number)), (far, (guid, number))):
                    if engine in engines and end[0] not in engines:
                        inner.add(end)
                        where[engine] = f" at port {end[1]} of {places[end[0]][0]}"
        for guid in sorted(engines):
            element = ElementId.host(f"H-{guid:016x}")
            said.dropped[str(element)] = f"SHARP aggregation node{where.get(guid, '')}: no job runs there"
        return inner

    def _say_ports(
        self, places: dict[int, tuple[str, str | None]], inner: set[IbEnd], said: Said
    ) -> dict[End, tuple[str, int]]:
        """Say the ports; returns (host, NIC) -> (device, port number)."""
        devices: dict[End, tuple[str, int]] = {}
        text: dict[int, str] = {0: ""}
        sources = frozenset((said.source,))
        for guid, number, gbps, lid, port_guid, subnet, state in self.ports:
            place = places.get(guid)
            if place is None or (guid, number) in inner:
                continue
            name, device = place
            if device is None:
                end = name, str(number)
            else:
                end = name, device if number <= 1 else f"{device}:{number}"
                devices[end] = (device, number)
            if port_guid not in text:
                text[port_guid] = ib_names.guid_text(port_guid)
            if end not in said.ports:
                # As `Said.port` would; it takes a third of the time of a large dump.
                said.ports[end] = PortSaid(
                    speed_gbps=gbps,
                    lid=lid,
                    guid=text[port_guid],
                    link_layer="IB",
                    subnet=subnet,
                    state=state,
                    sources=sources,
                )
            else:
                said.port(*end, speed_gbps=gbps, lid=lid, guid=text[port_guid], subnet=subnet, state=state)
        return devices

    def _say_links(self, places: dict[int, tuple[str, str | None]], inner: set[IbEnd], said: Said) -> None:
        """Say the cables; an end that no line of its own tells has the speed of the other: a link has one rate."""

        def named(guid: int, number: int) -> End | None:
            place = places.get(guid)
            if place is None or (guid, number) in inner:
                return None
            name, device = place
            if device is None:
                return name, str(number)
            return name, device if number <= 1 else f"{device}:{number}"

        loops: list[ElementId] = []
        # Most dumps tell a cable from both ends.
        once = dict.fromkeys(
            link if link[:2] <= link[2:] else (link[2], link[3], link[0], link[1]) for link in self.links
        )
        for guid, number, far, far_number in once:
            first, second = named(guid, number), named(far, far_number)
            if first is None or second is None or said.link(first, second) is None:
                continue
            one, other = said.ports[first], said.ports[second]
            one.speed_gbps = one.speed_gbps or other.speed_gbps
            other.speed_gbps = other.speed_gbps or one.speed_gbps
            one.link_layer = other.link_layer = "IB"
            if first[0] == second[0]:
                loops.append(ElementId.link(*first, *second))
        said.findings += [
            Finding(
                check="cable-loop",
                status=Status.WARN,
                where=loop,
                what="the cable leads back to the node that it comes from: it carries no traffic between nodes",
                fix="plug it where it belongs, or take it out",
            )
            for loop in loops
        ]
