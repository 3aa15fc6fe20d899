"""The report of a placement: the map, loads before and after, the bound, every order's price, what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.units import format_size
from nettune.wording import some
from reports.charts.fabric_map import MapView, fabric_maps, rank_labels
from reports.charts.leaf_map import leaf_maps, leaf_rows
from reports.charts.load_histogram import load_histogram
from reports.charts.order_times import OrderTime, order_times
from reports.document import Column, Figure, KeyFigure, Part, Section, Table, Text
from topology.fabric import Fabric, NodeKind
from topology.placement.mapping import Placement
from topology.placement.place import AGAINST, OURS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Data = Mapping[str, Any]
_MIB = 2**20
_MOST_HOSTS_DRAWN = 64
_TITLES = {
    "lexicographic": "torchrun (by name)",
    "slurm": "Slurm (block)",
    "given": "the map given",
}
_LEAD = "A known hash is not a known port: before a job, loads are distributions over port draws."
_LEFT_OUT = (
    "Left out of a prediction: start-up and latency of messages, packet headers (about 4% of the bytes), congestion control,"
    " and whatever else is on the fabric unless --background tells it. Times of orders compare better than they stand alone."
)


def section(data: Data, fabric: Fabric) -> Section:
    """The map, loads and prices; more where `nettune place` was asked for more."""
    placements = data["placements"]
    own = data.get("method", OURS)
    before = data.get("before", AGAINST)
    shown = [name for name in (before, own) if "predicted" in placements.get(name, {})] or list(placements)[
        :1
    ]
    loads = {name: _loads(placements[name]["predicted"], fabric.directed_count) for name in shown}
    caption = "Mean bytes of a step on each direction of each link, over random source ports."
    parts: list[Part] = [load_maps(placements, shown, fabric, caption)]
    parts += [
        _histogram(loads, own, fabric),
        _times(placements, own),
        _prices(placements, own, fabric, brief="job" in data),
    ]
    if "links" in data:
        parts.append(_links(data["links"], before))
    if len(fabric.hosts) > _MOST_HOSTS_DRAWN:
        parts.append(_leaves(placements[own]["placement"], fabric))
    if "job" in data:
        parts.append(Text("To launch, from a folder that all hosts share:", code=data["launch"]))
        parts.append(Text("What the prediction leaves out:", items=_notes(data)))
    return Section("Placement", _LEAD, parts)


def figures(data: Data) -> list[KeyFigure]:
    """The first screen of `nettune place`."""
    placements, own = data["placements"], data.get("method", OURS)
    ours = placements[own]
    found = [
        KeyFigure("time of a step", _ms(ours["cost_us"]), _compared(data, placements, own)),
        KeyFigure(
            "lower bound",
            _ms(ours["bound_us"]),
            f"no order can be faster; gap {ours['gap']:.0%}",
        ),
        KeyFigure("most loaded link", format_size(ours["max_link_load_bytes"]), _most_loaded(data)),
    ]
    if ours["placement"]["parent"] is not None:
        kept = (
            "as few as can be" if ours["placement"]["method"] != own else "a new map gains more than it moves"
        )
        found.append(
            KeyFigure("moves", f"{ours['moves']} ranks", f"of {len(ours['placement']['ranks'])}; {kept}")
        )
    if "experts" in data:
        busiest, before = (
            data["experts"][key] for key in ("busiest_over_mean", "busiest_over_mean_in_order")
        )
        found.append(
            KeyFigure(
                "busiest expert rank", f"{busiest:.2f}x", f"of the mean; {before:.2f}x in order; experts.json"
            )
        )
    if "explain" in data:
        found += _explained(data["explain"])
    scripts = [name for name in data["files"] if name.endswith((".sh", ".yaml", ".env", ".json"))]
    found.append(KeyFigure("files", f"{len(data['files'])}", ", ".join(scripts)))
    found += [KeyFigure("not written", name, reason) for name, reason in data["refused"].items()]
    return found


def _explained(explained: Data) -> list[KeyFigure]:
    """One rank's place, a fact a line."""
    ranks, host = explained["node_ranks"], explained["host"]
    beside = f", ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else ""
    found = [
        KeyFigure(f"rank {explained['rank']}", host, f"{explained['leaf']}, NIC {explained['nic']}{beside}")
    ]
    for talk in explained["talks"]:
        hosts = talk["hosts"]
        received = format_size(talk["received_bytes"])
        detail = f"received {received}; with {some(hosts, 4)}; {talk['near']} of {len(hosts)} under its leaf"
        found.append(KeyFigure(talk["phase"], f"{format_size(talk['sent_bytes'])} sent", detail))
    for link in explained["links"][:1]:
        own, total = format_size(link["own_bytes"]), format_size(link["total_bytes"])
        detail = f"{link['link']}: {own} of {total} are this rank's"
        found.append(KeyFigure("its busiest link", _ms(link["time_us"]), detail))
    if explained["next_host"]:
        then, now = explained["next_cost_us"], explained["cost_us"]
        change = f" ({then / now - 1:+.0%})" if now else ""
        found.append(KeyFigure("next best host", explained["next_host"], f"{_ms(then)} a step{change}"))
    return found


