"""Several sources about the same things, as one: each is said again under common names, and conflicts become findings.

The order counts: of two contradicting sources the first is kept. A scheduler's tree beside real cables adds none; it is
held against them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from topology.columns import NodeKind
from topology.matching import hardware_key, match, other_style
from topology.readers.ethernet import UnnamedNeighbor
from topology.readers.said import GpuSaid, LinkSaid, NodeSaid, PortSaid, Said
from topology.schedulertree import against_cables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.matching import Matching
    from topology.readers.said import End

_COLUMNS = {
    kind: tuple((column.name, column.default) for column in fields(kind))
    for kind in (NodeSaid, PortSaid, LinkSaid, GpuSaid)
}


def _as_it_is(said: Said) -> Said:
    return said


def merge(sources: Sequence[Said], reduced: Callable[[Said], Said] = _as_it_is) -> Said:
    """What all sources say together; `sources` of each element names all that spoke of it.

    Args:
        sources: at least one; the most trusted first. They are used up: the first may become the result.
        reduced: what is left of the whole (`apply_filters`); schedulers' trees are held against that: on a management
            switch all hosts would be neighbours.
    """
    physical = [said for said in sources if not said.logical]
    if not any(_has_host_cables(said) for said in physical):
        return reduced(_completed(_joined(sources)))
    trees = [said for said in sources if said.logical]
    return against_cables(reduced(_completed(_joined(physical))), trees)


def _has_host_cables(said: Said) -> bool:
    hosts = {name for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH}
    return any(a[0] in hosts or b[0] in hosts for a, b in said.links)


def _joined(sources: Sequence[Said]) -> Said:
    if len(sources) == 1:
        return sources[0]
    matching = match(sources)
    _alias_by_cable(sources, matching)
    result, first = sources[0], 1
    names, ports = matching.nodes[0], matching.ports[0]
    if any(name != own for own, name in names.items()) or any(end != own for own, end in ports.items()):
        result, first = Said("", ""), 0
    name = " + ".join(dict.fromkeys(said.source for said in sources))
    formats = " + ".join(dict.fromkeys(said.format for said in sources))
    for number, said in list(enumerate(sources))[first:]:
        # Contradictions name the source that is being said again.
        result.source = said.source
        _say_again(result, said, matching.nodes[number], matching.ports[number])
    result.source, result.format = name, formats
    result.logical = any(said.logical for said in sources)
    result.findings += matching.findings
    known = _elements(result)
    for element in [element for element in result.dropped if element in known]:
        del result.dropped[element]
    return result


def _say_again(result: Said, said: Said, nodes: Mapping[str, str], ports: Mapping[End, End]) -> None:
    for name, node in said.nodes.items():
        result.node(nodes[name], **_known(node))
    for end, port in said.ports.items():
        result.port(*ports[end], **_known(port))
    for (a, b), link in said.links.items():
        result.link(ports[a], ports[b], **_known(link))
    for (host, index), gpu in said.gpus.items():
        near = tuple(ports.get((host, nic), (host, nic))[1] for nic in gpu.nics)
        result.gpu(nodes[host], index, **_known(gpu) | {"nics": near})
    for switch, table in said.forwarding.items():
        own = result.forwarding.setdefault(nodes.get(switch, switch), {})
        own.update({lid: port for lid, port in table.items() if lid not in own})
    result.events += [
        UnnamedNeighbor(
            *ports.get((event.node, event.port), (event.node, event.port)), event.chassis, event.interface
        )
        if isinstance(event, UnnamedNeighbor)
        else event
        for event in said.events
    ]
    result.findings += said.findings
    result.dropped |= {element: why for element, why in said.dropped.items() if element not in result.dropped}


def _known(said: NodeSaid | PortSaid | LinkSaid | GpuSaid) -> dict[str, Any]:
    return {
        column: value
        for column, unknown in _COLUMNS[type(said)]
        if (value := getattr(said, column)) != unknown
    }


def _alias_by_cable(sources: Sequence[Said], matching: Matching) -> None:
    """One cable, one port: where two sources lead from one port to one node by names that only one of them has.

    A plan may say `rail0` for what the host calls `mlx5_0`; both are cabled to leaf0:5, so they are one.
    """
    cables: dict[End, End] = {}
    named: dict[End, set[int]] = {}
    for number, ports in enumerate(matching.ports):
        for common in ports.values():
            named.setdefault(common, set()).add(number)
    for number, said in enumerate(sources):
        ports = matching.ports[number]
        own_names: dict[End, End] = {}
        for link in said.links:
            for near, far in (link, link[::-1]):
                other = cables.get(ports[near])
                if (
                    other is not None
                    and other != ports[far]
                    and other[0] == ports[far][0]
                    and other_style(other[1], ports[far][1])
                    and named[ports[far]] == {number}
                    and number not in named[other]
                ):
                    own_names[far] = other
        ports.update(own_names)
        for a, b in said.links:
            cables.setdefault(ports[a], ports[b])
            cables.setdefault(ports[b], ports[a])


def _elements(said: Said) -> set[str]:
    hosts = {name for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH}
    names = {f"host/{name}" if name in hosts else f"switch/{name}" for name in said.nodes}
    return names | {
        f"host/{node}/nic/{port}" if node in hosts else f"switch/{node}/port/{port}"
        for node, port in said.ports
    }


def _completed(said: Said) -> Said:
    """What follows from the parts together: neighbours known by MAC only, speeds that one end of a cable told."""
    unnamed = [event for event in said.events if isinstance(event, UnnamedNeighbor)]
    if unnamed:
        _name_neighbours(said, unnamed)
    for a, b in said.links:
        speeds = said.ports[a].speed_gbps, said.ports[b].speed_gbps
        if not all(speeds):
            said.ports[a].speed_gbps = said.ports[b].speed_gbps = max(speeds)
    return said


def _name_neighbours(said: Said, unnamed: Sequence[UnnamedNeighbor]) -> None:
    by_mac: dict[str, set[End]] = {}
    for end, port in said.ports.items():
        if port.guid:
            by_mac.setdefault(hardware_key(port.guid), set()).add(end)
    named: list[UnnamedNeighbor] = []
    for event in unnamed:
        near = (event.node, event.port)
        found = next(
            (by_mac[key] for key in map(hardware_key, (event.interface, event.chassis)) if key in by_mac),
            set(),
        )
        ends = [end for end in found if end[0] != event.node]
        if len(ends) != 1 or near not in said.ports or said.far(near) or said.far(ends[0]):
            continue
        told = said.ports[near].sources | said.ports[ends[0]].sources
        said.link(near, ends[0], sources=told)
        named.append(event)
        for address in (event.chassis, event.interface):
            said.dropped.pop(f"host/{address.replace(':', '_')}", None)
    said.events = [event for event in said.events if event not in named]
