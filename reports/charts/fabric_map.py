"""The fabric as a drawing: tiers, parallel cables, the load of both directions of each, what is at fault.

A cable is drawn in two halves, as on a network weather map: the half next to a node shows what that node sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.charts.clos_layout import Layout, clos_layout
from reports.charts.style import (
    HALF_PX,
    IDLE,
    MUTED,
    OTHER,
    TROUBLE,
    WIDE_PX,
    canvas,
    heat,
    label,
    styled,
    to_svg,
)
from reports.document import Figure
from reports.formatting import format_number
from topology.fabric import Fabric, LinkState, NodeKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as MplFigure
    from numpy.typing import ArrayLike, NDArray

    from topology.placement.mapping import Placement

    Floats = NDArray[np.float64]

_SIDE_BY_SIDE_HOSTS = 16  # more hosts than this: two maps stand one above the other
_MARGIN = 10.0
_HEAD = 44.0
_FOOT = 62.0
_NAMED_SLOT = 10.0  # hosts narrower than this have no name


@dataclass(frozen=True)
class MapView:
    """One state of the fabric.

    Attributes:
        title: its name, `random order`.
        load: (2L,) load of each directed link; NaN not measured; None for a map without loads.
        ranks: host name -> what runs on it, `rank 3`.
        highlight: elements at fault: ElementIds of hosts, NICs, switches, ports, links.
        fact: what is written under the title; the most loaded link where left out.
    """

    title: str = ""
    load: ArrayLike | None = None
    ranks: Mapping[str, str] = field(default_factory=dict)
    highlight: Sequence[str] = ()
    fact: str = ""


def rank_labels(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """Host name -> `r3`, or `r0-7` where a host has several ranks in a row, else `r0,4`."""
    ranks: dict[str, list[int]] = {}
    for rank, host in enumerate(placement.hosts(fabric)):
        ranks.setdefault(host, []).append(rank)
    return {host: f"r{folded(numbers)}" for host, numbers in ranks.items()}


def fabric_map(
    fabric: Fabric,
    load: ArrayLike | None = None,
    *,
    quantity: str = "load [MB]",
    title: str = "",
    ranks: Mapping[str, str] | None = None,
    highlight: Sequence[str] = (),
    caption: str,
) -> Figure:
    """One map.

    Args:
        fabric: what to draw.
        load: (2L,) load of each directed link in the unit that `quantity` names.
        quantity: label of the colour bar with its unit in brackets.
        title: over the drawing.
        ranks: host name -> what runs on it.
        highlight: elements at fault; those that the fabric does not have are left out.
        caption: of the figure.
    """
    return fabric_maps(
        fabric, [MapView(title, load, ranks or {}, highlight)], quantity=quantity, caption=caption
    )


def fabric_maps(
    fabric: Fabric, views: Sequence[MapView], *, quantity: str = "load [MB]", caption: str
) -> Figure:
    """Several states of one fabric with one scale of colours; two of a small fabric side by side.

    Raises:
        ValueError: no view, or loads of another length than the fabric's directed links.
    """
    if not views:
        raise ValueError("a fabric map needs at least one view")
    loads = [_checked(fabric, view.load) for view in views]
    measured = [load for load in loads if load is not None]
    peak = max((float(np.nanmax(load)) for load in measured if np.isfinite(load).any()), default=0.0)
    columns = 2 if len(views) > 1 and len(fabric.hosts) <= _SIDE_BY_SIDE_HOSTS else 1
    panel = (HALF_PX if columns == 2 else WIDE_PX) - 2 * _MARGIN
    layout = clos_layout(
        fabric, panel, max((len(_host_text(v, h)) for v in views for h in fabric.hosts), default=4)
    )
    from matplotlib.colors import Normalize

    rows = -(-len(views) // columns)
    row_height = layout.height + _HEAD + _MARGIN
    annotated = (
        measured or any(view.highlight for view in views) or (fabric.links.state == LinkState.DOWN).any()
    )
    height = rows * row_height + (_FOOT if annotated else 0)
    with styled():
        figure = canvas(WIDE_PX, height, layout=False)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDE_PX), ylim=(0, height))
        axes.set_axis_off()
        norm = Normalize(0, peak or 1.0)
        for index, (view, load) in enumerate(zip(views, loads, strict=True)):
            corner = (
                _MARGIN + (index % columns) * (panel + 2 * _MARGIN),
                height - (index // columns + 1) * row_height + _MARGIN,
            )
            _panel(axes, fabric, layout, view, load, norm, quantity, corner)
        _legend(figure, axes, fabric, views, norm if measured else None, quantity, height)
        svg = to_svg(figure)
    return Figure(svg, caption, _alt(fabric, views, loads, quantity))


def _checked(fabric: Fabric, load: ArrayLike | None) -> Floats | None:
    if load is None:
        return None
    values = np.asarray(load, dtype=np.float64)
    if values.shape != (fabric.directed_count,):
        raise ValueError(f"loads of shape {values.shape} for {fabric.directed_count} directed links")
    return np.where(np.isfinite(values), values, np.nan)


def _panel(
    axes: Axes,
    fabric: Fabric,
    layout: Layout,
    view: MapView,
    load: Floats | None,
    norm: Normalize,
    quantity: str,
    corner: tuple[float, float],
) -> None:
    at = np.array(corner)
    axes.text(
        at[0], at[1] + layout.height + 24, label(view.title, 60), fontsize=13, weight="bold", va="bottom"
    )
    for peak in _facts(fabric, view, load, quantity)[:1]:
        axes.text(at[0], at[1] + layout.height + 8, label(peak, 80), fontsize=11, color=MUTED, va="bottom")
    marked = _Marked(fabric, view.highlight)
    ends = layout.ends + at
    _cables(axes, fabric, ends, load, norm, marked)
    for row in range(len(fabric.nodes.name)):
        _node(axes, fabric, layout, view, row, at, trouble=row in marked.nodes)
    badges = [
        (
            at[0] + layout.x[row] + layout.box_width[row] / 2,
            at[1] + layout.y[row] + layout.box_height[row] / 2,
        )
        for row in marked.nodes
    ]
    badges += [tuple(ends[2 * link : 2 * link + 2].mean(axis=0)) for link in marked.links]
    badges += [tuple(0.82 * ends[out] + 0.18 * ends[out ^ 1]) for out in marked.outs]
    for x, y in badges:
        _badge(axes, x, y)


class _Marked:
    """Rows of what is at fault: nodes, cables, and ports as the directed links that leave them."""

    def __init__(self, fabric: Fabric, highlight: Iterable[str]) -> None:
        wanted = set(map(str, highlight))
        self.nodes = [row for row in range(len(fabric.nodes.name)) if str(fabric.node_element(row)) in wanted]
        self.links = [
            row for row in range(len(fabric.links.port_a)) if str(fabric.link_element(row)) in wanted
        ]
        ports = [row for row in range(len(fabric.ports.name)) if str(fabric.port_element(row)) in wanted]
        self.outs = [int(fabric.out_of_port[row]) for row in ports if fabric.out_of_port[row] >= 0]
        # a port without a cable is marked on its node
        self.nodes += [int(fabric.ports.node[row]) for row in ports if fabric.out_of_port[row] < 0]
        self.cables = {*self.links, *(out // 2 for out in self.outs)}


def _cables(
    axes: Axes, fabric: Fabric, ends: Floats, load: Floats | None, norm: Normalize, marked: _Marked
) -> None:
    from matplotlib.collections import LineCollection

    if not len(ends):
        return
    middle = (ends[0::2] + ends[1::2]) / 2
    middle = np.repeat(middle, 2, axis=0)
    halves = np.stack([ends, ends + 0.985 * (middle - ends)], axis=1)
    whole = np.stack([ends[0::2], ends[1::2]], axis=1)
    if marked.cables:
        axes.add_collection(
            LineCollection(
                list(whole[sorted(marked.cables)]),
                colors=TROUBLE,
                linewidths=12,
                alpha=0.28,
                capstyle="round",
            )
        )
    up = np.repeat(fabric.links.state == LinkState.UP, 2)
    down_rows = np.flatnonzero(fabric.links.state == LinkState.DOWN)
    axes.add_collection(
        LineCollection(list(whole[down_rows]), colors=MUTED, linewidths=1.4, linestyles=(0, (2, 3)))
    )
    if load is None:
        axes.add_collection(LineCollection(list(whole[up[0::2]]), colors=OTHER, linewidths=1.6))
        return
    known = up & np.isfinite(load)
    unknown = up & ~np.isfinite(load)
    axes.add_collection(
        LineCollection(list(halves[unknown]), colors=IDLE, linewidths=1.2, linestyles=(0, (1, 2)))
    )
    order = np.flatnonzero(known)[np.argsort(load[known], kind="stable")]  # the heavy ones on top
    heaviest = 4.3 if len(whole) <= 64 else 2.6
    share = np.asarray(norm(load[order]), dtype=np.float64)
    axes.add_collection(
        LineCollection(list(halves[order]), colors=heat()(share), linewidths=1.2 + heaviest * share)
    )


def _host_text(view: MapView, host: str) -> str:
    ranks = view.ranks.get(host, "")
    return label(host, 18) + (f"  {label(ranks, 12)}" if ranks else "")


def _node(
    axes: Axes, fabric: Fabric, layout: Layout, view: MapView, row: int, at: Floats, *, trouble: bool
) -> None:
    from matplotlib.patches import FancyBboxPatch

    name = fabric.nodes.name[row]
    host = fabric.nodes.kind[row] == NodeKind.HOST
    width, height = layout.box_width[row], layout.box_height[row]
    x, y = layout.x[row] + at[0], layout.y[row] + at[1]
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle=f"round,pad=0,rounding_size={min(4.0, width / 3)}",
            facecolor="#fde9dc" if trouble else "#f3f6f9" if host else "#e6edf5",
            edgecolor=TROUBLE if trouble else MUTED,
            linewidth=2.2 if trouble else 0.9,
            zorder=3,
        )
    )
    text: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4, "fontsize": 11}
    if not host:
        axes.text(x, y, label(name, max(3, int((width - 4) / 6.4))), weight="bold", **text)
    elif not layout.upright:
        room = max(3, int((width - 2) / 6.2))
        ranks = view.ranks.get(name, "")
        axes.text(x, y + (7 if ranks else 0), label(name, room), **text)
        if ranks:
            axes.text(x, y - 8, label(ranks, room), color=MUTED, **(text | {"fontsize": 10.5}))
    elif layout.slot >= _NAMED_SLOT:
        upwards = text | {"rotation": 90, "fontsize": min(11.0, max(9.0, layout.slot - 3))}
        axes.text(x, y, _host_text(view, name), **upwards)


def _badge(axes: Axes, x: float, y: float) -> None:
    axes.plot(
        [x],
        [y],
        marker="o",
        markersize=15,
        color=TROUBLE,
        markeredgecolor="white",
        markeredgewidth=1.2,
        zorder=6,
    )
    axes.text(x, y - 0.5, "!", color="white", weight="bold", fontsize=12, ha="center", va="center", zorder=7)


def _legend(
    figure: MplFigure,
    axes: Axes,
    fabric: Fabric,
    views: Sequence[MapView],
    norm: Normalize | None,
    quantity: str,
    height: float,
) -> None:
    from matplotlib.cm import ScalarMappable

    x = _MARGIN
    if norm is not None:
        bar = figure.add_axes((_MARGIN / WIDE_PX, 30 / height, 240 / WIDE_PX, 10 / height))
        ticks = figure.colorbar(ScalarMappable(norm, heat()), cax=bar, orientation="horizontal")
        ticks.outline.set_visible(False)
        ticks.ax.tick_params(labelsize=10.5, length=3)
        ticks.ax.locator_params(nbins=5)
        axes.text(_MARGIN, 44, label(quantity, 60), fontsize=11, va="bottom")
        axes.text(
            276,
            35,
            "Half a cable shows what the node next to it sends;\nwide and dark is much.",
            fontsize=11,
            color=MUTED,
            va="center",
        )
        x = 580.0
    notes = []
    if any(view.highlight for view in views):
        notes.append(("badge", "at fault"))
    if (fabric.links.state == LinkState.DOWN).any():
        notes.append(("down", "cable is down"))
    for kind, text in notes:
        if kind == "badge":
            _badge(axes, x + 9, 35)
        else:
            axes.plot([x, x + 26], [35, 35], color=MUTED, linewidth=1.4, linestyle=(0, (2, 3)))
        axes.text(x + 32, 35, text, fontsize=11, va="center")
        x += 140


def _facts(fabric: Fabric, view: MapView, load: Floats | None, quantity: str) -> list[str]:
    return [view.fact] if view.fact else _peaks(fabric, load, quantity)


def _peaks(fabric: Fabric, load: Floats | None, quantity: str) -> list[str]:
    """`busiest between switches: leaf0:u1 > spine1:d0, 37.7 MB`, then `most loaded: ...` where that is another link.

    Between switches comes first: a host's own links carry the same whatever the order of ranks, those in between
    are what a placement changes.
    """
    if load is None:
        return []
    switch = fabric.nodes.kind[fabric.ports.node] == NodeKind.SWITCH
    between = switch[fabric.directed_ports].all(axis=1)
    unit = quantity.rpartition("[")[2].rstrip("]") if "[" in quantity else ""
    peaks: dict[int, str] = {}
    for name, of in (("busiest between switches", between), ("most loaded", np.ones_like(between))):
        values = np.where(of & np.isfinite(load), load, 0.0)
        link = int(np.argmax(values)) if len(values) else 0
        if len(values) and values[link] > 0 and not any(load[one] >= values[link] for one in peaks):
            said = f"{name}: {fabric.directed_name(link)}, {format_number(float(load[link]))} {unit}"
            peaks[link] = said.rstrip()
    return list(peaks.values())


def _alt(fabric: Fabric, views: Sequence[MapView], loads: Sequence[Floats | None], quantity: str) -> str:
    parts = [
        f"Fabric of {len(fabric.hosts)} hosts, {len(fabric.switches)} switches and {len(fabric.links.port_a)} cables."
    ]
    for view, load in zip(views, loads, strict=True):
        facts = _facts(fabric, view, load, quantity)
        if view.highlight:
            facts.append("at fault: " + ", ".join(map(str, view.highlight)))
        said = "; ".join(facts)
        if said:
            parts.append(f"{view.title or 'Map'}: {said}.")
    return " ".join(parts)


def folded(numbers: Sequence[int]) -> str:
    """`0-7,12,13` of rising numbers: three or more in a row are folded."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
