"""Source ports that send a flow over a wanted path: found by asking the hash, not by hoping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.flows import ProbeFlow
from topology.routing import FlowKey, UnknownPathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.qualify.flows import Alternatives
    from topology.fabric import Fabric
    from topology.routing import Routing

TCP_PORT = 19_701
UDP_PORT = 19_702
_FIRST_PORT = 20_000
_TCP, _UDP = 6, 17
_PORTS_PER_WAY = 3
"""Ports kept for one path: a second and a third where the first is taken or its connection request is lost."""
_UNKNOWN_WAYS = 8
_MOST_LOOKUPS = 24_000
"""Bounds the search to a few seconds; with many pairs, few ports for each still reach every path together."""


@dataclass(frozen=True)
class Pair:
    """Two NICs of different hosts and the flows that can be sent from one to the other, one for each path.

    Where the hash is not known each flow has its own source port and the same alternatives.
    """

    src_port: int
    dst_port: int
    flows: tuple[ProbeFlow, ...]


def find_pairs(
    routing: Routing, wanted: Sequence[tuple[int, int]]
) -> tuple[list[Pair], list[tuple[int, int, str]]]:
    """Pairs with a flow for every path, and (source, target, reason) of those without a route.

    Args:
        routing: where the hash is known on the way, ports are searched for each path; elsewhere ports are just
            different ones.
        wanted: (source, target) port rows.
    """
    pairs: dict[tuple[int, int], Pair] = {}
    refused = []
    searchable: list[tuple[int, int, Alternatives]] = []
    for src, dst in wanted:
        try:
            alternatives = tuple(routing.alternatives(src, dst))
        except UnknownPathError as error:
            refused.append((src, dst, str(error)))
            continue
        if _hash_known(routing, src, dst):
            searchable.append((src, dst, alternatives))
        else:
            pairs[src, dst] = _unknown_pair(routing.fabric, src, dst, alternatives)
    for pair in _search(routing, searchable):
        pairs[pair.src_port, pair.dst_port] = pair
    return [pairs[key] for key in wanted if key in pairs], refused


def nominal_gbps(fabric: Fabric, alternatives: Alternatives) -> float:
    """Speed of the slowest link that a flow may cross; 0 where one is not known."""
    return float(min(fabric.directed_gbps[link] for _, links in alternatives for link in links))


def _hash_known(routing: Routing, src: int, dst: int) -> bool:
    try:
        routing.path(FlowKey(src, dst, _TCP, _FIRST_PORT, TCP_PORT))
    except UnknownPathError:
        return False
    return True


def _unknown_pair(fabric: Fabric, src: int, dst: int, alternatives: Alternatives) -> Pair:
    ways = 1 if len(alternatives) == 1 else _UNKNOWN_WAYS
    speed = nominal_gbps(fabric, alternatives)
    flows = tuple(
        # A datagram's path is another draw of the hash, so its fate tells of this path only where there is one.
        ProbeFlow(
            src,
            dst,
            tuple(range(_FIRST_PORT + way * _PORTS_PER_WAY, _FIRST_PORT + (way + 1) * _PORTS_PER_WAY))
            if ways == 1
            else (_FIRST_PORT + way,),
            (_FIRST_PORT + way,),
            alternatives,
            speed,
        )
        for way in range(ways)
    )
    return Pair(src, dst, flows)


def _search(routing: Routing, pairs: Sequence[tuple[int, int, Alternatives]]) -> list[Pair]:
    if not pairs:
        return []
    keys: list[FlowKey] = []
    counts = []
    for src, dst, alternatives in pairs:
        rarest = min(probability for probability, _ in alternatives)
        # With n draws a path of probability p is missed with exp(-n p); 6 + 3 leaves 1 in 8000 and spares.
        count = 1 if len(alternatives) == 1 else int(np.ceil((6 + _PORTS_PER_WAY) / rarest))
        count = max(min(count, _MOST_LOOKUPS // (2 * len(pairs))), _PORTS_PER_WAY)
        counts.append(count)
        for proto, target in ((_TCP, TCP_PORT), (_UDP, UDP_PORT)):
            keys += [FlowKey(src, dst, proto, _FIRST_PORT + i, target) for i in range(count)]
    paths = iter(routing.paths(keys))
    found = []
    for (src, dst, _), count in zip(pairs, counts, strict=True):
        tcp: dict[tuple[int, ...], list[int]] = {}
        udp: dict[tuple[int, ...], list[int]] = {}
        for table in (tcp, udp):
            for i in range(count):
                ports = table.setdefault(next(paths), [])
                if len(ports) < _PORTS_PER_WAY:
                    ports.append(_FIRST_PORT + i)
        flows = tuple(
            ProbeFlow(
                src,
                dst,
                tuple(ports),
                tuple(udp.get(way, ())),
                ((1.0, way),),
                nominal_gbps(routing.fabric, ((1.0, way),)),
            )
            for way, ports in sorted(tcp.items())
        )
        found.append(Pair(src, dst, flows))
    return found
