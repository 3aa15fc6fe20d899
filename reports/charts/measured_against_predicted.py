"""Bytes of each directed link, predicted and read from the counters, and the largest deviation between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.charts.style import (
    ACCENT,
    INK,
    MUTED,
    OTHER,
    OWN,
    WIDE_PX,
    bytes_unit,
    canvas,
    label,
    styled,
    to_svg,
    value_grid,
)
from reports.document import Figure
from reports.formatting import format_number

_NAMED_LINKS = 40  # more than this: a cloud of dots around the diagonal
_LEAST_SHARE = (
    0.1  # of the most loaded link; below it acknowledgements and control traffic outweigh the payload
)


@dataclass(frozen=True)
class LinkRow:
    """One directed link: its name, `leaf0:u1 > spine1:d0`, the predicted and the measured bytes."""

    name: str
    predicted_bytes: float
    measured_bytes: float


def largest_deviation(rows: Sequence[LinkRow]) -> tuple[float, LinkRow] | None:
    """(measured / predicted - 1, link) of the link that is farthest off.

    Links predicted to carry less than a tenth of the most loaded one are left out; None when nothing is left.
    """
    known = [row for row in rows if math.isfinite(row.predicted_bytes) and math.isfinite(row.measured_bytes)]
    least = _LEAST_SHARE * max((row.predicted_bytes for row in known), default=0.0)
    ratios = [
        (row.measured_bytes / row.predicted_bytes - 1, row) for row in known if row.predicted_bytes > least
    ]
    return max(ratios, key=lambda pair: abs(pair[0]), default=None)


def measured_against_predicted(rows: Sequence[LinkRow], *, caption: str) -> Figure:
    """Bars (predicted) and dots (measured) by load up to 40 links, above that dots around the diagonal."""
    ordered = sorted(
        rows, key=lambda row: -row.predicted_bytes if math.isfinite(row.predicted_bytes) else math.inf
    )
    factor, unit = bytes_unit([value for row in rows for value in (row.predicted_bytes, row.measured_bytes)])
    said = _statement(rows)
    with styled():
        if len(ordered) <= _NAMED_LINKS:
            svg = _bars(ordered, factor, unit, said)
        else:
            svg = _cloud(ordered, factor, unit, said)
    return Figure(svg, caption, f"Predicted and measured bytes of {len(rows)} directed links. {said}.")


def _bars(rows: Sequence[LinkRow], factor: float, unit: str, said: str) -> str:
    longest = max((len(label(row.name, 34)) for row in rows), default=0)
    figure = canvas(WIDE_PX, 250 + 6.2 * longest)
    axes = figure.add_subplot()
    places = range(len(rows))
    axes.bar(
        places,
        [_known(row.predicted_bytes) * factor for row in rows],
        width=0.62,
        color=OTHER,
        label="predicted",
    )
    axes.plot(
        places, [row.measured_bytes * factor for row in rows], linestyle="", marker="D", markersize=6, color=OWN,
        markeredgecolor="white", markeredgewidth=0.8, label="measured (kernel's counters)",
    )  # fmt: skip
    axes.set_xticks(places, [label(row.name, 34) for row in rows], rotation=90, fontsize=10)
    axes.set_xlim(-0.7, max(1, len(rows)) - 0.3)
    axes.set_ylim(0, _top(rows, factor))
    axes.set_ylabel(f"sent on the link [{unit}]")
    value_grid(axes)
    axes.set_title(label(said, 120), fontsize=12)
    axes.legend(loc="upper right", ncols=2)
    return to_svg(figure)


def _cloud(rows: Sequence[LinkRow], factor: float, unit: str, said: str) -> str:
    figure = canvas(WIDE_PX, 480)
    axes = figure.add_subplot()
    top = _top(rows, factor)
    axes.plot([0, top], [0, top], color=MUTED, linewidth=1.2, linestyle=":")
    axes.plot(
        [row.predicted_bytes * factor for row in rows], [row.measured_bytes * factor for row in rows], linestyle="",
        marker="o", markersize=6, color=OWN, alpha=0.55, markeredgewidth=0,
    )  # fmt: skip
    worst = largest_deviation(rows)
    if worst is not None:
        at = (worst[1].predicted_bytes * factor, worst[1].measured_bytes * factor)
        axes.plot(*at, marker="o", markersize=13, fillstyle="none", color=ACCENT, markeredgewidth=2)
    axes.text(0.97 * top, 0.93 * top, "equal", color=INK, ha="right", va="top", fontsize=11)
    axes.set(xlim=(0, top), ylim=(0, top), xlabel=f"predicted [{unit}]", ylabel=f"measured [{unit}]")
    value_grid(axes)
    axes.set_title(label(said, 120), fontsize=12)
    return to_svg(figure)


def _known(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _top(rows: Sequence[LinkRow], factor: float) -> float:
    values = [_known(value) * factor for row in rows for value in (row.predicted_bytes, row.measured_bytes)]
    return 1.18 * max(values, default=0.0) or 1.0


def _statement(rows: Sequence[LinkRow]) -> str:
    worst = largest_deviation(rows)
    if worst is None:
        return "No link is predicted to carry bytes"
    return f"Largest deviation {format_number(100 * worst[0], 2):s} % on {worst[1].name}"
