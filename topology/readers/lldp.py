"""LLDP: what one port heard of its neighbour, and how that is said of a fabric; shared by the tools that print it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from topology.columns import NodeKind
from topology.naming import element_name
from topology.readers.ethernet import UnnamedNeighbor, kind_by_port, kind_of, mac, media_gbps, port_name

if TYPE_CHECKING:
    from topology.readers.said import End, Said
    from topology.readers.source import Source


MAX_NEIGHBOURS = 100_000
"""More in one file are refused: 4,096 hosts with 8 NICs and their leaves tell of 65,536."""


@dataclass(frozen=True)
class Station:
    """Who somebody is: system name (empty: not told), chassis MAC, description, enabled capabilities in lower case."""

    name: str = ""
    chassis: str = ""
    description: str = ""
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Heard:
    """One neighbour on one port, or, in a description of a node itself, one of its own ports.

    Attributes:
        port: the local port.
        station: who is told of.
        id_type: kind of the port identifier: `ifname`, `mac`, `local`, ...
        id, description: port identifier and port description.
        media: media type in operation, `25GbaseSR - ...`; empty where not told.
        negotiates: whether the port can negotiate at all; None where not told.
        lag: aggregation group of the neighbour's port; -1 none.
    """

    port: str
    station: Station
    id_type: str = ""
    id: str = ""
    description: str = ""
    media: str = ""
    negotiates: bool | None = None
    lag: int = -1

    @property
    def far_port(self) -> str:
        """The best name of the port that is told of, empty where there is none.

        An interface's name is best. A MAC or a number that only the system itself understands (Juniper's `514`) gives
        way to a description in one word, which is the interface's name unless somebody wrote another.
        """
        word = port_name(self.description) if len(self.description.split()) == 1 else ""
        speaks = self.id_type != "mac" and not mac(self.id) and not self.id.strip().isdigit()
        return (port_name(self.id) if speaks else "") or word or port_name(self.id)

    @property
    def address(self) -> str:
        """MAC of the port that is told of, empty where the port identifier is none."""
        return mac(self.id)

    @property
    def speed_gbps(self) -> float:
        """Rate of the cable by its media type; 0 where not told.

        Twisted pair cannot run at 1 Gbit/s or more without negotiation (IEEE 802.3, clause 28): a port that claims so
        is a virtual one, for which lldpd prints `10GbaseT` whatever it carries.
        """
        word = self.media.split(" ", 1)[0].upper().removesuffix("FD").removesuffix("HD")
        return 0.0 if word.endswith("T") and self.negotiates is False else media_gbps(self.media)


@dataclass
class Neighbourhood:
    """Says neighbours of a `Said` as they come; `finish` once at the end finds those without a name by their MAC."""

    said: Said
    _unnamed: list[tuple[End, Heard]] = field(default_factory=list)
    _nameless: list[tuple[End, str]] = field(default_factory=list)
    _by_mac: dict[str, End] = field(default_factory=dict)
    _leading_to_hosts: set[str] = field(default_factory=set)
    _own: dict[str, Station] = field(default_factory=dict)
    _heard: int = 0

    def own(self, node: str, station: Station) -> None:
        """Say what a node tells of itself."""
        self.said.node(node, guid=station.chassis)
        self._own.setdefault(node, station)

    def own_port(self, node: str, heard: Heard) -> None:
        """Say one of a node's own ports."""
        port = port_name(heard.port)
        if port:
            self.said.port(node, port, link_layer="Ethernet", guid=heard.address)
            self._know(heard.address, (node, port))

    def neighbour(self, node: str, heard: Heard) -> None:
        """Say a cable from what a node heard on one of its ports.

        Raises:
            InputError: more neighbours than one file can sensibly hold.
        """
        self._heard += 1
        if self._heard > MAX_NEIGHBOURS:
            raise InputError(
                f"is one of more than {MAX_NEIGHBOURS:,} in one file; give fewer nodes in a file"
            )
        port = port_name(heard.port)
        if not port:
            return
        if not heard.station.name or mac(heard.station.name):
            self._unnamed.append(((node, port), heard))
            return
        far_node, far_port = element_name(heard.station.name), heard.far_port
        if not far_port:
            self.said.port(node, port, link_layer="Ethernet")
            self.said.node(far_node, guid=heard.station.chassis)
            self._nameless.append(((node, port), far_node))
            return
        kind = kind_of(heard.station.capabilities, heard.station.description, far_port)
        self.said.node(far_node, kind, guid=heard.station.chassis)
        if kind is NodeKind.HOST:
            self._leading_to_hosts.add(node)
        address = heard.address if heard.address != far_port else ""
        self.said.port(far_node, far_port, link_layer="Ethernet", guid=address, lag=heard.lag)
        self._cable((node, port), (far_node, far_port), heard)
        self._know(heard.address, (far_node, far_port))

    def finish(self) -> None:
        """Find neighbours without a name by their MAC; leave out the others; settle what the nodes are."""
        for (node, port), heard in self._unnamed:
            far = self._by_mac.get(heard.address) or self._by_mac.get(heard.station.chassis)
            if far is not None and far[0] != node:
                self._cable((node, port), far, heard)
                continue
            addresses = [heard.station.chassis or mac(heard.station.name), heard.address]
            self.said.events.append(UnnamedNeighbor(node, port, *addresses))
            self.said.port(node, port, link_layer="Ethernet")
            name = next((address for address in addresses if address), f"neighbour of {node} {port}")
            self.said.dropped[ElementId.host(element_name(name))] = (
                f"tells no system name on {node}:{port}, as a NIC's firmware does (DCBX); run lldpd on it"
            )
        ports: dict[str, list[str]] = {}
        for node, port in self.said.ports:
            ports.setdefault(node, []).append(port)
        for node, names in ports.items():
            if self.said.nodes[node].kind is None:
                self.said.node(node, self._kind_by_ports(node, names))

        for (node, port), far_node in self._nameless:
            self.said.findings.append(unnamed_far_port(self.said, node, port, far_node))

    def _kind_by_ports(self, node: str, ports: list[str]) -> NodeKind | None:
        """What a node is that only tells of itself or heard others: a switch may have a NIC's `eth0` too."""
        kinds = {kind_by_port(port): port for port in reversed(ports)}
        telling = next((kinds[kind] for kind in (NodeKind.SWITCH, None, NodeKind.HOST) if kind in kinds), "")
        if node in self._own:
            station = self._own[node]
            return kind_of(station.capabilities, station.description, telling)
        return NodeKind.SWITCH if node in self._leading_to_hosts else kind_by_port(telling)

    def _cable(self, near: End, far: End, heard: Heard) -> None:
        for node, port in (near, far):
            self.said.port(node, port, link_layer="Ethernet", speed_gbps=heard.speed_gbps)
        self.said.link(near, far)

    def _know(self, address: str, end: End) -> None:
        if address:
            self._by_mac.setdefault(address, end)


def unnamed_far_port(said: Said, node: str, port: str, far_node: str) -> Finding:
    """Says that a cable was left out, because its other end has no name."""
    host = said.nodes[node].kind is NodeKind.HOST
    return Finding(
        check="lldp-neighbor",
        status=Status.UNKNOWN,
        where=ElementId.nic(node, port) if host else ElementId.port(node, port),
        what=f"leads to {far_node}, whose port has no name: the cable is left out",
        required=False,
        fix=f"give the output of {far_node} too",
    )


_SUFFIXES = re.compile(
    r"(?:[.](?:json0?|txt|out|log|kv|keyvalue|lldp(?:cli|ctl)?|neighbou?rs(?:-details?)?|chassis|details?|interfaces|eos|eapi|config_db))+$",
    re.IGNORECASE,
)


def host_of_file(source: Source) -> str:
    """The node whose output a file holds, by the file's name: `h0` of `captures/h0.json0`.

    Raises:
        InputError: the input has no file name.
    """
    stem = _SUFFIXES.sub("", PurePath(source.name).name)
    if source.name.startswith(("-", "<")) or not stem.strip("_: \t"):
        raise source.error("does not say which node printed it: name the file after the node (NODE.json)")
    return element_name(stem)
