"""Where the nodes of a fabric stand in its drawing: tiers as rows, hosts under their leaf, cables spread over a box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from topology.fabric import NodeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric

    Floats = NDArray[np.float64]

_GROUP_GAP = 0.5  # extra room between the hosts of two leaves, in hosts
_UPRIGHT_PX = 38  # a host narrower than this has its name written upwards
_SWITCH_HEIGHT = 26.0
_HOST_HEIGHT = 36.0
_CHARACTER_PX = 6.7  # of the font size that the names are written in


@dataclass(frozen=True)
class Layout:
    """Pixels, y upwards, of a drawing `width` wide.

    Attributes:
        x, y: (N,) centre of each node.
        box_width, box_height: (N,) size of each node's box.
        ends: (2L, 2) where each directed link leaves its sender's box.
        height: of the drawing.
        upright: hosts' names are written upwards.
        slot: room of one host.
    """

    x: Floats
    y: Floats
    box_width: Floats
    box_height: Floats
    ends: Floats
    height: float
    upright: bool
    slot: float


def clos_layout(fabric: Fabric, width: float, name_length: int) -> Layout:
    """Lay out any fabric of tiers; nodes that no host reaches stand in a row of their own at the top.

    Args:
        fabric: what to draw.
        width: pixels.
        name_length: characters of the longest name of a host, with its ranks.
    """
    tier = fabric.nodes.tier.copy()
    hosts = fabric.nodes.kind == NodeKind.HOST
    tier[hosts] = 0
    lost = tier < 0
    tier[lost] = tier.max(initial=0) + 1
    near = _neighbours(fabric)
    count = len(tier)
    x, box_width, box_height = np.zeros(count), np.zeros(count), np.full(count, _SWITCH_HEIGHT)

    slot = _place_hosts(tier, near, width, x)
    upright = slot < max(_UPRIGHT_PX, name_length * _CHARACTER_PX * 0.5)
    host_height = 12 + name_length * _CHARACTER_PX if upright else _HOST_HEIGHT
    box_width[tier == 0] = max(3.0, min(slot - 3, 16 if upright else 84))
    box_height[tier == 0] = host_height

    for level in range(1, int(tier.max(initial=0)) + 1):
        rows = np.flatnonzero(tier == level)
        if len(rows):
            _place_switches(fabric, rows, near, tier, width, x, box_width)

    rise = 128.0 if len(fabric.links.port_a) <= 64 else 176.0  # many crossing cables need room
    y = np.where(tier == 0, host_height / 2, host_height + 78 + (tier - 1) * rise + _SWITCH_HEIGHT / 2)
    height = float((y + box_height / 2).max(initial=host_height)) + 4
    ends = _ends(fabric, x, y, box_width, box_height)
    return Layout(x, y, box_width, box_height, ends, height, upright, slot)


def spread_out(wanted: Floats, gap: float, low: float = -np.inf, high: float = np.inf) -> Floats:
    """Positions nearest to the wanted ones (least squares), in the same order, at least `gap` apart, within limits.

    Pool adjacent violators on wanted[i] - i * gap; the limits are met by clipping, which keeps it optimal.
    Where the limits leave too little room, `gap` wins and the upper limit is passed.
    """
    shifted = wanted - gap * np.arange(len(wanted))
    pools: list[list[float]] = []  # [mean, size]
    for value in shifted:
        pools.append([float(value), 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, size = pools.pop()
            below = pools[-1]
            below[0] = (below[0] * below[1] + mean * size) / (below[1] + size)
            below[1] += size
    level = np.concatenate([np.full(int(size), mean) for mean, size in pools]) if pools else np.zeros(0)
    level = np.maximum(np.minimum(level, high - gap * (len(wanted) - 1)), low)
    return level + gap * np.arange(len(wanted))


def _neighbours(fabric: Fabric) -> list[NDArray[np.int64]]:
    a, b = fabric.ports.node[fabric.links.port_a], fabric.ports.node[fabric.links.port_b]
    ends, others = np.concatenate([a, b]), np.concatenate([b, a])
    return [others[ends == row] for row in range(len(fabric.nodes.name))]


def _place_hosts(tier: NDArray[np.int64], near: list[NDArray[np.int64]], width: float, x: Floats) -> float:
    """Hosts in the order of their leaves, then of their rows; returns the room of one."""
    rows = np.flatnonzero(tier == 0)
    if not len(rows):
        return width
    leaf_index = {int(row): index for index, row in enumerate(np.flatnonzero(tier == 1))}
    centre = {}
    for row in rows.tolist():
        leaves = [leaf_index[int(other)] for other in near[row] if int(other) in leaf_index]
        centre[row] = float(np.mean(leaves)) if leaves else float(len(leaf_index))
    order = sorted(centre, key=lambda row: (centre[row], row))
    position, previous = 0.0, centre[order[0]]
    at = []
    for row in order:
        position += _GROUP_GAP if centre[row] != previous else 0.0
        previous = centre[row]
        at.append(position)
        position += 1.0
    slot = min(width / position, 130.0)
    x[order] = (np.array(at) + 0.5) * slot + (width - position * slot) / 2
    return slot


def _place_switches(
    fabric: Fabric,
    rows: NDArray[np.int64],
    near: list[NDArray[np.int64]],
    tier: NDArray[np.int64],
    width: float,
    x: Floats,
    box_width: Floats,
) -> None:
    """Above the middle of what hangs below; spines, which all have the same middle, spread over the width."""
    wanted = {}
    for row in rows:
        below = near[row][tier[near[row]] < tier[row]]
        wanted[int(row)] = float(x[below].mean()) if len(below) else width / 2
    order = sorted(wanted, key=lambda row: (round(wanted[row], 3), row))
    room = width / len(order)
    longest = max(len(fabric.nodes.name[row]) for row in order)
    size = max(4.0, min(room - 6, max(64.0, longest * _CHARACTER_PX + 16, min(180.0, 0.45 * room))))
    gap = min(room, size + 8) if tier[order[0]] == 1 else room
    x[order] = spread_out(np.array([wanted[row] for row in order]), gap, size / 2, width - size / 2)
    box_width[order] = size


def _ends(fabric: Fabric, x: Floats, y: Floats, box_width: Floats, box_height: Floats) -> Floats:
    """(2L, 2) attachment of each directed link at its sender: cables stand side by side along a box's edge."""
    node = fabric.ports.node[fabric.directed_ports]
    ends = np.zeros((len(node), 2))
    for row in range(len(x)):
        leaving = np.flatnonzero(node[:, 0] == row) if len(node) else np.zeros(0, dtype=np.int64)
        for edge in (1, -1):
            side = [int(link) for link in leaving if _edge(y, row, int(node[link, 1])) == edge]
            side.sort(key=lambda link: (x[node[link, 1]], link // 2))
            for index, link in enumerate(side):
                along = ((index + 0.5) / len(side) - 0.5) * 0.8 * box_width[row]
                ends[link] = x[row] + along, y[row] + edge * box_height[row] / 2
    return ends


def _edge(y: Floats, here: Any, there: Any) -> int:
    return 1 if y[there] >= y[here] else -1
