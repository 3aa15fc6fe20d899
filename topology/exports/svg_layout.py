"""Where the boxes of a drawing stand: tiers as rows, boxes above the middle of what hangs below them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.exports.boxes import Boxes

    Floats = NDArray[np.float64]

WIDTH = 1360.0
"""Pixels within which names are written level; where they do not fit they are turned, and the drawing may be wider."""

NARROWEST = 860.0
SIDE = 124.0
"""Pixels at the left for the tiers' names."""

CHARACTER = 6.9
"""Pixels of a character of the 12-pixel font, a wide one: names fit whatever font the viewer has."""

LINE = 15.0
_GAP = 6.0  # between boxes
_GROUP_GAP = 16.0  # more between boxes of two groups
_NARROW = 24.0  # boxes narrower than this stand closer
_LONE = 0.5  # of the whole width that the only box of a tier takes: its lines need room
_LONGEST_UPRIGHT = 190.0
_RISE = 130.0  # between tiers, more where many lines cross


@dataclass(frozen=True)
class Place:
    """A box's rectangle, y downwards; `upright` texts are turned to read upwards."""

    x: float
    y: float
    width: float
    height: float
    upright: bool


@dataclass(frozen=True)
class _Size:
    """Of all boxes of a tier."""

    width: float
    height: float
    upright: bool


def lay_out(boxes: Boxes, texts: Sequence[Sequence[str]], top: float) -> tuple[list[Place], float, float]:
    """(place of each box, width, y of the lowest edge) with the tiers' names left of SIDE and `top` pixels above.

    Args:
        boxes: what to place.
        texts: lines in each box.
        top: pixels above the highest tier.
    """
    tiers = sorted({box.tier for box in boxes.boxes})
    rows = {tier: [index for index, box in enumerate(boxes.boxes) if box.tier == tier] for tier in tiers}
    sizes = {tier: _size(boxes, rows[tier], texts) for tier in tiers}
    centre = np.zeros(len(boxes.boxes))
    near: list[list[int]] = [[] for _ in boxes.boxes]
    for bundle in boxes.bundles:
        near[bundle.a].append(bundle.b)
        near[bundle.b].append(bundle.a)
    steps = {tier: _steps(boxes, rows[tier], sizes[tier].width) for tier in tiers}
    # hosts or leaves are the yardstick, whatever is wider; the other tiers follow them upwards and downwards
    anchor = max(tiers, key=lambda tier: (tier <= 1, sum(steps[tier])))
    right = max(sum(of_tier) for of_tier in steps.values())
    slack = (right - sum(steps[anchor])) / len(steps[anchor])
    ends = np.cumsum(np.array(steps[anchor]) + slack)
    centre[rows[anchor]] = ends - (sizes[anchor].width + slack) / 2
    upwards = [tier for tier in tiers if tier > anchor]
    downwards = [tier for tier in reversed(tiers) if tier < anchor]
    for tier in (*upwards, *downwards):
        if len(rows[tier]) == 1 and tier > 0:
            sizes[tier] = replace(sizes[tier], width=max(sizes[tier].width, right * _LONE))
        wanted = []
        for box in rows[tier]:
            others = [other for other in near[box] if (boxes.boxes[other].tier < tier) == (tier > anchor)]
            wanted.append(float(np.mean(centre[others])) if others else right / 2)
        width = sizes[tier].width
        placed = spread_out(_evened(wanted, width, right), width + _gap(width))
        # a row that ran out at a side is pushed back; it is never wider than the widest one
        placed += max(0.0, width / 2 - float(placed[0]))
        placed -= max(0.0, float(placed[-1]) + width / 2 - right)
        centre[rows[tier]] = placed
    shift = SIDE + max(0.0, (NARROWEST - SIDE - right) / 2)
    y, edges = top, {}
    for tier in reversed(tiers):
        edges[tier] = y
        y += sizes[tier].height + _RISE * (1.25 if len(boxes.bundles) > 2 * len(boxes.boxes) else 1.0)
    places = []
    for index, drawn in enumerate(boxes.boxes):
        size = sizes[drawn.tier]
        left = shift + float(centre[index]) - size.width / 2
        places.append(Place(left, edges[drawn.tier], size.width, size.height, size.upright))
    bottom = max((place.y + place.height for place in places), default=top)
    return places, max(NARROWEST, shift + right + 14), bottom


def spread_out(wanted: Sequence[float], gap: float) -> Floats:
    """Positions nearest to the wanted ones (least squares), in the same order, at least `gap` apart.

    Pool adjacent violators on wanted[i] - i * gap.
    """
    pools: list[list[float]] = []  # [mean, size]
    for place, value in enumerate(wanted):
        pools.append([value - gap * place, 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, size = pools.pop()
            pools[-1][0] = (pools[-1][0] * pools[-1][1] + mean * size) / (pools[-1][1] + size)
            pools[-1][1] += size
    level: Floats = np.array([mean for mean, size in pools for _ in range(int(size))], dtype=np.float64)
    return level + gap * np.arange(len(wanted))


def _evened(wanted: list[float], width: float, right: float) -> list[float]:
    """Boxes that all want the same middle (spines) stand over the whole width."""
    if len(wanted) > 1 and max(wanted) - min(wanted) < width:
        return [(place + 0.5) * right / len(wanted) for place in range(len(wanted))]
    return wanted


def _size(boxes: Boxes, members: Sequence[int], texts: Sequence[Sequence[str]]) -> _Size:
    longest = max(len(line) for box in members for line in texts[box])
    lines = max(len(texts[box]) for box in members)
    level = _Size(longest * CHARACTER + 14, lines * LINE + 10, upright=False)
    if sum(_steps(boxes, members, level.width)) <= WIDTH - SIDE:
        return level
    return _Size(lines * LINE + 5, min(longest * CHARACTER, _LONGEST_UPRIGHT) + 12, upright=True)


def _steps(boxes: Boxes, members: Sequence[int], width: float) -> list[float]:
    """Pixels that each box takes in its row, with the gap before it."""
    groups = [boxes.boxes[box].group for box in members]
    gap = _gap(width)
    return [
        width + (0.0 if place == 0 else gap + (_GROUP_GAP if groups[place - 1] != group else 0.0))
        for place, group in enumerate(groups)
    ]


def _gap(width: float) -> float:
    return _GAP if width > _NARROW else _GAP / 2
