"""How many links carry how much: one group of bars for each range of bytes, an order a bar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reports.charts.style import (
    HALF_PX,
    INK,
    LINES,
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

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_BINS = 14
_HATCHES = ("", "//", "..", "xx")


def load_histogram(
    loads_bytes: Mapping[str, ArrayLike], *, own: str | None = None, caption: str, wide: bool = False
) -> Figure:
    """Links by their bytes, the same ranges for all orders; the most loaded link of each order is written out.

    Args:
        loads_bytes: name of the order -> bytes of each link that counts (for example the uplinks); NaN is left out.
        own: the name that is drawn as ours.
        caption: of the figure.
        wide: as in `Figure`.
    """
    known = {name: _finite(loads) for name, loads in loads_bytes.items()}
    known = {name: loads for name, loads in known.items() if len(loads)}
    peaks = {name: float(loads.max()) for name, loads in known.items()}
    factor, unit = bytes_unit(list(peaks.values()))
    top = max(peaks.values(), default=0.0) * factor or 1.0
    edges = np.linspace(0.0, top, _BINS + 1)
    step = edges[1] / (len(known) + 0.6)
    with styled():
        figure = canvas(WIDE_PX if wide else HALF_PX, 340)
        axes = figure.add_subplot()
        others, most = 0, 1
        for number, (name, loads) in enumerate(known.items()):
            counts, _ = np.histogram(loads * factor, edges)
            mine = name == own
            colour = OWN if mine else (OTHER, *LINES)[others % (len(LINES) + 1)]
            axes.bar(
                edges[:-1] + (number + 0.3) * step, counts, step, align="edge", color=colour, edgecolor="white",
                hatch="" if mine else _HATCHES[others % len(_HATCHES)], linewidth=0.4,
                label=f"{label(name, 22)}, most {format_number(peaks[name] * factor)} {unit}", zorder=2,
            )  # fmt: skip
            axes.plot(
                [peaks[name] * factor], [0], marker="v", markersize=9, color=colour, markeredgecolor=INK,
                markeredgewidth=0.8, clip_on=False, zorder=4, linestyle="",
            )  # fmt: skip
            others += not mine
            most = max(most, int(counts.max()))
        axes.set(
            xlim=(0, top * 1.03), ylim=(0, 1.08 * most), xlabel=f"sent on a link [{unit}]", ylabel="links"
        )
        axes.locator_params(axis="y", integer=True)
        value_grid(axes)
        axes.tick_params(axis="x", length=3)
        if peaks:
            figure.legend(loc="outside upper left", ncols=3 if wide else 1)
        svg = to_svg(figure)
    said = [f"{name} up to {format_number(peak * factor)} {unit}" for name, peak in peaks.items()]
    return Figure(svg, caption, f"Histogram of link loads: {', '.join(said) or 'none'}.", wide)


def _finite(loads: ArrayLike) -> Floats:
    values = np.ravel(np.asarray(loads, dtype=np.float64))
    return values[np.isfinite(values)]
