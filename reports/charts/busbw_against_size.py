"""Bus bandwidth against message size, one line an order, with its interval and the link rate as the ceiling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nettune.stats import Interval
from reports.charts.style import (
    LINES,
    MARKERS,
    MUTED,
    OWN,
    WIDE_PX,
    canvas,
    label,
    rate_unit,
    size_name,
    styled,
    to_svg,
    value_grid,
)
from reports.document import Figure
from reports.formatting import format_number


@dataclass(frozen=True)
class SizeSeries:
    """Results of one order.

    Attributes:
        name: of the order.
        sizes_bytes: message sizes.
        busbw_gbps: median and interval at each size.
        own: drawn as ours.

    Raises:
        ValueError: different numbers of sizes and results.
    """

    name: str
    sizes_bytes: Sequence[int]
    busbw_gbps: Sequence[Interval]
    own: bool = False

    def __post_init__(self) -> None:
        if len(self.sizes_bytes) != len(self.busbw_gbps):
            raise ValueError(f"{self.name}: {len(self.sizes_bytes)} sizes and {len(self.busbw_gbps)} results")


def busbw_against_size(
    series: Sequence[SizeSeries], *, link_rate_gbps: float | None = None, caption: str, wide: bool = True
) -> Figure:
    """Lines with bands over a logarithmic axis of sizes; `link_rate_gbps` is drawn as the ceiling."""
    medians = [interval.median for one in series for interval in one.busbw_gbps]
    ceiling = [link_rate_gbps] if link_rate_gbps else []
    factor, unit = rate_unit([*medians, *ceiling])
    sizes = sorted({size for one in series for size in one.sizes_bytes})
    with styled():
        figure = canvas(WIDE_PX if wide else WIDE_PX / 2 - 10, 360)
        axes = figure.add_subplot()
        others = iter(zip(LINES * len(series), MARKERS * len(series), strict=True))
        for one in series:
            colour, marker = (OWN, "o") if one.own else next(others)
            low, middle, high = (
                [getattr(i, key) * factor for i in one.busbw_gbps] for key in ("lo", "median", "hi")
            )
            axes.fill_between(one.sizes_bytes, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(
                one.sizes_bytes,
                middle,
                color=colour,
                marker=marker,
                markersize=7,
                linewidth=2.6 if one.own else 1.6,
                linestyle="-" if one.own else "--",
                label=label(one.name),
                zorder=3 if one.own else 2,
            )
        if link_rate_gbps:
            rate = link_rate_gbps * factor
            axes.axhline(rate, color=MUTED, linewidth=1.2, linestyle=":")
            axes.annotate(
                f"link rate {rate:.4g} {unit}", (0.005, rate), xycoords=("axes fraction", "data"), xytext=(0, 4),
                textcoords="offset points", fontsize=11, color=MUTED,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        axes.set_xticks(_thinned(sizes), [size_name(size) for size in _thinned(sizes)])
        top = max([value * factor for value in (*medians, *ceiling) if math.isfinite(value)], default=0.0)
        axes.set_ylim(0, 1.14 * top or 1.0)
        axes.set(xlabel="message size [bytes, binary suffixes]", ylabel=f"all-reduce busbw [{unit}]")
        value_grid(axes)
        if series:
            figure.legend(loc="outside upper left", ncols=min(len(series), 4 if wide else 2))
        svg = to_svg(figure)
    return Figure(svg, caption, _alt(series, factor, unit), wide)


def _thinned(sizes: Sequence[int]) -> list[int]:
    """At most about a dozen ticks."""
    step = 1 + len(sizes) // 13
    return list(sizes[::step])


def _alt(series: Sequence[SizeSeries], factor: float, unit: str) -> str:
    said = [
        f"{one.name} {format_number(one.busbw_gbps[-1].median * factor)} {unit} at {size_name(one.sizes_bytes[-1])}"
        for one in series
        if one.sizes_bytes
    ]
    return "Lines of busbw against message size" + (": " + ", ".join(said) if said else "") + "."
