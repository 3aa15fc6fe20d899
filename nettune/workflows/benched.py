"""Measured settings in a report: nccl-tests' columns, predictions beside them, and what the figures say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nettune.checks import Status
from nettune.stats import Interval
from nettune.units import format_rate, format_size
from nettune.workflows.sections import interval
from reports.document import Column, KeyFigure, Part, Section, Table, Text

Data = Mapping[str, Any]

_METHOD = (
    "size is the largest buffer of a rank and busbw is nccl-tests'; times are the slowest rank's, median over"
    " initialisations with a 95% interval, then the 5th and 95th percentile of all repeats."
)
_MODEL = (
    "predicted is a fluid simulation of the schedule's messages on the real connections' paths, with headers and"
    " acknowledgements; unsteered is the same over port draws before there are connections."
)


def figures(bench: Data) -> list[KeyFigure]:
    """The fastest setting at the largest size, and what it gains on the first."""
    last = [(setting, setting["cases"][-1]) for setting in bench["settings"]]
    if not last:
        return []
    size = max(case["size_bytes"] for _, case in last)
    setting, case = min(
        ((setting, case) for setting, case in last if case["size_bytes"] == size),
        key=lambda one: float(one[1]["time_us"]["median"]),
    )
    bound = f", bound {case['bound_us'] / 1e3:.0f} ms" if case["bound_us"] else ""
    found = [
        KeyFigure(
            f"fastest, {format_size(size)}",
            setting["name"],
            f"{case['time_us']['median'] / 1e3:.4g} ms, busbw {format_rate(8 * case['busbw_gbytes_per_s'])}{bound}",
        )
    ]
    for gain in bench.get("faster", []):
        if gain["to"] == setting["name"]:
            speed = Interval(**gain["speedup"])
            found.append(
                KeyFigure(
                    f"against {gain['from']}", f"{speed.median:.2f}x", f"({speed.lo:.2f} to {speed.hi:.2f})"
                )
            )
    if setting["steered"] and case["unsteered_us"] is not None:
        low, middle, high = (value / 1e3 for value in case["unsteered_us"])
        detail = f"{low:.0f} to {high:.0f} ms predicted over port draws; {_twin(setting['name'], last)}"
        found.append(KeyFigure("unsteered", f"{middle:.0f} ms", detail))
    best = [one["name"] for one, own in last if own["optimal"] and own["size_bytes"] == size]
    if best:
        detail = "reaches the bound on these paths: no algorithm is faster under this order"
        found.append(KeyFigure("optimal", ", ".join(best), detail, Status.PASS))
    return found


def _twin(name: str, last: list[tuple[Data, Data]]) -> str:
    """What the same setting took without steering."""
    times = [case["time_us"]["median"] for one, case in last if one["name"] == name.replace("+steer", "")]
    return f"measured {times[0] / 1e3:.0f} ms" if times else "not measured"


def section(bench: Data) -> Section:
    """Tables and sentences."""
    parts: list[Part] = [_brief(bench), _columns(bench)]
    predicted = _predicted(bench)
    if predicted.rows:
        parts.append(predicted)
    parts.append(Text(items=[*_sentences(bench), _METHOD, _MODEL]))
    title = f"{bench['op']} on {bench['ranks']} ranks over {bench['backend']}"
    return Section(title, "Settings are interleaved; every initialisation makes new connections.", parts)


def _cases(bench: Data) -> Iterator[tuple[str, Data]]:
    for setting in bench["settings"]:
        for case in setting["cases"]:
            yield setting["name"], case


def _brief(bench: Data) -> Table:
    """What fits a terminal; milliseconds where times are long."""
    longest = max((case["time_us"]["median"] for _, case in _cases(bench)), default=0.0)
    unit, scale, decimals = ("ms", 1e-3, 0 if longest >= 1e5 else 1) if longest >= 1e4 else ("us", 1.0, 0)
    rows = [
        [
            name,
            format_size(case["size_bytes"]),
            Interval(*(scale * value for value in interval(case["time_us"]))),
            8e3 * case["busbw_gbytes_per_s"],
            None if case["predicted_us"] is None else scale * case["predicted_us"],
            None if not case["bound_us"] else 100 * case["bound_us"] / case["time_us"]["median"],
        ]
        for name, case in _cases(bench)
    ]
    heads = [
        Column("setting"), Column("size"), Column("time", unit, "", decimals), Column("Mbit/s", "", "", 1),
        Column("model", unit, "", decimals), Column("bound", "%", "", 0),
    ]  # fmt: skip
    return Table(
        "Time of the slowest rank, busbw, predicted time, share of the bound.", heads, rows, brief=True
    )


def _columns(bench: Data) -> Table:
    rows = [
        [
            name,
            case["size_bytes"],
            case["count"],
            case["type"],
            case["redop"],
            case["root"],
            interval(case["time_us"]),
            case["p5_us"],
            case["p95_us"],
            case["algbw_gbytes_per_s"],
            case["busbw_gbytes_per_s"],
            case["wrong"],
        ]
        for name, case in _cases(bench)
    ]
    heads = [
        Column("setting"), Column("size", "B"), Column("count"), Column("type"), Column("redop"), Column("root"),
        Column("time", "us", "", 0), Column("p5", "us", "", 0), Column("p95", "us", "", 0), Column("algbw", "GB/s"),
        Column("busbw", "GB/s"), Column("#wrong"),
    ]  # fmt: skip
    return Table("The columns of nccl-tests.", heads, rows)


def _predicted(bench: Data) -> Table:
    rows = []
    for name, case in _cases(bench):
        if case["bound_us"]:
            residual = None if case["residual"] is None else 100 * case["residual"]
            size = format_size(case["size_bytes"])
            known = (case["time_us"]["median"], case["predicted_us"])
            rows.append(
                [name, size, *known, residual, *(case["unsteered_us"] or (None,) * 3), case["bound_us"]]
            )
    heads = [
        Column("setting"), Column("size"), Column("measured", "us", "", 0), Column("predicted", "us", "", 0),
        Column("residual", "%", "", 0), Column("unsteered p5", "us", "", 0), Column("p50", "us", "", 0),
        Column("p95", "us", "", 0), Column("bound", "us", "", 0),
    ]  # fmt: skip
    return Table("Prediction beside measurement, and over port draws without steering.", heads, rows)


def _sentences(bench: Data) -> Iterator[str]:
    for setting in bench["settings"]:
        case = setting["cases"][-1]
        size = format_size(case["size_bytes"])
        if setting["plan"] is not None:
            yield f"{setting['name']}: {setting['plan']['sentence']}"
        if setting["steered"] and case["unsteered_us"] is not None:
            low, middle, high = (value / 1e3 for value in case["unsteered_us"])
            yield (
                f"{setting['name']} at {size}: without steering {low:.0f} to {high:.0f} ms are predicted (5th to 95th "
                f"percentile over port draws, median {middle:.0f}); measured with steering "
                f"{case['time_us']['median'] / 1e3:.0f} ms."
            )
        if case["optimal"]:
            yield (
                f"{setting['name']} is optimal at {size}: on these paths it is predicted to reach the bound of "
                f"{case['bound_us']:.0f} us, which no algorithm can beat under this order; measured "
                f"{case['bound_us'] / case['time_us']['median']:.0%} of it."
            )
    if bench["ranking"]["pairs"]:
        yield (
            f"{bench['ranking']['as_predicted']} of {bench['ranking']['pairs']} pairs of settings whose predictions differ "
            "by more than 10% were measured in the predicted order."
        )
    for pair in bench.get("ab", []):
        if pair["speedup"] is not None:
            speed = Interval(**pair["speedup"])
            sure = "" if speed.lo > 1 or speed.hi < 1 else "; no difference is shown"
            yield (
                f"{pair['to']} against {pair['from']} at {format_size(pair['size_bytes'])}: {speed.median:.2f}x faster "
                f"({speed.lo:.2f} to {speed.hi:.2f}){sure}."
            )


def fit_section(fit: Data) -> Section:
    """Constants of each class of paths."""
    rows = []
    for name, alpha in fit["alpha_us"].items():
        beta = fit["beta_us_per_byte"][name]
        rate = [8e-3 / value if value else None for value in (beta[0], beta[2], beta[1])]
        rows.append([name, _known(alpha), _known([None if value is None else 1e3 * value for value in rate])])
    table = Table(
        "Alpha and beta by class of paths, from round trips between two ranks.",
        [Column("path"), Column("alpha", "us", "", 0), Column("1 / beta", "Mbit/s", "", 1)],
        rows,
        brief=True,
    )
    return Section("Cost model", "A message takes alpha + bytes x beta.", [table])


def _known(limits: list[float | None]) -> Interval:
    return Interval(*(float("nan") if value is None else value for value in limits))
