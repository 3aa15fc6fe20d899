"""`Said`: what one or several sources say of a cluster, by name and in parts, before it becomes a `Fabric`.

Sources overlap and have holes: LLDP tells a cable from both ends, a scheduler's file has no ports, a host knows its
GPUs and nothing behind its NICs. So everything may be said any number of times: what was unknown is filled in, what
contradicts is kept out and becomes a finding, and each element remembers who spoke of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.wording import UNPRINTABLE
from topology.builder import FabricBuilder
from topology.columns import LinkState, NodeKind
from topology.readers.wording import attribute_words, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from topology.fabric import Fabric

MAX_CONFLICTS = 1000
"""As many different contradictions are listed; more say nothing new about the sources."""

End = tuple[str, str]
"""(node, port)."""


# What `ElementId` can name, and text that can be shown: no longer than a name may be.
_NODE = re.compile(rf"(?:(?!--)[^/:\s{UNPRINTABLE}]){{1,1000}}")
_PORT = re.compile(rf"(?:(?!--)[^\s{UNPRINTABLE}]){{1,1000}}")
_NUMBERS = (int, float)
_LARGEST = 2.0**62


@dataclass(slots=True)
class NodeSaid:
    """A node; empty, -1 or None is not known. `guid` is its hardware identity, `nvl_domain` any name of the domain."""

    kind: NodeKind | None = None
    tier: int = -1
    nvl_domain: str = ""
    guid: str = ""
    sources: frozenset[str] = frozenset()


@dataclass(slots=True)
class PortSaid:
    """A port; empty, -1 or 0 is not known. `link_layer` is `IB` or `Ethernet`, `state` as its device tells it."""

    speed_gbps: float = 0.0
    rail: int = -1
    plane: int = -1
    lag: int = -1
    address: str = ""
    mtu: int = 0
    guid: str = ""
    lid: int = 0
    subnet: str = ""
    link_layer: str = ""
    state: LinkState | None = None
    sources: frozenset[str] = frozenset()


@dataclass(slots=True)
class LinkSaid:
    """A cable; its ends are its key, in ascending order; `turned`: a `Fabric` that it came from has the second first."""

    state: LinkState | None = None
    delay_ns: float = 0.0
    turned: bool = False
    sources: frozenset[str] = frozenset()


@dataclass(slots=True)
class GpuSaid:
    """An accelerator of a host; `nics` are the nearest NICs by name, best first."""

    numa: int = -1
    nics: tuple[str, ...] = ()
    bus: str = ""
    sources: frozenset[str] = frozenset()


@dataclass
class Said:
    """What is said of a cluster.

    Attributes:
        source: name of the input, as in errors.
        format: name of the reader that understood it.
        nodes, ports, links, gpus: by name, by (node, port), by the two ends in order, by (host, index).
        forwarding: InfiniBand forwarding: switch -> LID -> number of the port out.
        events: what is no part of a fabric: lines of an NCCL log, rings, link types between devices.
        dropped: element -> why it was left out.
        findings: contradictions and what could not be used.
        logical: a scheduler's tree: who is near whom, but no real ports, counts or speeds of cables.
    """

    source: str
    format: str
    nodes: dict[str, NodeSaid] = field(default_factory=dict)
    ports: dict[End, PortSaid] = field(default_factory=dict)
    links: dict[tuple[End, End], LinkSaid] = field(default_factory=dict)
    gpus: dict[tuple[str, int], GpuSaid] = field(default_factory=dict)
    forwarding: dict[str, dict[int, int]] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    logical: bool = False
    _far: dict[End, End] = field(default_factory=dict, repr=False)
    _conflicts: set[tuple[str, str, str]] = field(default_factory=set, repr=False)

    @classmethod
    def from_fabric(cls, fabric: Fabric, source: str, format_name: str) -> Said:
        """All that a fabric holds: `to_fabric` gives it back, in the same order of rows.

        Args:
            fabric: what is said.
            source: name of the input; elements of the fabric that name no source get it.
            format_name: name of its reader.

        Raises:
            InputError: names that no element can have, an accelerator twice, one whose NIC is another host's.
        """
        said = cls(source, format_name)
        sources = [frozenset(line.split(" + ")) for line in fabric.provenance] + [frozenset((source,))]
        nodes, ports, links, gpus = fabric.nodes, fabric.ports, fabric.links, fabric.gpus
        for row, name in enumerate(nodes.name):
            if _NODE.fullmatch(name) is None:
                raise InputError(f"{name[:40]!r} cannot be the name of a node")
            domain, kind = int(nodes.nvl_domain[row]), int(nodes.kind[row])
            if kind not in (NodeKind.HOST, NodeKind.SWITCH):
                raise InputError(f"{name} is of kind {kind}, which is neither host (0) nor switch (1)")
            said.nodes[name] = NodeSaid(
                NodeKind(kind),
                int(nodes.tier[row]),
                str(domain) if domain >= 0 else "",
                nodes.guid[row],
                sources[nodes.source[row]],
            )
        ends = [(nodes.name[node], port) for node, port in zip(ports.node.tolist(), ports.name, strict=True)]
        for row, (node, port) in enumerate(ends):
            if _PORT.fullmatch(port) is None:
                raise InputError(f"{port[:40]!r} cannot be the name of a port of {node}")
            said.ports[node, port] = PortSaid(
                float(ports.speed_gbps[row]),
                int(ports.rail[row]),
                int(ports.plane[row]),
                int(ports.lag[row]),
                ports.address[row],
                int(ports.mtu[row]),
                ports.guid[row],
                sources=sources[ports.source[row]],
            )
        for row in range(len(links.port_a)):
            a, b = ends[links.port_a[row]], ends[links.port_b[row]]
            said._far[a], said._far[b] = b, a
            said.links[(a, b) if a <= b else (b, a)] = LinkSaid(
                LinkState.UP if links.state[row] else LinkState.DOWN,
                float(links.delay_ns[row]),
                a > b,
                sources[links.source[row]],
            )
        for row, (node_row, index) in enumerate(zip(gpus.host.tolist(), gpus.index.tolist(), strict=True)):
            host, nic = nodes.name[node_row], int(gpus.nic[row])
            if (host, index) in said.gpus or (nic >= 0 and ends[nic][0] != host):
                raise InputError(f"accelerator {index} of {host} appears twice, or its NIC is another host's")
            said.gpus[host, index] = GpuSaid(
                int(gpus.numa[row]), (ends[nic][1],) if nic >= 0 else (), sources=sources[gpus.source[row]]
            )
        return said

    def node(self, name: str, kind: NodeKind | None = None, **known: Any) -> NodeSaid:
        """Say something of a node: attributes of `NodeSaid`.

        Raises:
            InputError: a name that no element can have, a number beyond all measure. So in every method here.
        """
        said = self.nodes.get(name)
        if said is None:
            if _NODE.fullmatch(name) is None:
                raise InputError(f"{name[:40]!r} cannot be the name of a node")
            said = self.nodes[name] = NodeSaid()
        self._say(said, lambda: _element(self.nodes, name), kind=kind, **known)
        return said

    def port(self, node: str, name: str, **known: Any) -> PortSaid:
        """Say something of a port: attributes of `PortSaid`; its node is added when it is not there."""
        if node not in self.nodes:
            self.node(node)
        said = self.ports.get((node, name))
        if said is None:
            if _PORT.fullmatch(name) is None:
                raise InputError(f"{name[:40]!r} cannot be the name of a port of {node}")
            said = self.ports[node, name] = PortSaid()
        self._say(said, lambda: _element(self.nodes, node, name), **known)
        return said

    def link(self, a: End, b: End, **known: Any) -> LinkSaid | None:
        """Say that two ports are cabled together: attributes of `LinkSaid`.

        A port that is cabled to itself, or to a second port, is a contradiction: the first cable stays.
        """
        for node, port in (a, b):
            if (node, port) not in self.ports:
                self.port(node, port)
        key = (a, b) if a <= b else (b, a)
        said = self.links.get(key)
        if said is None:
            for end, other in ((a, b), (b, a)):
                far = self._far.get(end)
                if a == b or (far is not None and far != other):
                    has = "itself" if a == b else f"{far[0]}:{far[1]}" if far else ""
                    self._contradiction(
                        _element(self.nodes, *end), "cable", has, f"{other[0]}:{other[1]}", (self.source,)
                    )
                    return None
            self._far[a], self._far[b] = b, a
            said = self.links[key] = LinkSaid()
        self._say(said, lambda: ElementId.link(*a, *b), **known)
        return said

    def gpu(self, host: str, index: int, **known: Any) -> GpuSaid:
        """Say something of an accelerator: attributes of `GpuSaid`; its host is added when it is not there."""
        if host not in self.nodes:
            self.node(host, NodeKind.HOST)
        said = self.gpus.get((host, index))
        if said is None:
            if not 0 <= index < _LARGEST:
                raise InputError(f"{host} has no accelerator {str(index)[:30]}")
            said = self.gpus[host, index] = GpuSaid()
        self._say(said, lambda: ElementId.gpu(host, index), **known)
        return said

    def far(self, end: End) -> End | None:
        """The port at the other end of a port's cable."""
        return self._far.get(end)

    def drop(self, node: str, why: str, port: str | None = None) -> None:
        """Leave out a node with its ports, or one port, and the cables on it; the reason is kept."""
        if port is None:
            self.drop_nodes({node: why})
        else:
            self.dropped[str(_element(self.nodes, node, port))] = why
            self._forget((node, port))

    def drop_nodes(self, why: Mapping[str, str]) -> None:
        """Leave out many nodes at once: node -> the reason."""
        for end in [end for end in self.ports if end[0] in why]:
            self._forget(end)
        for key in [key for key in self.gpus if key[0] in why]:
            del self.gpus[key]
        for node, reason in why.items():
            self.dropped[str(_element(self.nodes, node))] = reason
            self.nodes.pop(node, None)

    def _forget(self, end: End) -> None:
        self.ports.pop(end, None)
        other = self._far.pop(end, None)
        if other is not None:
            self._far.pop(other, None)
            self.links.pop((end, other) if end <= other else (other, end), None)

    def _say(self, said: Any, element: Callable[[], ElementId], **known: Any) -> None:
        sources = known.pop("sources", None) or frozenset((self.source,))
        unknown = _UNKNOWN[type(said)]
        for attribute, value in known.items():
            if value == unknown[attribute]:
                continue
            if type(value) in _NUMBERS and not -_LARGEST < value < _LARGEST:
                raise InputError(f"{attribute.replace('_', ' ')} of {element()} is {str(value)[:30]}")
            before = getattr(said, attribute)
            if before == unknown[attribute]:
                setattr(said, attribute, value)
            elif before != value:
                self._contradiction(element(), attribute, before, value, sources, said.sources)
        if not sources <= said.sources:
            said.sources |= sources

    def _contradiction(
        self,
        where: ElementId,
        what: str,
        first: Any,
        second: Any,
        by: Iterable[str],
        before: Iterable[str] = (),
    ) -> None:
        key = (where, what, str(second))
        if key in self._conflicts or len(self._conflicts) > MAX_CONFLICTS:
            return
        self._conflicts.add(key)
        if len(self._conflicts) > MAX_CONFLICTS:
            self.findings.append(
                Finding(
                    check="source-conflict",
                    status=Status.WARN,
                    where=ElementId.fabric(),
                    what=f"more than {MAX_CONFLICTS} contradictions: the others are not listed",
                    fix="give sources that describe the same cluster at the same time",
                )
            )
            return
        who = f" in {', '.join(sorted(before))}" if before else ""
        self.findings.append(
            Finding(
                check="source-conflict",
                status=Status.WARN,
                where=where,
                what=f"{attribute_words(what)} is {shown(first)}{who}, "
                f"but {shown(second)} in {', '.join(sorted(by))}; the first is kept",
                evidence={"attribute": what, "kept": shown(first), "other": shown(second)},
                fix="leave out the source that is out of date, or give the trusted one first",
            )
        )

    def to_fabric(self) -> Fabric:
        """Freeze into a `Fabric`; a node whose kind nobody told is a host.

        Raises:
            InputError: what `Fabric` refuses.
        """
        builder = FabricBuilder()
        rows: dict[frozenset[str], int] = {}
        domains = _numbers(node.nvl_domain for node in self.nodes.values())
        for name, node in self.nodes.items():
            builder.node(
                name,
                NodeKind.HOST if node.kind is None else node.kind,
                tier=node.tier,
                nvl_domain=domains.get(node.nvl_domain, -1),
                guid=node.guid,
                source=rows.setdefault(node.sources, len(rows)),
            )
        for (name, port), said in self.ports.items():
            builder.port(
                name,
                port,
                speed_gbps=said.speed_gbps,
                rail=said.rail,
                plane=said.plane,
                lag=said.lag,
                address=said.address,
                mtu=said.mtu,
                guid=said.guid,
                source=rows.setdefault(said.sources, len(rows)),
            )
        for (a, b), link in self.links.items():
            states = (link.state, self.ports[a].state, self.ports[b].state)
            builder.link(
                *((b, a) if link.turned else (a, b)),
                state=LinkState.DOWN if LinkState.DOWN in states else LinkState.UP,
                delay_ns=link.delay_ns,
                source=rows.setdefault(link.sources, len(rows)),
            )
        for (host, index), gpu in self.gpus.items():
            near = next((nic for nic in gpu.nics if (host, nic) in self.ports), None)
            builder.gpu(host, index, numa=gpu.numa, nic=near, source=rows.setdefault(gpu.sources, len(rows)))
        return builder.build([" + ".join(sorted(sources)) for sources in rows])


_UNKNOWN: dict[type, dict[str, Any]] = {
    kind: {column.name: column.default for column in fields(kind)}
    for kind in (NodeSaid, PortSaid, LinkSaid, GpuSaid)
}
"""The value of each attribute that stands for not known."""


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Numbers of names: those that they are, where all are numbers, else in the order in which they come."""
    known = list(dict.fromkeys(name for name in names if name))
    if all(
        name.isascii() and name.isdecimal() and len(name) < 10 and str(int(name)) == name for name in known
    ):
        return {name: int(name) for name in known}
    return {name: number for number, name in enumerate(known)}


def _element(nodes: dict[str, NodeSaid], node: str, port: str | None = None) -> ElementId:
    host = node in nodes and nodes[node].kind in (NodeKind.HOST, None)
    if port is None:
        return ElementId.host(node) if host else ElementId.switch(node)
    return ElementId.nic(node, port) if host else ElementId.port(node, port)
