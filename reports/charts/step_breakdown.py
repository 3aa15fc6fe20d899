"""Where a training step's time goes, by order: compute, exposed communication, the rest; MFU beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nettune.stats import Interval
from reports.charts.style import (
    ACCENT,
    INK,
    OTHER,
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
from reports.formatting import format_interval, format_number

_LEAST_SHARE = 0.07  # a part narrower than this share of the axis has no number inside


@dataclass(frozen=True)
class StepParts:
    """One order's median step.

    Attributes:
        name: of the order.
        compute_s: forward, backward and optimizer.
        exposed_s: communication that nothing overlaps.
        other_s: the rest: data, waiting for stragglers.
        mfu: model FLOP utilisation, 0 to 1; None when unknown.
        own: written as ours.
    """

    name: str
    compute_s: float
    exposed_s: float
    other_s: float = 0.0
    mfu: Interval | None = None
    own: bool = False


_PARTS = (
    ("compute", "compute_s", OWN, "white", ""),
    ("exposed communication", "exposed_s", ACCENT, INK, "//"),
    ("other", "other_s", OTHER, INK, ""),
)


def step_breakdown(steps: Sequence[StepParts], *, caption: str) -> Figure:
    """Stacked horizontal bars in the given order, from the top."""
    totals = [sum(_finite(getattr(step, key)) for _, key, *_ in _PARTS) for step in steps]
    factor, unit = time_unit(totals)
    top = max(totals, default=0.0) * factor or 1.0
    with styled():
        figure = canvas(WIDE_PX, 118 + 50 * max(1, len(steps)))
        axes = figure.add_subplot()
        for name, key, colour, ink, hatch in _PARTS:
            widths = [_finite(getattr(step, key)) * factor for step in steps]
            starts = [
                sum(_finite(getattr(step, before)) for _, before, *_ in _PARTS[: _index(key)]) * factor
                for step in steps
            ]
            axes.barh(
                range(len(steps)), widths, left=starts, height=0.6, color=colour, label=name, hatch=hatch,
                edgecolor="white", linewidth=0.8, zorder=2,
            )  # fmt: skip
            for row, (start, width) in enumerate(zip(starts, widths, strict=True)):
                if width >= _LEAST_SHARE * top:
                    box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5} if hatch else None
                    axes.text(
                        start + width / 2, row, format_number(width), ha="center", va="center", color=ink, fontsize=11,
                        zorder=4, bbox=box,
                    )  # fmt: skip
        for row, (step, total) in enumerate(zip(steps, totals, strict=True)):
            axes.annotate(
                _note(step, total * factor, unit), (total * factor, row), xytext=(8, 0), textcoords="offset points",
                va="center", fontsize=11, weight="bold" if step.own else "normal",
            )  # fmt: skip
        axes.set_yticks(range(len(steps)), [label(step.name) for step in steps])
        axes.set_ylim(max(1, len(steps)) - 0.5, -0.5)
        axes.set_xlim(0, 1.45 * top)
        axes.set_xlabel(f"time of a training step [{unit}]")
        value_grid(axes, "x")
        figure.legend(loc="outside upper left", ncols=len(_PARTS))
        svg = to_svg(figure)
    said = [
        f"{step.name} {_note(step, total * factor, unit)}" for step, total in zip(steps, totals, strict=True)
    ]
    return Figure(svg, caption, f"Stacked bars of the step time: {'; '.join(said) or 'none'}.")


def _finite(value: float) -> float:
    return max(0.0, value) if math.isfinite(value) else 0.0


def _index(key: str) -> int:
    return [entry[1] for entry in _PARTS].index(key)


def _note(step: StepParts, total: float, unit: str) -> str:
    text = f"{format_number(total)} {unit}"
    if step.mfu is None:
        return text
    return f"{text}, MFU {format_interval(Interval(*(100 * value for value in step.mfu)))} %"
