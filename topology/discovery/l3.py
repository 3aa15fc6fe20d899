"""Layer-3 discovery: captures of hosts and Linux routers to one Fabric and its Routing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.capture import HostCapture
from topology.discovery.cables import Cabling, cabling
from topology.discovery.fib import Fib, Hop, read_fib, read_hash
from topology.discovery.interfaces import NodeView, view
from topology.discovery.rails import rails_of
from topology.ecmp import HashSpec
from topology.fabric import Fabric, LinkState, NodeKind
from topology.routing import NextHops, Routing

_HOW = "subnets of two, neighbour tables and forwarding tables of the kernel"


@dataclass(frozen=True)
class Discovery:
    """What was discovered.

    Attributes:
        fabric: the fabric.
        routing: its forwarding state.
        findings: what could not be read, and sources that disagree.
        dropped: element -> why it is not part of the fabric.
        reasons: element -> how a value of it (rail, speed, state, hash, role) was learned.
    """

    fabric: Fabric
    routing: Routing
    findings: tuple[Finding, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)


def build(captures: Sequence[HostCapture]) -> Discovery:
    """Fabric and routing of captured nodes; rows keep the order of the captures.

    Raises:
        InputError: no capture, a node captured twice, or a capture that cannot be read; names the host.
    """
    if not captures:
        raise InputError("discovery needs the capture of at least one node")
    twice = {
        capture.host for capture in captures if sum(other.host == capture.host for other in captures) > 1
    }
    if twice:
        raise InputError(f"{min(twice)}: captured more than once; leave one capture per node")
    views = [view(capture) for capture in captures]
    cables = cabling(views)
    reasons: dict[str, str] = {}
    fabric = _fabric(views, cables, reasons)
    routers = [capture for capture in captures if capture.role == "switch"]
    fibs = [read_fib(capture) for capture in routers]
    hashes: dict[str, HashSpec] = {}
    for capture in routers:
        spec, why = read_hash(capture)
        reasons[ElementId.switch(capture.host)] = f"hash {'known' if spec else 'not known'}: {why}"
        if spec:
            hashes[capture.host] = spec
    routing, findings = routing_of(fabric, fibs, hashes)
    findings += [*_speed_findings(views, fabric), *_cable_findings(views, cables)]
    return Discovery(fabric, routing, tuple(findings), _dropped(views), reasons)


def _fabric(views: Sequence[NodeView], cables: Cabling, reasons: dict[str, str]) -> Fabric:
    builder = FabricBuilder()
    chosen = {cable.a: cable.address_a for cable in cables.cables}
    chosen |= {cable.b: cable.address_b for cable in cables.cables}
    rails = rails_of(
        {node.host: [one.name for one in node.interfaces] for node in views if node.role == "host"}
    )
    for node in views:
        builder.node(node.host, NodeKind.HOST if node.role == "host" else NodeKind.SWITCH)
        for one in node.interfaces:
            rail, rail_reason = rails.get((node.host, one.name), (-1, ""))
            address = chosen.get((node.host, one.name), one.addresses[0].ip)
            builder.port(
                node.host, one.name, speed_gbps=one.speed_gbps, rail=rail, address=str(address), mtu=one.mtu
            )
            notes = [rail_reason, f"speed: {one.speed_reason}"]
            reasons[_port(node, one.name)] = "; ".join(note for note in notes if note)
    for cable in cables.cables:
        down = [
            f"{end[0]}:{end[1]} {why}"
            for end, why in ((cable.a, cable.down_a), (cable.b, cable.down_b))
            if why
        ]
        builder.link(cable.a, cable.b, state=LinkState.DOWN if down else LinkState.UP)
        if down:
            reasons[ElementId.link(*cable.a, *cable.b)] = ", ".join(down)
    hosts = sum(node.role == "host" for node in views)
    return builder.build([f"live layer 3: {hosts} hosts and {len(views) - hosts} routers; {_HOW}"])


def routing_of(
    fabric: Fabric, fibs: Sequence[Fib], hashes: Mapping[str, HashSpec]
) -> tuple[Routing, list[Finding]]:
    """Routing out of forwarding tables, and findings about routers whose table is not followed in full."""
    findings: list[Finding] = []
    known = {fabric.node_row(name): spec for name, spec in hashes.items()}
    is_nic = fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST
    nics = [int(port) for port in np.flatnonzero(is_nic & (fabric.link_of_port >= 0))]
    leaf = {port: fabric.leaf_of(port) for port in nics}
    numbers = {port: int(IPv4Address(fabric.ports.address[port])) for port in nics}
    found: list[dict[int, NextHops]] = []
    for fib in fibs:
        row = fabric.node_row(fib.host)
        hops_of = _Translator(fabric, row)
        towards: dict[int, NextHops] = {}
        for port in nics:
            if leaf[port] == row:
                continue
            entry = fib.lookup(numbers[port])
            hops = hops_of(entry.hops, shared=entry.shared) if entry else None
            if hops is not None:
                towards[port] = hops
        found.append(towards)
        if fib.unfollowed:
            hops_of.doubts.append(f"policy rules are not followed: {'; '.join(fib.unfollowed)}")
        if hops_of.doubts:
            known.pop(row, None)
            findings.append(_doubt(fib.host, hops_of.doubts))
    group = np.full(len(fabric.ports.name), -1, dtype=np.int64)
    groups: dict[tuple[object, ...], int] = {}
    table: dict[tuple[int, int], NextHops] = {}
    rows = [fabric.node_row(fib.host) for fib in fibs]
    for port in nics:
        key = (leaf[port], *(towards.get(port) for towards in found))
        group[port] = groups.setdefault(key, len(groups))
        table |= {
            (row, int(group[port])): towards[port]
            for row, towards in zip(rows, found, strict=True)
            if port in towards
        }
    return Routing(fabric, group, table, known, "FIB"), findings


class _Translator:
    """Next hops of one router to directed links; `doubts` collects why its hash cannot be followed."""

    def __init__(self, fabric: Fabric, row: int) -> None:
        self._fabric = fabric
        self._ports = {
            fabric.ports.name[int(port)]: int(port) for port in np.flatnonzero(fabric.ports.node == row)
        }
        self._done: dict[tuple[Hop, ...], NextHops | None] = {}
        self.doubts: list[str] = []

    def __call__(self, hops: tuple[Hop, ...], *, shared: bool) -> NextHops | None:
        if hops not in self._done:
            self._done[hops] = self._translate(hops, shared=shared)
        return self._done[hops]

    def _translate(self, hops: tuple[Hop, ...], *, shared: bool) -> NextHops | None:
        links, weights = [], []
        for hop in hops:
            port = self._ports.get(hop.device, -1)
            link = int(self._fabric.out_of_port[port]) if port >= 0 else -1
            if link < 0:
                self.doubts.append(
                    f"next hop {hop.gateway or ''} dev {hop.device} leads out of the known cables"
                )
                continue
            far = self._fabric.ports.address[int(self._fabric.directed_ports[link, 1])]
            if hop.gateway is not None and str(hop.gateway) != far:
                self.doubts.append(
                    f"next hop {hop.gateway} dev {hop.device} is not the cable's other end {far}"
                )
            links.append(link)
            weights.append(hop.weight)
        if shared and len(links) > 1:
            self.doubts.append("a nexthop object shares its next hops: its hash may be resilient")
        return NextHops(tuple(links), tuple(weights)) if links else None


def _doubt(host: str, doubts: list[str]) -> Finding:
    return Finding(
        check="routing-followed",
        status=Status.UNKNOWN,
        where=ElementId.switch(host),
        what=f"its forwarding is not known in full: {'; '.join(dict.fromkeys(doubts))[:500]}",
        evidence={"reasons": list(dict.fromkeys(doubts))},
        required=False,
        fix="capture the nodes behind these next hops, or learn the paths by probing",
    )


def _port(node: NodeView, name: str) -> ElementId:
    return ElementId.nic(node.host, name) if node.role == "host" else ElementId.port(node.host, name)


def _dropped(views: Sequence[NodeView]) -> dict[str, str]:
    return {_port(node, name): why for node in views for name, why in node.dropped.items()}


def _speed_findings(views: Sequence[NodeView], fabric: Fabric) -> list[Finding]:
    findings = []
    for node in views:
        unknown = [one for one in node.interfaces if one.speed_gbps == 0]
        if unknown:
            why = node.speed_unknown or unknown[0].speed_reason
            findings.append(
                Finding(
                    check="port-speed",
                    status=Status.UNKNOWN,
                    where=fabric.node_element(fabric.node_row(node.host)),
                    what=f"nominal speed of {len(unknown)} of {len(node.interfaces)} ports is not known: {why}",
                    evidence={"ports": [one.name for one in unknown], "reason": why},
                    fix="install iproute2's tc on the node, or give the speeds of the ports",
                )
            )
    return findings


def _cable_findings(views: Sequence[NodeView], cables: Cabling) -> list[Finding]:
    nodes = {node.host: node for node in views}
    findings = [
        Finding(
            check="cable-sources",
            status=Status.WARN,
            where=_port(nodes[conflict.end[0]], conflict.end[1]),
            what=conflict.what,
            evidence=dict(conflict.evidence),
            fix="look for an address used twice or a cable moved since; clear the neighbour table and discover again",
        )
        for conflict in cables.conflicts
    ]
    if cables.alone:
        ports = {_port(nodes[host], name): why for (host, name), why in cables.alone.items()}
        first = next(iter(ports))
        findings.append(
            Finding(
                check="cable-coverage",
                status=Status.UNKNOWN,
                where=first if len(ports) == 1 else ElementId.fabric(),
                what=f"{len(ports)} ports have no known far end; {first}: {ports[first]}",
                evidence={"ports": dict(ports)},
                required=False,
                fix="capture the nodes at the far ends too, or look whether the ports are cabled",
            )
        )
    return findings
