"""Completion times of flows as a cumulative distribution: one line a setting, the slow end in view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reports.charts.style import (
    HALF_PX,
    LINES,
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

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_COLOURS = (OWN, *LINES)
_STYLES = ("-", "--", "-.", ":")
_WIDE_RANGE = 30.0
"""Slowest over fastest from which on the axis is logarithmic."""


def completion_cdf(times_us: Mapping[str, ArrayLike], *, caption: str, wide: bool = False) -> Figure:
    """Part of flows that are over by each time; NaN (flows that never end) count as not over.

    Args:
        times_us: name of a job or setting -> completion time of each of its flows.
        caption: of the figure.
        wide: as in `Figure`.
    """
    from matplotlib.ticker import LogLocator

    columns = {name: np.sort(np.ravel(np.asarray(one, dtype=np.float64))) for name, one in times_us.items()}
    ends = {name: one[np.isfinite(one)] for name, one in columns.items()}
    last = max((float(one[-1]) for one in ends.values() if len(one)), default=0.0)
    first = min((float(one[0]) for one in ends.values() if len(one)), default=0.0)
    factor, unit = time_unit([last / 1e6])
    scale = factor / 1e6
    said = []
    with styled():
        figure = canvas(WIDE_PX if wide else HALF_PX, 340)
        axes = figure.add_subplot()
        for number, (name, one) in enumerate(ends.items()):
            if not len(one):
                said.append(f"{name} none finished")
                continue
            part = np.arange(1, len(one) + 1) / len(columns[name])
            slowest, middle = format_number(one[-1] * scale), format_number(float(np.median(one)) * scale)
            axes.step(
                np.r_[one[0], one] * scale, np.r_[0, part], where="post", linewidth=1.8,
                color=_COLOURS[number % len(_COLOURS)], linestyle=_STYLES[number // len(_COLOURS) % len(_STYLES)],
                label=f"{label(name, 22)}, last {slowest} {unit}",
            )  # fmt: skip
            said.append(f"{name} median {middle}, last {slowest} {unit}")
        axes.set(ylim=(0, 1.02), xlim=(0, last * scale * 1.03 or 1.0))
        if 0 < first < last / _WIDE_RANGE:
            axes.set(xscale="log", xlim=(first * scale / 1.1, last * scale * 1.1))
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.minorticks_off()
        axes.set(xlabel=f"completion time [{unit}]", ylabel="part of the flows")
        value_grid(axes)
        if any(map(len, ends.values())):
            figure.legend(loc="outside upper left", ncols=3 if wide else 1)
        svg = to_svg(figure)
    return Figure(svg, caption, f"Distribution of completion times: {'; '.join(said) or 'none'}.", wide)
