"""Host x host bandwidth: who sends badly, who receives badly, which pair; leaf borders drawn, outliers marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.charts.style import INK, MUTED, TROUBLE, canvas, heat, label, rate_unit, styled, to_svg
from reports.document import Figure
from reports.formatting import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_VALUES_HOSTS = 16  # up to here each cell has its number
_NAMES_HOSTS = 72
_MISSING = (0.93, 0.94, 0.95, 1.0)
_SPREAD = 0.3  # the scale covers at least this share below the best, so that noise does not look like trouble
_BEST = 95  # percentile of the values where the scale ends: one lucky pair must not make the others look bad


def heat_map(
    matrix_gbps: ArrayLike,
    hosts: Sequence[str],
    *,
    leaves: Sequence[str] = (),
    marked: Sequence[str] = (),
    quantity: str = "bandwidth",
    reference_gbps: float | None = None,
    caption: str,
) -> Figure:
    """Bandwidth from each host (row) to each other (column).

    Args:
        matrix_gbps: (H, H) Gbit/s, row = sender, column = receiver; NaN not measured; the diagonal is ignored.
        hosts: names, in the order of the rows.
        leaves: leaf of each host; borders are drawn where it changes. Empty for none.
        marked: hosts whose row and column are framed.
        quantity: label of the scale.
        reference_gbps: what a sound pair shows, as the rate that transfers are paced at; a line in the scale, which
            always reaches it. None, or what is not above 0, for no line.
        caption: of the figure.

    Raises:
        ValueError: a matrix of another size than the hosts, or another number of leaves.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    matrix = np.array(matrix_gbps, dtype=np.float64)
    count = len(hosts)
    if matrix.shape != (count, count) or len(leaves) not in {0, count}:
        raise ValueError(f"a matrix of shape {matrix.shape} and {len(leaves)} leaves for {count} hosts")
    matrix[~np.isfinite(matrix)] = np.nan
    np.fill_diagonal(matrix, np.nan)
    known = matrix[np.isfinite(matrix)]
    sound = [rate for rate in (reference_gbps or 0.0,) if math.isfinite(rate) and rate > 0]
    factor, unit = rate_unit([*map(float, known), *sound])
    ends = [float(known.min()), float(np.percentile(known, _BEST))] if len(known) else [0.0]
    low, high = min(ends + sound), max(ends + sound)
    norm = Normalize(min(low, (1 - _SPREAD) * high) * factor, (high or 1.0) * factor)
    size = 520.0 if count <= _VALUES_HOSTS else 760.0
    with styled():
        words = [min(14, max(map(len, names), default=0)) for names in (hosts, leaves)]
        figure = canvas(size + 100 + 7.5 * sum(words), size)
        axes = figure.add_subplot()
        colours = heat().reversed()(norm(np.nan_to_num(matrix * factor)))
        colours[~np.isfinite(matrix)] = _MISSING
        colours[np.arange(count), np.arange(count)] = 1.0
        if count:
            axes.imshow(colours, interpolation="none", aspect="equal")
        _names(axes, hosts, marked)
        if count <= _VALUES_HOSTS:
            _values(axes, matrix * factor, colours)
        _borders(axes, leaves)
        for index in (index for index, host in enumerate(hosts) if host in marked):
            frame: dict[str, Any] = {
                "fill": False,
                "edgecolor": TROUBLE,
                "linewidth": 2.2,
                "zorder": 5,
                "clip_on": False,
            }
            axes.add_patch(Rectangle((-0.5, index - 0.5), count, 1, **frame))
            axes.add_patch(Rectangle((index - 0.5, -0.5), 1, count, **frame))
        axes.set(xlabel="receiving host", ylabel="sending host")
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(ScalarMappable(norm, heat().reversed()), ax=axes, shrink=0.6, aspect=24)
        bar.outline.set_visible(False)
        healthy = "".join(f"sound pair: {format_number(rate * factor)} {unit}" for rate in sound)
        for rate in sound:
            bar.ax.axhline(rate * factor, color=INK, linewidth=2.4)
        bar.set_label(f"{label(quantity, 40)} [{unit}]" + (f"\nline is a {healthy}" if healthy else ""))
        svg = to_svg(figure)
    return Figure(svg, caption, _alt(matrix * factor, hosts, marked, quantity, unit, healthy))


def _names(axes: Axes, hosts: Sequence[str], marked: Sequence[str]) -> None:
    if len(hosts) > _NAMES_HOSTS:
        axes.set(xticks=[], yticks=[])
        return
    font = 11.0 if len(hosts) <= 32 else 9.0
    names = [label(host, 14) for host in hosts]
    rows = range(len(hosts))
    steep = 90 if len(hosts) > _VALUES_HOSTS or max(map(len, names), default=0) > 5 else 0
    axes.set_xticks(rows, names, rotation=steep, fontsize=font)
    axes.set_yticks(rows, names, fontsize=font)
    axes.tick_params(length=0)
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        for host, tick in zip(hosts, ticks, strict=True):
            if host in marked:
                tick.set(color=TROUBLE, fontweight="bold")


def _values(axes: Axes, matrix: Floats, colours: NDArray[np.float64]) -> None:
    for (row, column), value in np.ndenumerate(matrix):
        if row != column:
            dark = float(colours[row, column, :3] @ (0.299, 0.587, 0.114)) < 0.5
            text = format_number(float(value)) if np.isfinite(value) else "-"
            axes.text(
                column, row, text, ha="center", va="center", fontsize=10, color="white" if dark else INK
            )


def _borders(axes: Axes, leaves: Sequence[str]) -> None:
    """Frames around the blocks of hosts that share a leaf, and the leaf's name at the right."""
    from matplotlib.patches import Rectangle

    start = 0
    for leaf, group in groupby(leaves):
        size = len(list(group))
        axes.add_patch(
            Rectangle(
                (start - 0.5, start - 0.5),
                size,
                size,
                fill=False,
                edgecolor=INK,
                linewidth=1.6,
                zorder=4,
                clip_on=False,
            )
        )
        middle = start + (size - 1) / 2
        axes.text(len(leaves) - 0.4, middle, label(leaf, 12), va="center", fontsize=10.5, color=MUTED)
        if start:
            for draw in (axes.axhline, axes.axvline):
                draw(start - 0.5, color="white", linewidth=2)
        start += size


def _alt(
    matrix: Floats, hosts: Sequence[str], marked: Sequence[str], quantity: str, unit: str, healthy: str
) -> str:
    known = np.isfinite(matrix)
    text = f"Heat map of {quantity} between {len(hosts)} hosts"
    if known.any():
        row, column = np.unravel_index(int(np.nanargmin(matrix)), matrix.shape)
        median, least = float(np.nanmedian(matrix)), float(matrix[row, column])
        text += (
            f": median {format_number(median)} {unit}, lowest {format_number(least)} {unit} "
            f"from {hosts[int(row)]} to {hosts[int(column)]}"
        )
    if healthy:
        text += f"; {healthy}"
    if marked:
        text += "; marked: " + ", ".join(marked)
    return text + "."
