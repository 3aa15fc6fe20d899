"""How evenly the links are loaded: the share of links that carry at most so much, one line an order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reports.charts.style import LINES, OWN, WIDE_PX, bytes_unit, canvas, label, styled, to_svg, value_grid
from reports.document import Figure
from reports.formatting import format_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_STROKES = ("--", "-.", ":", (0, (5, 1, 1, 1)))


def load_distribution(
    loads_bytes: Mapping[str, ArrayLike], *, own: str | None = None, caption: str, wide: bool = False
) -> Figure:
    """Cumulative share of the links over their bytes.

    Args:
        loads_bytes: name of the order -> bytes of each link that counts (for example the uplinks); NaN is left out.
        own: the name that is drawn as ours.
        caption: of the figure.
        wide: as in `Figure`.
    """
    known = {name: np.sort(_finite(loads)) for name, loads in loads_bytes.items()}
    peaks = {name: float(loads[-1]) for name, loads in known.items() if len(loads)}
    factor, unit = bytes_unit(list(peaks.values()))
    top = max(peaks.values(), default=0.0) * factor or 1.0
    with styled():
        figure = canvas(WIDE_PX if wide else WIDE_PX / 2 - 10, 340)
        axes = figure.add_subplot()
        others = 0
        for name, loads in known.items():
            if not len(loads):
                continue
            mine = name == own
            x = np.concatenate([[0.0], loads, [1.05 * top / factor]]) * factor
            share = np.concatenate([[0.0], np.arange(1, len(loads) + 1) / len(loads), [1.0]]) * 100
            axes.step(
                x, share, where="post", label=label(name), color=OWN if mine else LINES[others % len(LINES)],
                linestyle="-" if mine else _STROKES[others % len(_STROKES)], linewidth=2.6 if mine else 1.8,
                zorder=3 if mine else 2,
            )  # fmt: skip
            others += not mine
        axes.set(
            xlim=(0, 1.05 * top),
            ylim=(0, 103),
            xlabel=f"sent on a link [{unit}]",
            ylabel="links with at most so much [%]",
        )
        value_grid(axes)
        axes.tick_params(axis="x", length=3)
        if peaks:
            figure.legend(loc="outside upper left", ncols=min(len(peaks), 3))
        svg = to_svg(figure)
    said = [f"{name} up to {format_number(peak * factor)} {unit}" for name, peak in peaks.items()]
    return Figure(
        svg, caption, f"Cumulative share of links over their load: {', '.join(said) or 'none'}.", wide
    )


def _finite(loads: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.ravel(np.asarray(loads, dtype=np.float64))
    return values[np.isfinite(values)]
