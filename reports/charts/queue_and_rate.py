"""Queues above, sending rates below, on one axis of time: whether congestion control settles, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reports.charts.style import (
    LINES,
    MUTED,
    OWN,
    TROUBLE,
    WIDE_PX,
    bytes_unit,
    canvas,
    label,
    rate_unit,
    styled,
    time_unit,
    to_svg,
    value_grid,
)
from reports.document import Figure
from reports.formatting import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_COLOURS = (OWN, *LINES)


def queue_and_rate(
    time_us: ArrayLike,
    queues_bytes: Mapping[str, ArrayLike],
    rates_gbps: Mapping[str, ArrayLike],
    *,
    thresholds_bytes: Mapping[str, float] | None = None,
    caption: str,
) -> Figure:
    """Lines over time; gaps (NaN) are left open.

    Args:
        time_us: (S,) moments.
        queues_bytes: name of a port -> (S,) its queue.
        rates_gbps: name of a flow -> (S,) its rate.
        thresholds_bytes: name -> a queue at which something begins; dashed. Those far above all queues are not drawn.
        caption: of the figure.

    Raises:
        ValueError: a column of another length than the times.
    """
    time_s = np.asarray(time_us, dtype=np.float64) / 1e6
    queues = {name: np.asarray(values, dtype=np.float64) for name, values in queues_bytes.items()}
    rates = {name: np.asarray(values, dtype=np.float64) for name, values in rates_gbps.items()}
    for name, values in (*queues.items(), *rates.items()):
        if values.shape != time_s.shape:
            raise ValueError(f"{name}: {values.shape} values for {time_s.shape} moments")
    peak = max((_peak(values) for values in queues.values()), default=0.0)
    fastest = max((_peak(values) for values in rates.values()), default=0.0)
    (time_factor, time_name), (size, size_name) = time_unit(time_s.tolist()), bytes_unit([peak])
    rate, rate_name = rate_unit([fastest])
    with styled():
        figure = canvas(WIDE_PX, 520)
        above, below = figure.subplots(2, 1, sharex=True)
        _lines(above, time_s * time_factor, {name: values * size for name, values in queues.items()})
        for name, threshold in (thresholds_bytes or {}).items():
            if threshold <= 1.5 * peak:
                above.axhline(threshold * size, color=TROUBLE, linewidth=1.2, linestyle="--")
                above.annotate(
                    name, (0.995, threshold * size), xycoords=("axes fraction", "data"), xytext=(0, 3),
                    textcoords="offset points", ha="right", fontsize=11, color=TROUBLE,
                )  # fmt: skip
        _lines(below, time_s * time_factor, {name: values * rate for name, values in rates.items()})
        above.set_ylabel(f"queue [{size_name}]")
        below.set(ylabel=f"rate [{rate_name}]", xlabel=f"time [{time_name}]")
        svg = to_svg(figure)
    alt = (
        f"Queues of {len(queues)} ports up to {format_number(peak * size)} {size_name}, rates of {len(rates)} flows up to"
        f" {format_number(fastest * rate)} {rate_name}, over time."
    )
    return Figure(svg, caption, alt)


def _lines(axes: Axes, time: Floats, values: Mapping[str, Floats]) -> None:
    for number, (name, column) in enumerate(values.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        # Only few lines can be told apart by their names.
        named = label(name, 30) if len(values) <= len(_COLOURS) else None
        axes.plot(time, column, color=colour if named else MUTED, linewidth=1.3, label=named)
    axes.set_ylim(bottom=0)
    value_grid(axes)
    if 0 < len(values) <= len(_COLOURS):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)


def _peak(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else 0.0
