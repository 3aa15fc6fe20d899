"""How much of a fabric a drawing shows one by one, and what it puts into one box, so that it stays readable.

Each tier is shown as fine as a bound on boxes and on lines between tiers allows: nodes one by one, else one box per leaf
group, else one per pod, and so on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from topology.columns import NodeKind
from topology.exports.capacity import Bundle, BundleKeys, bundle_keys, bundles, cable_rails
from topology.leafgroups import leaf_groups
from topology.naming import natural_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.fabric import Fabric
    from topology.leafgroups import LeafGroups

MAX_BOXES = 72
"""Boxes in a tier: their names, written upwards, fit side by side."""

MAX_LINES = 300
"""Bundles of cables between tiers: more are a grey surface."""

_RUNS = (4, 16)  # neighbouring clusters of one parent that are drawn together
_WITHOUT_CLUSTER = 2  # a node itself, and all of its tier

Key = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """Nodes that are drawn as one.

    Attributes:
        tier: row of the drawing, 0 for hosts.
        nodes: node rows in natural order.
        group: index of the lowest cluster that they belong to, for gaps between neighbours; -1 none.
    """

    tier: int
    nodes: tuple[int, ...]
    group: int


@dataclass(frozen=True)
class Boxes:
    """What to draw: boxes in order within their tiers, bundles between them, cables that are inside of boxes."""

    boxes: tuple[Box, ...]
    bundles: tuple[Bundle, ...]
    hidden: int


def choose_boxes(fabric: Fabric) -> Boxes:
    """The finest boxes within the bounds."""
    tiers, chains = _chains(fabric, leaf_groups(fabric))
    order = sorted(range(len(tiers)), key=lambda node: _position(fabric, chains, node))
    rows, rails = sorted(set(tiers)), cable_rails(fabric)
    level = dict.fromkeys(rows, 0)
    longest = {tier: max(len(chains[node]) for node, of in enumerate(tiers) if of == tier) for tier in rows}
    while True:
        members: dict[tuple[int, Key], list[int]] = {}
        for node in order:
            chain = chains[node]
            key = chain[min(level[tiers[node]], len(chain) - 1)]
            members.setdefault((tiers[node], key), []).append(node)
        tier_of_box = [tier for tier, _ in members]
        box_of_node = [0] * len(tiers)
        for box, nodes in enumerate(members.values()):
            for node in nodes:
                box_of_node[node] = box
        keys = bundle_keys(fabric, box_of_node, rails)
        worst = _too_many(rows, tier_of_box, keys, level, longest)
        if worst is None:
            break
        level[worst] += 1
    boxes = tuple(Box(tier, tuple(nodes), _group(chains[nodes[0]])) for (tier, _), nodes in members.items())
    hidden = int(np.count_nonzero(~keys.drawn))
    return Boxes(boxes, tuple(bundles(fabric, keys)), hidden)


def _group(chain: Sequence[Key]) -> int:
    """Index of the lowest cluster of a node; -1 when it has only itself and the rest of its tier."""
    return chain[1][1] if len(chain) > _WITHOUT_CLUSTER else -1


def _position(fabric: Fabric, chains: Sequence[Sequence[Key]], node: int) -> tuple[Any, ...]:
    group = _group(chains[node])
    name = fabric.nodes.name[node]
    return (group < 0, group, natural_key(name), name)


def _chains(fabric: Fabric, groups: LeafGroups) -> tuple[list[int], list[list[Key]]]:
    """(tier of each node, its boxes from the finest to the coarsest); nodes of unknown tier stand above all."""
    tiers = fabric.nodes.tier.tolist()
    kinds = fabric.nodes.kind.tolist()
    above = max(tiers, default=0) + 1
    tiers = [
        0 if kind == NodeKind.HOST else tier if tier > 0 else above
        for tier, kind in zip(tiers, kinds, strict=True)
    ]
    parents: list[dict[int, int]] = [
        {child: index for index, cluster in enumerate(level) for child in cluster.below}
        for level in groups.levels[1:]
    ]
    first = [{index: cluster.below[0] for index, cluster in enumerate(level)} for level in groups.levels[1:]]
    chains: list[list[Key]] = [[(-1, node)] for node in range(len(tiers))]
    for height, level in enumerate(groups.levels):
        for index, cluster in enumerate(level):
            up: list[Key] = []
            at, place = height, index
            while True:
                up.append((at, place))
                if at == len(parents):
                    break
                parent = parents[at][place]
                nth = place - first[at][parent]
                # some hundred groups may have one pod above them: runs of them come first
                up += [(at, parent, nth // run, run) for run in _RUNS]
                at, place = at + 1, parent
            for node in (*cluster.switches, *(cluster.hosts if height == 0 else ())):
                chains[node] += up
    for chain in chains:
        chain.append((len(groups.levels), -1))  # all that is left of a tier
    return tiers, chains


def _too_many(
    rows: Sequence[int],
    tier_of_box: Sequence[int],
    keys: BundleKeys,
    level: dict[int, int],
    longest: dict[int, int],
) -> int | None:
    """The tier to draw coarser; None when all is within bounds, or as coarse as it gets."""
    size = Counter(tier_of_box)
    can = [tier for tier in rows if level[tier] < longest[tier] - 1 and size[tier] > 1]
    for tier in can:
        if size[tier] > MAX_BOXES:
            return tier
    tiers = np.array(tier_of_box)
    ends = np.sort(np.stack([tiers[keys.a], tiers[keys.b]]), axis=0)
    pairs, counts = np.unique(ends, axis=1, return_counts=True)
    for (low, high), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        if count > MAX_LINES:
            # spines lose least by being drawn together; of hosts and leaves those of which there are more
            coarser: list[int] = (
                sorted((low, high), key=lambda tier: -size[tier]) if low == 0 else [high, low]
            )
            for tier in coarser:
                if tier in can:
                    return tier
    return None
