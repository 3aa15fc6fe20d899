"""What drawings say of cables and switches: the rail of a cable, host capacity over uplinks, cables in bundles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.columns import LinkState, NodeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from topology.fabric import Fabric

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bundle:
    """Cables of one rail between two boxes of a drawing.

    Attributes:
        a, b: the boxes, the lower number first.
        rail: -1 none or several.
        count: cables, with those that are down.
        down: cables that are down.
        gbps: nominal speed of one cable, of its slower port; 0 when unknown or mixed.
    """

    a: int
    b: int
    rail: int
    count: int
    down: int
    gbps: float


def cable_rails(fabric: Fabric) -> Ints:
    """(L,) rail of each cable: its ports' own, else that of the leaf that it goes up from where a leaf has one; -1."""
    ports, links, tiers = fabric.ports, fabric.links, fabric.nodes.tier
    rails = np.maximum(ports.rail[links.port_a], ports.rail[links.port_b])
    a, b = ports.node[links.port_a], ports.node[links.port_b]
    count = len(fabric.nodes.name)
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    for node in (a, b):
        railed = (rails >= 0) & (fabric.nodes.kind[node] == NodeKind.SWITCH)
        np.minimum.at(least, node[railed], rails[railed])
        np.maximum.at(most, node[railed], rails[railed])
    of_node = np.where(least == most, most, -1)
    lower = np.where(tiers[a] <= tiers[b], a, b)
    return np.where(rails >= 0, rails, of_node[lower])


def oversubscription(fabric: Fabric) -> dict[int, float]:
    """Switch row -> speed of its cables to hosts over that to switches above; where both are known, of cables up."""
    tiers, kinds = fabric.nodes.tier, fabric.nodes.kind
    sender, receiver = (fabric.ports.node[fabric.directed_ports[:, end]] for end in (0, 1))
    down, up = np.zeros(len(tiers)), np.zeros(len(tiers))
    to_host = (kinds[receiver] == NodeKind.HOST) & (kinds[sender] == NodeKind.SWITCH)
    rising = (kinds[receiver] == NodeKind.SWITCH) & (tiers[receiver] > tiers[sender]) & (tiers[sender] >= 0)
    np.add.at(down, sender[to_host], fabric.directed_gbps[to_host])
    np.add.at(up, sender[rising], fabric.directed_gbps[rising])
    both = np.flatnonzero((down > 0) & (up > 0))
    return {int(row): float(down[row] / up[row]) for row in both}


@dataclass(frozen=True)
class BundleKeys:
    """Which bundles there are: (K,) boxes and rail of each; (L,) whether a cable is drawn, (D,) its bundle."""

    a: Ints
    b: Ints
    rail: Ints
    drawn: NDArray[np.bool_]
    of_cable: Ints


def bundle_keys(fabric: Fabric, box_of_node: Sequence[int] | Ints, rails: Ints) -> BundleKeys:
    """Group cables between different boxes by the boxes and the rail; a cable inside of a box is not drawn."""
    box = np.asarray(box_of_node, dtype=np.int64)
    ends = np.stack([box[fabric.ports.node[port]] for port in (fabric.links.port_a, fabric.links.port_b)])
    ends.sort(axis=0)
    drawn = ends[0] != ends[1]
    boxes, most = int(box.max(initial=0)) + 1, int(rails.max(initial=-1)) + 2
    keys, of_cable = np.unique(
        (ends[0][drawn] * boxes + ends[1][drawn]) * most + rails[drawn] + 1, return_inverse=True
    )
    return BundleKeys(keys // most // boxes, keys // most % boxes, keys % most - 1, drawn, of_cable)


def bundles(fabric: Fabric, keys: BundleKeys) -> list[Bundle]:
    """The bundles with their figures."""
    links, total, index = fabric.links, len(keys.a), keys.of_cable
    speeds = np.minimum(fabric.ports.speed_gbps[links.port_a], fabric.ports.speed_gbps[links.port_b])[
        keys.drawn
    ]
    count = np.bincount(index, minlength=total)
    down = np.bincount(index, weights=links.state[keys.drawn] == LinkState.DOWN, minlength=total)
    low, high = np.full(total, np.inf), np.zeros(total)
    np.minimum.at(low, index, speeds)
    np.maximum.at(high, index, speeds)
    columns = (keys.a, keys.b, keys.rail, count, down.astype(np.int64), np.where(low == high, high, 0.0))
    return [Bundle(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def ratio_text(ratios: Mapping[int, float], rows: Sequence[int]) -> str:
    """`2:1`, or `1:1 to 3:1` where switches differ; empty when not known."""
    known = sorted({f"{ratios[row]:.3g}" for row in rows if row in ratios}, key=float)
    return "" if not known else f"{known[0]}:1" + (f" to {known[-1]}:1" if len(known) > 1 else "")
