"""The fabric of a large cluster as a drawing: a box a leaf group instead of its hosts, a line for all its cables up.

A line shows the load of the busiest cable between the two, each half in the direction that leaves the box beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reports.charts.fabric_map import MapView, fabric_maps, folded
from reports.document import Figure
from reports.formatting import format_number
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.leafgroups import LeafGroups, leaf_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.mapping import Placement

    Floats = NDArray[np.float64]

_MOST_BOXES = 96
"""More leaf groups than this have no room for a name; pods are drawn then, where there are any."""


def leaf_rows(placement: Placement, fabric: Fabric) -> list[tuple[str, int, int, str]]:
    """(leaf group, its hosts, hosts that are used, its ranks folded) of every leaf group in the order of the tree."""
    ranks: dict[int, list[int]] = {}
    for rank, host in enumerate(placement.host.tolist()):
        ranks.setdefault(host, []).append(rank)
    rows = []
    for cluster in leaf_groups(fabric).groups:
        used = [host for host in cluster.hosts if host in ranks]
        held = sorted(rank for host in used for rank in ranks[host])
        rows.append((cluster.name, len(cluster.hosts), len(used), folded(held) if held else ""))
    return rows


def leaf_maps(
    fabric: Fabric, views: Sequence[tuple[str, Placement, Floats]], *, quantity: str, caption: str
) -> Figure:
    """Several states of one fabric, a box a leaf group (a pod where there are too many).

    Args:
        fabric: what to draw.
        views: title, map and (2L,) load of each directed link, in the unit that `quantity` names.
        quantity: label of the colour bar with its unit in brackets.
        caption: of the figure.
    """
    tree = leaf_groups(fabric)
    sizes = [len(level) for level in tree.levels]
    lowest = next((height for height, size in enumerate(sizes) if size <= _MOST_BOXES), len(sizes) - 1)
    lowest -= lowest > 0 and sizes[lowest] == 1  # one box for everything says nothing; boxes without names do
    coarse, cables = _coarse(fabric, tree, lowest)
    drawn = [
        MapView(
            title,
            _busiest_cable(load, cables, coarse.directed_count),
            _texts(placement, tree, lowest),
            fact=_fact(fabric, load, cables, quantity),
        )
        for title, placement, load in views
    ]
    what = "leaf groups" if lowest == 0 else "pods"
    figure = fabric_maps(coarse, drawn, quantity=f"busiest cable, {quantity}", caption=caption)
    said = figure.alt.partition(". ")[2]  # after the count of what is drawn
    return replace(figure, alt=f"{len(fabric.hosts)} hosts in {sizes[lowest]} {what}. {said}")


def _coarse(fabric: Fabric, tree: LeafGroups, lowest: int) -> tuple[Fabric, NDArray[np.int64]]:
    """A fabric of clusters, and (2L,) its directed link for each directed link of the whole one; -1 for none."""
    owner = np.full(len(fabric.nodes.name), -1, dtype=np.int64)
    names: list[str] = []
    parents: dict[int, int] = {}
    builder = FabricBuilder()
    start: list[int] = []
    for height, level in enumerate(tree.levels):
        start.append(len(names))
        for cluster in level:
            number = len(names)
            names.append(cluster.name)
            if height >= lowest:
                builder.node(cluster.name, NodeKind.HOST if height == lowest else NodeKind.SWITCH)
            owner[list(cluster.switches)] = number
            if height:
                parents.update({start[height - 1] + below: number for below in cluster.below})
    # What is below the drawn level belongs to the box that it is in.
    box = np.arange(len(names))
    for number in range(start[lowest]):
        while box[number] < start[lowest] and int(box[number]) in parents:
            box[number] = parents[int(box[number])]
    pairs = {}
    for number, parent in parents.items():
        if number >= start[lowest]:
            builder.port(names[number], "up")
            builder.port(names[parent], f"to-{names[number]}")
            builder.link((names[number], "up"), (names[parent], f"to-{names[number]}"))
            pairs[number] = names[number], names[parent]
    coarse = builder.build()
    up = {number: int(coarse.out_of_port[coarse.port_row(own, "up")]) for number, (own, _) in pairs.items()}
    ends = np.where(owner >= 0, box[owner], -1)[fabric.ports.node[fabric.directed_ports]]
    cables = np.full(fabric.directed_count, -1, dtype=np.int64)
    for row, (src, dst) in enumerate(ends.tolist()):
        if src < 0 or dst < 0 or src == dst:
            continue
        # A cable that skips a level counts at the box that it leaves or enters.
        cables[row] = up[src] if src < dst and src in up else up[dst] ^ 1 if dst in up else -1
    return coarse, cables


def _busiest_cable(load: Floats, cables: NDArray[np.int64], count: int) -> Floats:
    found = np.zeros(count)
    counted = cables >= 0
    np.maximum.at(found, cables[counted], load[counted])
    return found


def _texts(placement: Placement, tree: LeafGroups, lowest: int) -> dict[str, str]:
    """Name of a box -> `r0-127`, or `128 ranks` where they do not follow one another."""
    texts = {}
    used = np.bincount(placement.host, minlength=int(placement.host.max(initial=0)) + 1)
    for cluster in tree.levels[lowest]:
        held = [host for host in cluster.hosts if host < len(used) and used[host]]
        ranks = np.flatnonzero(np.isin(placement.host, held))
        if len(ranks):
            in_a_row = ranks[-1] - ranks[0] + 1 == len(ranks)
            texts[cluster.name] = f"r{ranks[0]}-{ranks[-1]}" if in_a_row else f"{len(ranks)} ranks"
    return texts


def _fact(fabric: Fabric, load: Floats, cables: NDArray[np.int64], quantity: str) -> str:
    between = np.where(cables >= 0, load, 0.0)
    row = int(np.argmax(between))
    if not between[row] > 0:
        return "nothing crosses between switches"
    unit = quantity.rpartition("[")[2].rstrip("]")
    return f"busiest between switches: {fabric.directed_name(row)}, {format_number(float(load[row]))} {unit}"
