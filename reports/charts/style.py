"""One look for every chart: sizes in pixels, fonts, a palette that colour-blind readers can tell apart, units.

The palette is that of Okabe and Ito (2008). Our own result is blue, everything it is compared with grey or orange,
trouble vermilion; shapes or words repeat what colours say. Figures are white cards in a dark page too.

matplotlib is imported where something is drawn: many reports draw nothing, and it takes half of their time.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from reports.charts.svg import inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure as MplFigure

WIDE_PX = 1040
HALF_PX = 510

INK = "#1f2933"
MUTED = "#5b6672"
GRID = "#e1e5ea"
IDLE = "#c3cad2"
OWN = "#0072b2"
OTHER = "#8d98a5"
ACCENT = "#e69f00"
TROUBLE = "#d55e00"
LINES = ("#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#5b6672")
MARKERS = ("s", "^", "D", "v", "P")

# Any: matplotlib's stubs list the keys of one release
_RC: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 12,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "grid.color": GRID,
    "hatch.linewidth": 0.8,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "nettune",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 11,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 11,
}


@cache
def heat() -> LinearSegmentedColormap:
    """From pale to dark, so that it reads in grey too; the dark end is where the trouble is."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "nettune", ["#bccbd9", "#f3c96b", "#e2711d", "#a4161a", "#4a0413"]
    )


@contextmanager
def styled() -> Iterator[None]:
    """Draw inside this: matplotlib's defaults and our look, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def canvas(width_px: float, height_px: float, *, layout: bool = True) -> MplFigure:
    """An empty figure whose unit of text and lines is one pixel of the page at its normal width."""
    from matplotlib.figure import Figure as MplFigure

    return MplFigure(figsize=(width_px / 72, height_px / 72), layout="constrained" if layout else None)


def to_svg(figure: MplFigure) -> str:
    """The `<svg>` element of a figure: text stays text, the same input gives the same bytes."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return inline(buffer.getvalue())


@cache
def _known_characters() -> frozenset[int]:
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(font.get_charmap())


def label(text: str, longest: int = 28) -> str:
    """A name fit for a figure: no control characters, nothing the font lacks, shortened in its middle."""
    known = _known_characters()
    text = "".join(char if char.isprintable() and ord(char) in known else "?" for char in text)
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}\u2026{text[len(text) - tail :]}"


def rate_unit(values_gbps: Sequence[float]) -> tuple[float, str]:
    """(factor from Gbit/s, unit) in which the largest of the values reads well."""
    return _unit(values_gbps, [(1.0, 1.0, "Gbit/s"), (1e-3, 1e3, "Mbit/s")], (1e6, "kbit/s"))


def bytes_unit(values_bytes: Sequence[float]) -> tuple[float, str]:
    """(factor from bytes, unit), decimal: counters are compared with link rates."""
    return _unit(values_bytes, [(1e9, 1e-9, "GB"), (1e6, 1e-6, "MB"), (1e3, 1e-3, "kB")], (1.0, "B"))


def time_unit(values_s: Sequence[float]) -> tuple[float, str]:
    """(factor from seconds, unit)."""
    return _unit(values_s, [(1.0, 1.0, "s"), (1e-3, 1e3, "ms")], (1e6, "us"))


def _unit(
    values: Sequence[float], steps: Sequence[tuple[float, float, str]], smallest: tuple[float, str]
) -> tuple[float, str]:
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0:
        return steps[0][1], steps[0][2]
    return next(((factor, unit) for least, factor, unit in steps if largest >= least), smallest)


def size_name(size_bytes: float) -> str:
    """`64K` of 65536: sizes are written as nccl-tests takes them."""
    for factor, unit in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g}{unit}"
    return f"{size_bytes:g}"


def value_grid(axes: Axes, axis: str = "y") -> None:
    """Pale lines across the axis of values, and no ticks on the other."""
    axes.grid(visible=True, axis="x" if axis == "x" else "y")
    axes.tick_params(axis="y" if axis == "x" else "x", length=0)
