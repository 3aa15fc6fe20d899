"""What can be at fault: cables in one or both directions, switches, hosts with several NICs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.fabric import LinkState, NodeKind

if TYPE_CHECKING:
    from nettune.elements import ElementId
    from topology.fabric import Fabric

# Prior weights, before any measurement. A cable, its transceivers and its two ports fail far more often than a whole
# switch; with equal evidence the smaller element is named. A fault of both directions is as likely as one of either.
_BOTH_WAYS, _ONE_WAY, _SWITCH, _HOST = 0.5, 0.25, 0.1, 0.1


@dataclass(frozen=True)
class Candidate:
    """One possible culprit.

    Attributes:
        element: its name.
        links: directed links that suffer when it is at fault.
        one_way: the directed link when only that direction is meant, else None.
        weight: prior weight, relative to the others.
    """

    element: ElementId
    links: frozenset[int]
    one_way: int | None
    weight: float


def find_candidates(fabric: Fabric) -> list[Candidate]:
    """Candidates of a fabric: cables that are up, then switches, then hosts with more than one NIC.

    A host with one NIC is not told apart from its cable by transfers, so only the cable is listed.
    """
    up = [int(row) for row in np.flatnonzero(fabric.links.state == LinkState.UP)]
    found = []
    for cable in up:
        element = fabric.link_element(cable)
        both = frozenset((2 * cable, 2 * cable + 1))
        found.append(Candidate(element, both, None, _BOTH_WAYS))
        found += [Candidate(element, frozenset((way,)), way, _ONE_WAY) for way in sorted(both)]
    touching: dict[int, set[int]] = {}
    for cable in up:
        for port in (fabric.links.port_a[cable], fabric.links.port_b[cable]):
            touching.setdefault(int(fabric.ports.node[port]), set()).update((2 * cable, 2 * cable + 1))
    for node, links in sorted(touching.items()):
        is_host = fabric.nodes.kind[node] == NodeKind.HOST
        if len(links) > 2:
            weight = _HOST if is_host else _SWITCH
            found.append(Candidate(fabric.node_element(node), frozenset(links), None, weight))
    return found
