"""Step time against the values of one knob, with intervals; the value that was kept and the default are named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nettune.stats import Interval
from reports.charts.style import (
    INK,
    MUTED,
    OWN,
    WIDE_PX,
    canvas,
    label,
    styled,
    time_unit,
    to_svg,
    value_grid,
)
from reports.document import Figure
from reports.formatting import format_number


@dataclass(frozen=True)
class SweepPoint:
    """One value of the knob, as written, and the step time under it."""

    value: str
    step_s: Interval


def sweep_curve(
    points: Sequence[SweepPoint],
    *,
    knob: str,
    kept: str | None = None,
    default: str | None = None,
    caption: str,
    wide: bool = False,
) -> Figure:
    """A line over the values in the given order.

    Args:
        points: results; a NaN median (a trial that failed) leaves a gap.
        knob: label of the axis with its unit in brackets.
        kept: the value that was kept.
        default: the value that was there before.
        caption: of the figure.
        wide: as in `Figure`.
    """
    medians = [point.step_s.median for point in points]
    factor, unit = time_unit(medians)
    scaled = [Interval(*(value * factor for value in point.step_s)) for point in points]
    with styled():
        figure = canvas(WIDE_PX if wide else WIDE_PX / 2 - 10, 340)
        axes = figure.add_subplot()
        rows = range(len(points))
        axes.plot(
            rows,
            [value.median for value in scaled],
            color=OWN,
            linewidth=2,
            marker="o",
            markersize=6,
            zorder=3,
        )
        for row, value in zip(rows, scaled, strict=True):
            if math.isfinite(value.lo) and math.isfinite(value.hi):
                axes.plot(
                    [row, row],
                    [value.lo, value.hi],
                    color=OWN,
                    linewidth=1.6,
                    marker="_",
                    markersize=9,
                    zorder=2,
                )
        ends = [limit for value in scaled for limit in value if math.isfinite(limit)]
        low, high = min(ends, default=0.0), max(ends, default=1.0)
        room = (high - low) or abs(high) or 1.0
        axes.set_ylim(low - 0.12 * room, high + 0.34 * room)
        axes.set_xlim(-0.6, max(1, len(points)) - 0.4)
        for row, (point, value) in enumerate(zip(points, scaled, strict=True)):
            words = [word for word, name in (("kept", kept), ("default", default)) if point.value == name]
            if not words or not math.isfinite(value.median):
                continue
            colour = OWN if "kept" in words else MUTED
            axes.plot(
                [row],
                [value.median],
                marker="o",
                markersize=15,
                fillstyle="none",
                color=colour,
                markeredgewidth=2,
            )
            upper = value.hi if math.isfinite(value.hi) else value.median
            axes.annotate(
                f"{', '.join(words)}\n{format_number(value.median)} {unit}", (row, upper), xytext=(0, 9),
                textcoords="offset points", ha="center", fontsize=11, color=colour if "kept" in words else INK,
                weight="bold" if "kept" in words else "normal",
            )  # fmt: skip
        axes.set_xticks(
            rows, [label(point.value, 12) for point in points], rotation=30 if len(points) > 9 else 0
        )
        axes.set(xlabel=label(knob, 48), ylabel=f"step time [{unit}]")
        value_grid(axes)
        svg = to_svg(figure)
    said = [
        f"{point.value} {format_number(value.median)} {unit}"
        for point, value in zip(points, scaled, strict=True)
    ]
    alt = f"Step time against {knob}: {', '.join(said) or 'none'}" + (
        f"; kept {kept}" if kept is not None else ""
    )
    return Figure(svg, caption, alt + ".", wide)
