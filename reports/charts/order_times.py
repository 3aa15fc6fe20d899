"""Predicted step time of each order as a bar with its percentiles, against the bound that no order can beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.charts.style import (
    HALF_PX,
    INK,
    OTHER,
    OWN,
    TROUBLE,
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
class OrderTime:
    """Prediction of one order.

    Attributes:
        name: of the order.
        time_us: (p5, p50, p95) over port draws.
        own: drawn as ours.
    """

    name: str
    time_us: tuple[float, float, float]
    own: bool = False


def order_times(orders: Sequence[OrderTime], *, bound_us: float, caption: str, wide: bool = False) -> Figure:
    """Horizontal bars to p95 in the given order, from the top; the line spans p5 to p50 to p95."""
    values = [value / 1e6 for one in orders for value in one.time_us if math.isfinite(value)]
    factor, unit = time_unit([*values, bound_us / 1e6])
    scale = factor / 1e6
    top = max([*values, bound_us / 1e6], default=0.0) * factor or 1.0
    with styled():
        figure = canvas(WIDE_PX if wide else HALF_PX, 108 + 40 * max(1, len(orders)))
        axes = figure.add_subplot()
        for row, one in enumerate(orders):
            p5, p50, p95 = (value * scale for value in one.time_us)
            axes.barh(row, p95, height=0.62, color=OWN if one.own else OTHER, zorder=2)
            axes.plot([p5, p95], [row, row], color=INK, linewidth=1.6, zorder=3)
            axes.plot([p5, p50], [row, row], color=INK, linestyle="", marker="|", markersize=10, zorder=3)
            axes.annotate(
                format_number(p95), (p95, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=11,
                weight="bold" if one.own else "normal",
            )  # fmt: skip
        axes.axvline(bound_us * scale, color=TROUBLE, linewidth=1.6, linestyle="--", zorder=4)
        axes.annotate(
            f"bound {format_number(bound_us * scale)}", (bound_us * scale, 1.0), xycoords=("data", "axes fraction"),
            xytext=(0, 4), textcoords="offset points", ha="center", fontsize=11, color=TROUBLE,
        )  # fmt: skip
        axes.set_yticks(range(len(orders)), [label(one.name, 24) for one in orders])
        axes.set_ylim(max(1, len(orders)) - 0.4, -0.6)
        axes.set_xlim(0, top * 1.2)
        axes.set_xlabel(f"communication of a step [{unit}]")
        value_grid(axes, "x")
        svg = to_svg(figure)
    said = [f"{one.name} {format_number(one.time_us[2] * scale)} {unit}" for one in orders]
    alt = f"Bars of predicted step time at p95: {', '.join(said) or 'none'}; bound {format_number(bound_us * scale)} {unit}."
    return Figure(svg, caption, alt, wide)
