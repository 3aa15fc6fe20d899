"""Sections of reports out of the JSON that steps leave behind: figures and tables, one function a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nettune.checks import Finding, Status
from nettune.stats import Interval
from nettune.units import format_size
from nettune.workflows.placed import load_maps
from reports.charts.busbw_against_size import SizeSeries, busbw_against_size
from reports.charts.fabric_map import fabric_map
from reports.charts.heat_map import heat_map
from reports.charts.measured_against_predicted import LinkRow, measured_against_predicted
from reports.charts.orders_bar import OrderBar, orders_bar
from reports.charts.step_breakdown import StepParts, step_breakdown
from reports.charts.sweep_curve import SweepPoint, sweep_curve
from reports.document import Column, Findings, Part, Section, Table, Text
from topology.fabric import Fabric
from topology.placement.place import AGAINST, OURS

Data = Mapping[str, Any]
_FLOP_TERMS = (
    "N_mm parameters in matrix products, L layers, H heads of size Q, T tokens of a sequence, each per token"
)


def qualification(data: Data, fabric: Fabric, findings: list[Finding]) -> Section:
    """Findings, what did not pass on the fabric, the matrix of pairs."""
    parts: list[Part] = []
    if data.get("fault"):
        fault = data["fault"]
        parts.append(Text(f"Injected fault {fault['kind']}: {fault['what']} ({', '.join(fault['where'])})."))
    parts.append(Findings(findings))
    blamed = [str(f.where) for f in findings if f.status in (Status.FAIL, Status.WARN)]
    if blamed:
        parts.append(fabric_map(fabric, highlight=blamed, caption="What did not pass, on the fabric."))
    qualified = data.get("qualify")
    if qualified:
        hosts = qualified["hosts"]
        leaves = [
            fabric.nodes.name[leaf] if (leaf := fabric.leaf_of(fabric.nics(host)[0])) is not None else ""
            for host in hosts
        ]
        marked = [f.where.node for f in findings if f.status is Status.FAIL and f.where.node in hosts]
        parts.append(
            heat_map(
                np.array([[math.nan if v is None else v for v in row] for row in qualified["matrix_gbps"]]),
                hosts,
                leaves=leaves,
                marked=[name for name in marked if name],
                # Transfers are paced below their path's rate; this is what a sound pair shows.
                reference_gbps=max((flow["offered_gbps"] for flow in qualified["flows"]), default=None),
                caption="Delivered payload of paced pairwise transfers, sender by receiver; lines separate leaves.",
            )
        )
    if not qualified:
        return Section("Structure", "What the nodes say of themselves; no transfer has tested it.", parts)
    lead = "Every host and every link was tested by real transfers whose path is known from the hash."
    return Section("Qualification", lead, parts)


def comparison(data: Data) -> Section:
    """Busbw of each order, against size, and bytes of links."""
    orders, rate = data["comparison"]["orders"], data.get("link_rate_gbps")
    parts: list[Part] = [
        orders_bar(
            [_bar(order) for order in orders],
            link_rate_gbps=rate,
            caption="Busbw over gloo; dots are initialisations, bars their median.",
        ),
        _busbw_table(orders, rate),
    ]
    if "sizes" in data:
        caption = "Busbw against message size, one initialisation."
        series = [_series(name, points) for name, points in data["sizes"].items()]
        parts.append(busbw_against_size(series, link_rate_gbps=rate, caption=caption))
    for order in orders:
        rows = [
            LinkRow(row["name"], _number(row["predicted_bytes"]), _number(row["measured_bytes"]))
            for row in order["inits"][0]["links"]
        ]
        if order["name"] in (AGAINST, OURS) and any(math.isfinite(row.predicted_bytes) for row in rows):
            caption = (
                f"Bytes on each directed link, {order['name']} order, first initialisation: kernel counters beside the"
                " prediction from the connections' real ports."
            )
            parts.append(measured_against_predicted(rows, caption=caption))
    lead = "Each initialisation makes new connections, so it draws new ports and new paths; orders are interleaved."
    return Section("Communication under each order of ranks", lead, parts)


def second(results: Data) -> Section:
    """The second fabric: predicted loads and measured step time."""
    fabric, job = Fabric.from_json(results["fabric"]), results["job"]
    placements, orders = results["placements"], results["comparison"]["orders"]
    rows = [
        [
            order["name"],
            _scaled(interval(order["time_s"]), 1e3),
            placements[order["name"]]["predicted"]["time_us"][1] / 1e3,
            placements[order["name"]]["bound_us"] / 1e3,
        ]
        for order in orders
    ]
    table = Table(
        f"Communication of one step: PP {job['pp']} x DP {job['dp']}, rank order {job['order']}.",
        [
            Column("order"),
            Column("measured", "ms", "min", 0),
            Column("predicted p50", "ms", "", 0),
            Column("bound", "ms", "", 0),
        ],
        rows,
        own=[order["name"] for order in orders].index(OURS),
    )
    lead = "Depth-first is the best order for one ring, not for several kinds of groups at once."
    caption = "Mean predicted bytes of a step on each direction of each link."
    maps = load_maps(placements, ["depth-first", OURS], fabric, caption)
    why = (
        "Ports decide whether two flows of a leaf share an uplink, so times come in steps of whole flows: the predicted"
        " p50 is over all port draws, the measured median over those that a few initialisations drew."
    )
    return Section("A fabric and a job for which depth-first is not best", lead, [maps, table, Text(why)])


def sweep(swept: Data) -> Section:
    """Step time over the values of a knob."""
    points = [
        SweepPoint(f"{trial['value']:g}", Interval(trial["median_s"], *trial["ci_s"]))
        for trial in swept["trials"]
    ]
    figure = sweep_curve(
        points, knob="DDP bucket size [MiB]", kept=f"{swept['kept']:g}", default=f"{swept['default']:g}",
        caption="Step time under each bucket size, interleaved initialisations.", wide=True,
    )  # fmt: skip
    return Section("Sweep of one knob", swept["reason"][:1].upper() + swept["reason"][1:] + ".", [figure])


def training(train: Data) -> Section:
    """Step time, exposed communication and MFU of each order."""
    steps, rows = [], []
    for name, run in train["orders"].items():
        spent = run["parts_s"]
        compute = spent["forward_s"] + spent["backward_s"] + spent["optimizer_s"]
        mfu = ci(run["mfu_percent"])
        share = _scaled(mfu, 0.01)
        # Parts are means over ranks; the step lasts as long as its slowest rank.
        other = max(run["step_s"]["median"] - compute - spent["exposed_comm_s"], 0.0)
        steps.append(StepParts(name, compute, spent["exposed_comm_s"], other, share, own=name == OURS))
        step, exposed = (_scaled(ci(run[key]), 1e3) for key in ("step_s", "exposed_comm_s"))
        rows.append([name, step, exposed, mfu])
    table = Table(
        "Training the reference model: medians over initialisations.",
        [
            Column("order"),
            Column("step", "ms", "min", 0),
            Column("exposed comm", "ms", "min", 0),
            Column("MFU", "%", "max", 1),
        ],
        rows,
        own=list(train["orders"]).index(OURS) if OURS in train["orders"] else None,
        brief=True,
    )
    first = next(iter(train["orders"].values()))
    flops, peak = first["flops"], first["peak"]
    bucket_mib, gradients = train["config"]["bucket_cap_mib"], format_size(train["gradient_bytes"])
    gflop = flops["flops_per_step"] / 1e9
    how = [
        f"Model: {train['params'] / 1e6:.2f} M parameters; {gradients} of fp32 gradients; DDP buckets of {bucket_mib:g} MiB.",
        f"FLOPs: {gflop:.1f} GFLOP a step by convention {flops['convention']}: {flops['formula']}; {_FLOP_TERMS}.",
        f"Peak: {peak['flops_per_s'] / 1e9:.0f} GFLOP/s; {peak['reason']}.",
    ]
    lead = "The same model, data and steps under each order of ranks."
    chart = step_breakdown(
        steps,
        caption="Where a step's time goes. Exposed communication is hidden by no compute; other is data, and the slowest rank's lag.",
    )
    return Section("Training", lead, [chart, table, Text(items=how)])


def _busbw_table(orders: list[Data], rate_gbps: float | None) -> Table:
    rows = [
        [
            order["name"],
            _scaled(interval(order["busbw_gbps"]), 1e3),
            100 * order["busbw_gbps"]["median"] / rate_gbps if rate_gbps else None,
            _scaled(interval(order["time_s"]), 1e3),
        ]
        for order in orders
    ]
    return Table(
        "Each order: median with its interval over initialisations.",
        [
            Column("order"),
            Column("busbw", "Mbit/s", "max", 0),
            Column("of link", "%", "max", 0),
            Column("time", "ms", "min", 0),
        ],
        rows,
        own=next((row for row, order in enumerate(orders) if order["name"] == OURS), None),
        brief=True,
    )


def _bar(order: Data) -> OrderBar:
    inits = [float(np.median(init["busbw_gbps"])) for init in order["inits"]]
    return OrderBar(order["name"], interval(order["busbw_gbps"]), inits, own=order["name"] == OURS)


def _series(name: str, points: list[Data]) -> SizeSeries:
    sizes = [point["size_bytes"] for point in points]
    rates = [Interval(point["busbw_gbps"], math.nan, math.nan) for point in points]
    return SizeSeries(name, sizes, rates, own=name == OURS)


def interval(data: Data) -> Interval:
    """`{median, lo, hi}` with nulls."""
    return Interval(*(_number(data[key]) for key in Interval._fields))


def ci(data: Data) -> Interval:
    """`{median, ci: [lo, hi]}`, ci null where there is none."""
    lo, hi = data["ci"] or (None, None)
    return Interval(data["median"], _number(lo), _number(hi))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _scaled(known: Interval, factor: float) -> Interval:
    return Interval(*(value * factor for value in known))
