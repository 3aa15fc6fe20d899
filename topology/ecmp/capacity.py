"""What a switch's next hops can carry towards each destination, and what its weights make of that.

After a failure further on, next hops that are still equal in the table are not equal any more: the flows on the weak one
set the pace. Capacity towards a group: through each neighbour the lesser of the cables to it and of what lies behind it,
which its cables share.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from topology.fabric import NodeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.routing import Routing

    Floats = NDArray[np.float64]

_HOPS = 32
_FINEST = 64
"""Largest weight that is proposed: hardware tables are short."""


@dataclass(frozen=True)
class Mismatch:
    """A next-hop set whose weights do not fit what its next hops can carry.

    Attributes:
        node: switch row.
        target: a switch that the traffic goes to.
        links: directed links.
        weights: as they are.
        fitting: as they should be; 0 for a next hop that leads nowhere.
        loss: part of the set's capacity that cannot be used.
    """

    node: int
    target: int
    links: tuple[int, ...]
    weights: tuple[int, ...]
    fitting: tuple[int, ...]
    loss: float


def mismatches(routing: Routing, least: float) -> list[Mismatch]:
    """Of every switch the set that loses most, where that is `least` or more."""
    fabric, hops, choices = routing.fabric, routing.hops, routing.choices
    speeds = fabric.directed_gbps
    if np.any(speeds[np.repeat(fabric.links.state > 0, 2)] == 0):
        # Some speed is not known: cables count alike.
        speeds = np.repeat(fabric.links.state > 0, 2).astype(np.float64)
    nodes = np.flatnonzero(fabric.nodes.kind == NodeKind.SWITCH)
    first_slot = np.flatnonzero(hops.first == np.arange(len(hops.link)) - np.repeat(hops.offset, hops.total))
    weight = hops.width[first_slot]
    share = weight / np.repeat(hops.total, choices.size)
    cabled = _to_neighbour(routing, speeds)
    ends = _ends(routing)
    worst: dict[int, Mismatch] = {}
    for column, leaves in ends.items():
        chosen = hops.sets(nodes, np.full(len(nodes), column)).astype(np.int64)
        capacity = np.zeros(len(fabric.nodes.name))
        capacity[leaves] = np.inf
        used = np.unique(chosen[(chosen >= 0) & ~np.isin(nodes, leaves)])
        if not len(used):
            continue
        for _ in range(_HOPS):
            behind = capacity[hops.node_after[choices.link]]
            through = speeds[choices.link] * np.minimum(1.0, behind / cabled)
            total = np.add.reduceat(through, choices.first)
            after = np.where(chosen >= 0, total[chosen], 0.0)
            after[np.isin(nodes, leaves)] = np.inf
            if np.array_equal(after, capacity[nodes]):
                break
            capacity[nodes] = after
        rate = np.minimum.reduceat(through / share, choices.first)
        loss = 1 - np.divide(rate, total, out=np.ones_like(total), where=total > 0)
        for number in used[(loss[used] >= least) & (total[used] > 0)].tolist():
            node = int(nodes[np.argmax(chosen == number)])
            if node in worst and worst[node].loss >= loss[number]:
                continue
            part = slice(int(choices.first[number]), int(choices.first[number] + choices.size[number]))
            worst[node] = Mismatch(
                node=node,
                target=leaves[0],
                links=tuple(choices.link[part].tolist()),
                weights=tuple(weight[part].astype(np.int64).tolist()),
                fitting=_whole(through[part]),
                loss=float(loss[number]),
            )
    return sorted(worst.values(), key=lambda found: -found.loss)


def _to_neighbour(routing: Routing, speeds: Floats) -> Floats:
    """Speed of all cables from a set's switch to the same neighbour, for each next hop of `Routing.choices`; above 0."""
    choices = routing.choices
    set_of = np.repeat(np.arange(len(choices.size)), choices.size)
    bundle = set_of * len(routing.fabric.nodes.name) + routing.hops.node_after[choices.link]
    index = np.unique(bundle, return_inverse=True)[1]
    total = np.bincount(index, speeds[choices.link])[index]
    found: Floats = np.where(total > 0, total, 1.0)
    return found


def _ends(routing: Routing) -> dict[int, list[int]]:
    """Column of the table -> switches that its group's NICs are cabled to."""
    found: dict[int, set[int]] = {}
    for port in np.flatnonzero(routing.group >= 0).tolist():
        leaf = routing.fabric.leaf_of(port)
        if leaf is not None:
            found.setdefault(int(routing.hops.column[port]), set()).add(leaf)
    return {column: sorted(leaves) for column, leaves in found.items()}


def _whole(speeds: Floats) -> tuple[int, ...]:
    """Small whole numbers in the ratio of some speeds."""
    parts = [Fraction(speed / speeds.max()).limit_denominator(_FINEST) for speed in speeds.tolist()]
    common = 1
    for part in parts:
        common = common * part.denominator // gcd(common, part.denominator)
    found = [int(part * common) for part in parts]
    shared = gcd(*found) or 1
    return tuple(number // shared for number in found)