def load_maps(placements: Data, shown: Sequence[str], fabric: Fabric, caption: str) -> Figure:
    """The fabric under each of the orders shown; a box a leaf group where hosts are too many to draw."""
    many = len(fabric.hosts) > _MOST_HOSTS_DRAWN
    views = []
    for name in shown:
        one = placements[name]
        placement = Placement.from_json(one["placement"], fabric)
        load = _loads(one["predicted"], fabric.directed_count) / _MIB
        views.append((f"{_title(name)} order, predicted", placement, load))
    quantity = "load [MiB]"
    if many:
        boxes = f"{caption} A box is all hosts of a leaf group, a line the busiest of its cables."
        return leaf_maps(fabric, views, quantity=quantity, caption=boxes)
    drawn = [MapView(title, load, rank_labels(placement, fabric)) for title, placement, load in views]
    return fabric_maps(fabric, drawn, quantity=quantity, caption=caption)


def _histogram(loads: Mapping[str, Floats], own: str, fabric: Fabric) -> Figure:
    between = between_switches(fabric)
    what = "between switches" if between.any() else "of hosts"
    counted = between if between.any() else np.ones_like(between)
    titled = {_title(name): load[counted] for name, load in loads.items()}
    caption = (
        f"Links {what} by the mean bytes that a step puts on each direction; triangles mark the most loaded."
    )
    return load_histogram(titled, own=_title(own), caption=caption)


def between_switches(fabric: Fabric) -> NDArray[np.bool_]:
    """(2L,) directed links whose both ends are switches: what a placement changes."""
    switch = fabric.nodes.kind[fabric.ports.node] == NodeKind.SWITCH
    found: NDArray[np.bool_] = switch[fabric.directed_ports].all(axis=1)
    return found


def _uplink_bytes(one: Data, fabric: Fabric) -> float:
    if "max_uplink_bytes" in one:
        return float(one["max_uplink_bytes"])
    return float(_loads(one["predicted"], fabric.directed_count)[between_switches(fabric)].max(initial=0.0))


def _times(placements: Data, own: str) -> Figure:
    bars = [
        OrderTime(_title(name), tuple(one.get("time_us") or one["predicted"]["time_us"]), own=name == own)
        for name, one in sorted(placements.items(), key=lambda item: -item[1]["cost_us"])
    ]
    # That of a map given may be lower: it may use hosts that the others must not.
    bound_us = (
        placements[own]["bound_us"]
        if own in placements
        else min(one["bound_us"] for one in placements.values())
    )
    caption = (
        "Predicted communication of a step: bars to p95 over port draws, the line from p5 over p50 to p95."
    )
    return order_times(bars, bound_us=bound_us, caption=caption)


