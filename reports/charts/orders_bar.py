"""One bar an order: median, interval, and a dot for each initialisation, against the link rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nettune.stats import Interval
from reports.charts.style import (
    HALF_PX,
    INK,
    MUTED,
    OTHER,
    OWN,
    WIDE_PX,
    canvas,
    label,
    rate_unit,
    styled,
    to_svg,
    value_grid,
)
from reports.document import Figure
from reports.formatting import format_interval, format_number


@dataclass(frozen=True)
class OrderBar:
    """Result of one order.

    Attributes:
        name: of the order.
        busbw_gbps: median and interval over initialisations.
        inits_gbps: the median of each initialisation.
        own: drawn as ours.
    """

    name: str
    busbw_gbps: Interval
    inits_gbps: Sequence[float] = ()
    own: bool = False


def orders_bar(
    orders: Sequence[OrderBar],
    *,
    link_rate_gbps: float | None = None,
    quantity: str = "all-reduce busbw",
    caption: str,
    wide: bool = True,
) -> Figure:
    """Horizontal bars in the given order, from the top."""
    rates = [value for bar in orders for value in (bar.busbw_gbps.median, bar.busbw_gbps.hi, *bar.inits_gbps)]
    finite = [value for value in (*rates, link_rate_gbps or 0.0) if math.isfinite(value)]
    factor, unit = rate_unit(finite)
    top = max(finite, default=0.0) * factor or 1.0
    with styled():
        figure = canvas(WIDE_PX if wide else HALF_PX, 92 + 52 * max(1, len(orders)))
        axes = figure.add_subplot()
        for row, bar in enumerate(orders):
            middle = bar.busbw_gbps.median * factor if math.isfinite(bar.busbw_gbps.median) else 0.0
            axes.barh(row, middle, height=0.56, color=OWN if bar.own else OTHER, zorder=2)
            low, high = bar.busbw_gbps.lo * factor, bar.busbw_gbps.hi * factor
            if math.isfinite(low) and math.isfinite(high):
                axes.plot([low, high], [row, row], color=INK, linewidth=1.8, zorder=4)
                axes.plot(
                    [low, high], [row, row], color=INK, linestyle="", marker="|", markersize=11, zorder=4
                )
            dots = [value * factor for value in bar.inits_gbps if math.isfinite(value)]
            axes.plot(
                dots, [row + 0.4] * len(dots), linestyle="", marker="o", markersize=5, color=INK, alpha=0.65,
                markeredgewidth=0, zorder=3,
            )  # fmt: skip
            reach = max([middle, *dots, *(value for value in (high,) if math.isfinite(value))])
            factored = Interval(*(value * factor for value in bar.busbw_gbps))
            axes.annotate(
                format_interval(factored), (reach, row), xytext=(8, 0), textcoords="offset points", va="center",
                fontsize=11, weight="bold" if bar.own else "normal", zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85},
            )  # fmt: skip
        if link_rate_gbps:
            rate = link_rate_gbps * factor
            axes.axvline(rate, color=MUTED, linewidth=1.2, linestyle=":", zorder=1)
            axes.annotate(
                f"link rate {rate:.4g}", (rate, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3),
                textcoords="offset points", ha="center", fontsize=11, color=MUTED,
            )  # fmt: skip
        axes.set_yticks(range(len(orders)), [label(bar.name, 28 if wide else 22) for bar in orders])
        axes.set_ylim(max(1, len(orders)) - 0.4, -0.6)
        axes.set_xlim(0, top * (1.24 if wide else 1.55))
        axes.set_xlabel(f"{label(quantity, 40)} [{unit}]")
        value_grid(axes, "x")
        svg = to_svg(figure)
    said = [f"{bar.name} {format_number(bar.busbw_gbps.median * factor)} {unit}" for bar in orders]
    return Figure(svg, caption, f"Bars of {quantity}: {', '.join(said) or 'none'}.", wide)
