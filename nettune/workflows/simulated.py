"""A simulation in a report: settings side by side, completion times, queues and rates, pauses, the fluid model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np

from nettune.checks import Finding, Status, exit_code
from nettune.stats import Interval
from nettune.units import format_size
from nettune.wording import counted
from reports.charts.completion_cdf import completion_cdf
from reports.charts.fabric_map import MapView, fabric_maps
from reports.charts.queue_and_rate import queue_and_rate
from reports.document import Column, Findings, KeyFigure, Part, Report, Section, Table, Text, Verdict
from topology.fabric import Fabric

Data = Mapping[str, Any]

_MOST_HOSTS_DRAWN = 64
_MOST_TIMELINES = 4
_MOST_LINES = 6
_LEAD = (
    "Every packet of every message through NICs and switches; seeds draw ports, start jitter and marks anew."
)


def report(data: Data, findings: Sequence[Finding], meta: Mapping[str, str]) -> Report:
    """The whole report of `nettune simulate` with a scenario.

    Args:
        data: results of the run, with `simulation` and `fabric`.
        findings: worst first.
        meta: command, versions, machine.
    """
    simulation = data["simulation"]
    fabric = Fabric.from_json(data["fabric"])
    variants = simulation["variants"]
    parts: list[Part] = [Findings(findings)] if findings else []
    parts += _side_by_side(variants)
    parts.append(
        completion_cdf(
            {one["name"]: _numbers(one["times_us"]) for one in variants[:_MOST_LINES]},
            caption="Completion times of all messages, over all seeds.",
            wide=True,
        )
    )
    parts.append(_phases(variants))
    sections = [Section("Simulation", _LEAD, parts)]
    timelines = [_timeline(one) for one in variants[:_MOST_TIMELINES] if one["samples"]]
    if timelines:
        lead = "The ports out of switches that most is sent through, and flows through the first of them; first seed."
        sections.append(Section("Queues and rates", lead, timelines))
    if any(one["paused_us"] for one in variants) and len(fabric.hosts) <= _MOST_HOSTS_DRAWN:
        sections.append(Section("Pauses", "", [_pauses(variants, fabric)]))
    if any(one["fluid"] for one in variants):
        sections.append(_fluid(variants))
    return Report(
        title=f"Simulation: {simulation['name']}",
        subtitle=_subtitle(data, fabric),
        summary=_figures(variants),
        sections=sections,
        meta=dict(meta),
        verdict=_verdict(variants, findings),
    )


def _subtitle(data: Data, fabric: Fabric) -> str:
    first = data["simulation"]["variants"][0]
    return (
        f"{counted(len(fabric.hosts), 'host')}, {counted(len(fabric.switches), 'switch')}, NICs of"
        f" {data['link_rate_gbps']:g} Gbit/s, {counted(first['flows'], 'message')}, {counted(first['seeds'], 'seed')}"
    )


def _figures(variants: Sequence[Data]) -> list[KeyFigure]:
    """Of the variant whose last message is over first."""
    ended = [one for one in variants if one["fct_us"]]
    if not ended:
        return []
    best = min(ended, key=lambda one: float(one["fct_us"]["max"]))
    times, spread = best["fct_us"], best["fct_us_spread"]
    rest = [one for one in ended if one is not best]
    against = max((float(one["fct_us"]["max"]) for one in rest), default=0.0)
    beside = f"slowest setting {against / times['max']:.1f} times as long" if rest else ""
    figures = [KeyFigure("fastest setting", best["name"])] if rest else []
    return [
        *figures,
        KeyFigure(
            "last message",
            f"{times['max']:,.0f} us",
            "; ".join(filter(None, (_range(spread["max"]), beside))),
        ),
        KeyFigure("mean message", f"{times['mean']:,.0f} us", _range(spread["mean"])),
        KeyFigure(
            "PFC pauses",
            f"{best['pfc_pauses']:,.0f}",
            f"{best['pfc_paused_us']:,.0f} us in all",
        ),
        KeyFigure("longest queue", format_size(best["peak_queue_bytes"]), best["peak_queue_link"]),
    ]


def _verdict(variants: Sequence[Data], findings: Sequence[Finding]) -> Verdict:
    if exit_code(findings):
        return Verdict(Status.FAIL, findings[0].what)
    pauses = sum(one["pfc_pauses"] for one in variants)
    said = "all messages arrived" + ("" if pauses else "; PFC never paused a port")
    said += f"; {counted(len(findings), 'warning')}" if findings else ""
    return Verdict(Status.WARN if findings else Status.PASS, said)


def _side_by_side(variants: Sequence[Data]) -> list[Table]:
    """The figures that decide, few enough for a terminal; then all, with the range of the seeds."""
    brief = [
        [
            one["name"],
            *((one["fct_us"] or {}).get(name) for name in ("mean", "p99", "max")),
            one["pfc_pauses"],
        ]
        for one in variants
    ]
    heads = [Column(name, "us", best="min") for name in ("mean", "p99", "last")]
    setting = Column("setting")
    times = [
        [
            one["name"],
            *(_interval(one["fct_us"], one["fct_us_spread"], name) for name in ("mean", "p99", "max")),
        ]
        for one in variants
    ]
    counts = [
        [
            one["name"],
            *(
                _interval(one, one["counter_spread"], name)
                for name in ("pfc_pauses", "pfc_paused_us", "ecn_marks")
            ),
            format_size(one["peak_queue_bytes"]),
        ]
        for one in variants
    ]
    counters = [Column("PFC pauses"), Column("paused", "us"), Column("ECN marks"), Column("longest queue")]
    within = "means over seeds, in brackets the least and the most of a seed."
    return [
        Table(
            "Completion times of messages, means over seeds.",
            [setting, *heads, Column("PFC pauses", best="min")],
            brief,
            brief=True,
        ),
        Table(
            f"Completion times: {within}",
            [setting, *(Column(name, "us") for name in ("mean", "p99", "last"))],
            times,
        ),
        Table(f"Pauses, marks, queues: {within}", [setting, *counters], counts),
    ]


def _phases(variants: Sequence[Data]) -> Table:
    rows = [
        [one["name"], phase["name"], _percentiles(phase["time_us"]), sum(phase["link_bytes"].values()) / 1e6]
        for one in variants
        for phase in (one["result"] or {"phases": []})["phases"]
    ]
    heads = [Column("setting"), Column("phase"), Column("time", "us"), Column("payload x links", "MB")]
    return Table("Time of each phase: median over seeds, in brackets 5th and 95th percentile.", heads, rows)


def _timeline(variant: Data) -> Part:
    samples, ecn = variant["samples"], variant["ecn"]
    return queue_and_rate(
        _numbers(samples["time_us"]),
        {name: _numbers(values) for name, values in samples["queues_bytes"].items()},
        {name: _numbers(values) for name, values in samples["rates_gbps"].items()},
        thresholds_bytes={"Kmin": ecn["kmin_bytes"], "Kmax": ecn["kmax_bytes"]},
        caption=f"{variant['name']}: queues above, sending rates below.",
    )


def _pauses(variants: Sequence[Data], fabric: Fabric) -> Part:
    views: list[MapView] = []
    for one in variants:
        if one["paused_us"] and len(views) < _MOST_TIMELINES:
            load = np.zeros(fabric.directed_count)
            for row, value in one["paused_us"].items():
                load[int(row)] = value
            views.append(MapView(one["name"], load))
    caption = "Time for which PFC paused the sender of each direction of each link, mean over seeds."
    return fabric_maps(fabric, views, quantity="paused [us]", caption=caption)


def _fluid(variants: Sequence[Data]) -> Section:
    points, settling = [], []
    for one in variants:
        if found := one["fluid"]:
            queue = format_size(found["queue_bytes"]) if found["on_ramp"] else "above Kmax"
            points.append([
                one["name"], found["link"], found["flows"], found["delay_us"], 100 * found["p"], queue, found["rate_gbps"],
            ])  # fmt: skip
            settling.append([
                one["name"], found["queue_per_ms"], found["fairness_per_ms"], "settles" if found["stable"] else "swings",
            ])  # fmt: skip
    setting = Column("setting")
    heads = [
        setting, Column("busiest link"), Column("flows"), Column("delay", "us"), Column("marked", "%"),
        Column("queue"), Column("rate of a flow", "Gbit/s"),
    ]  # fmt: skip
    growths = [
        setting, Column("queue's growth", "1/ms"), Column("unfairness' growth", "1/ms"), Column("the queue"),
    ]  # fmt: skip
    lead = "DCQCN's fluid model at the busiest link, all of its connections sending at once: where they would come to rest."
    notes = [
        "Growth below 0 dies out. The model knows no hyper increase, no clamped target and no least decrease.",
        "Source: Zhu et al., ECN or Delay (CoNEXT 2016); roots of the delay equations linearised at the fixed point.",
    ]
    tables = [Table("Fixed point.", heads, points), Table("Stability.", growths, settling)]
    return Section("Fluid model", lead, [*tables, _stability(variants), Text(items=notes)])


def _stability(variants: Sequence[Data]) -> Table:
    """Growth of the queue's swings over numbers of flows and delays; delays are those of the first setting."""
    rows = []
    delays: Sequence[float] = ()
    for one in variants:
        if found := one["fluid"]:
            delays = delays or found["map"]["delays_us"]
            growth = zip(found["map"]["flows"], found["map"]["queue_per_ms"], strict=True)
            rows += [[one["name"], flows, *values] for flows, values in growth]
    heads = [Column("setting"), Column("flows"), *(Column(f"at {delay:.1f} us", "1/ms") for delay in delays)]
    return Table("Growth of the queue's swings for other numbers of flows and delays.", heads, rows)


def _interval(means: Data | None, spreads: Data | None, name: str) -> Interval | None:
    """None where nothing ended; without limits where seeds do not differ."""
    if means is None or spreads is None:
        return None
    low, high = spreads[name]["min"], spreads[name]["max"]
    return Interval(means[name], nan, nan) if low == high else Interval(means[name], low, high)


def _percentiles(time_us: Sequence[float]) -> Interval:
    p5, p50, p95 = time_us
    return Interval(p50, nan, nan) if p5 == p95 else Interval(p50, p5, p95)


def _range(found: Data) -> str:
    alike = found["min"] == found["max"]
    return "" if alike else f"{found['min']:,.0f} to {found['max']:,.0f} over seeds"


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [nan if value is None else value for value in values]