def _prices(placements: Data, own: str, fabric: Fabric, *, brief: bool) -> Table:
    ours = placements[own]["cost_us"] if own in placements else None
    uplinks = {name: _uplink_bytes(one, fabric) for name, one in placements.items()}
    factor, unit = _unit(uplinks.values())
    # Digits enough for the quickest order.
    digits = 1 if min(one["cost_us"] for one in placements.values()) >= 1e4 else 3
    rows = [
        [
            _title(name),
            one["cost_us"] / 1e3,
            _percent(one["cost_us"] / ours - 1) if ours and name != own else "",
            100 * one["gap"],
            uplinks[name] / factor,
        ]
        for name, one in placements.items()
    ]
    return Table(
        "Predicted communication of a step at p95 over port draws; gap to the lower bound of any placement.",
        [
            Column("order"),
            Column("time", "ms", "min", digits),
            Column("against ours"),
            Column("gap", "%", "min", 0),
            Column("busiest uplink", unit, "min", 1),
        ],
        rows,
        own=list(placements).index(own) if own in placements else None,
        brief=brief,
    )


def _links(links: Sequence[Data], before: str) -> Table:
    factor, unit = _unit(one[key] for one in links for key in ("bytes", "before_bytes"))
    rows = [
        [
            one["link"],
            one["bytes"] / factor,
            one["before_bytes"] / factor,
            ", ".join(
                f"{name} {carried / one['bytes']:.0%}"
                for name, carried in sorted(one["phases"].items(), key=lambda item: -item[1])
            ),
        ]
        for one in links
    ]
    return Table(
        f"The busiest link of a host and those between switches; before is {_title(before)}.",
        [Column("link"), Column("ours", unit, "", 2), Column("before", unit, "", 2), Column("loaded by")],
        rows,
        brief=True,
    )


def _leaves(placement: Data, fabric: Fabric) -> Table:
    rows = leaf_rows(Placement.from_json(placement, fabric), fabric)
    return Table(
        "Ranks of each leaf group.",
        [Column("leaf group"), Column("hosts"), Column("used"), Column("ranks")],
        [list(row) for row in rows],
    )


def _notes(data: Data) -> list[str]:
    excluded = data["placements"][data["method"]]["placement"]["excluded"]
    notes = [_LEFT_OUT, *data.get("notes", [])]
    if excluded:
        notes.append(
            f"Hosts that were not to be used: {', '.join(excluded[:20])}{' and more' if len(excluded) > 20 else ''}"
        )
    return notes + [f"Not written: {name}: {reason}" for name, reason in data["refused"].items()]


def _most_loaded(data: Data) -> str:
    links = data["links"]
    top = max(links, key=lambda one: float(one["bytes"]), default=None)
    return f"{top['link']}, mean of a step" if top else "nothing crosses the network"


def _compared(data: Data, placements: Data, own: str) -> str:
    before = data.get("before", AGAINST)
    if before not in placements or not placements[own]["cost_us"]:
        return "predicted, p95"
    worse = placements[before]["cost_us"] / placements[own]["cost_us"] - 1
    return f"predicted, p95; {_title(before)} {_ms(placements[before]['cost_us'])} ({_percent(worse)})"


def _ms(time_us: float) -> str:
    """`1,478 ms`, `0.336 ms`: three digits or more."""
    value = time_us / 1e3
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f} ms"


def _percent(change: float) -> str:
    """`+203%`, and a decimal where it is little."""
    return f"{change:+.0%}" if abs(change) >= 0.1 else f"{change:+.1%}"


def _unit(values: Iterable[float]) -> tuple[float, str]:
    """(bytes, name) of the unit in which the largest of the values reads well."""
    largest = max((float(value) for value in values), default=0.0)
    return (2.0**30, "GiB") if largest >= 10 * 2**30 else (float(_MIB), "MiB")


def _title(name: str) -> str:
    return _TITLES.get(name, name)


def _loads(result: Data, count: int) -> Floats:
    loads = np.zeros(count)
    for phase in result["phases"]:
        for row, value in phase["link_bytes"].items():
            loads[int(row)] += value
    return loads
