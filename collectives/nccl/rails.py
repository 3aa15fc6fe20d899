"""How a fabric's rails are wired, as far as NCCL_CROSS_NIC and PXN depend on it."""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.fabric import Fabric


class Wiring(enum.StrEnum):
    """Where the NICs of a host go."""

    ONE_NIC = "one NIC a host"
    SAME_LEAF = "all NICs of a host on one leaf"
    PER_RAIL = "a leaf for each rail"
    MIXED = "neither"


@dataclass(frozen=True)
class Rails:
    """The wiring, and whether switches connect the leaves of different rails."""

    wiring: Wiring
    joined: bool


def rails_of(fabric: Fabric) -> Rails:
    """Wiring of all hosts; MIXED where they differ or rails are not told."""
    leaves_of: dict[str, list[tuple[int, int]]] = {}
    rails_at: dict[int, set[int]] = defaultdict(set)
    for host in fabric.hosts:
        places = []
        for nic in fabric.nics(host):
            leaf = fabric.leaf_of(nic)
            if leaf is not None:
                rail = int(fabric.ports.rail[nic])
                places.append((rail, leaf))
                rails_at[leaf].add(rail)
        leaves_of[host] = places
    cabled = [places for places in leaves_of.values() if places]
    joined = _all_joined(fabric, set(rails_at))
    if not cabled or all(len(places) == 1 for places in cabled):
        return Rails(Wiring.ONE_NIC, joined)
    if all(len({leaf for _, leaf in places}) == 1 for places in cabled):
        return Rails(Wiring.SAME_LEAF, joined)
    own_leaf = all(len({leaf for _, leaf in places}) == len(places) for places in cabled)
    one_rail = all(len(rails) == 1 and -1 not in rails for rails in rails_at.values())
    return Rails(Wiring.PER_RAIL if own_leaf and one_rail else Wiring.MIXED, joined)


def _all_joined(fabric: Fabric, leaves: set[int]) -> bool:
    """Whether switches alone connect all leaves: hosts forward nothing."""
    if len(leaves) < 2:
        return True
    hosts = {fabric.node_row(host) for host in fabric.hosts}
    near: dict[int, set[int]] = defaultdict(set)
    for port_a, port_b in zip(fabric.links.port_a, fabric.links.port_b, strict=True):
        a, b = int(fabric.ports.node[port_a]), int(fabric.ports.node[port_b])
        if a not in hosts and b not in hosts:
            near[a].add(b)
            near[b].add(a)
    seen = {min(leaves)}
    border = list(seen)
    while border:
        for node in near[border.pop()] - seen:
            seen.add(node)
            border.append(node)
    return leaves <= seen
