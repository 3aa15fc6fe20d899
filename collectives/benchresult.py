"""What a bench found, as JSON: settings by sizes with nccl-tests' figures, intervals, predictions and doubts.

| key of a case     | what                                                                                      |
|-------------------|-------------------------------------------------------------------------------------------|
| size_bytes, count, type, redop, root | as nccl-tests' columns: the largest buffer of a rank, elements of one rank's part |
| time_us           | median over initialisations of each one's median, with its 95% interval                    |
| p5_us, p95_us     | over all timed repeats                                                                     |
| algbw_gbytes_per_s, busbw_gbytes_per_s | of the median; 1e9 bytes per second                                    |
| wrong             | values that were wrong in the first operations, all initialisations together               |
| predicted_us      | median over initialisations, on the paths of their connections                             |
| residual          | time over predicted, minus 1                                                               |
| unsteered_us      | of the largest size: 5th, 50th, 95th percentile predicted over port draws                   |
| bound_us, optimal | no algorithm is faster under this order; whether this one reaches it, headers aside        |
| doubts            | sentences                                                                                  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from collectives.busbw import algbw_gbytes_per_s
from collectives.measuring import ITEM_BYTES, Case, Measured, factor_of
from collectives.prediction import Predictor
from collectives.schedules import Op
from collectives.schedules.schedule import REDUCING
from collectives.steadiness import doubts
from nettune.stats import Interval, bootstrap_median, bootstrap_ratio, median_of_medians

BENCH_SCHEMA = "nettune.collectives/1"
_APART = 1.1
_SLICED = {Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL}
"""Operations whose count is that of one rank's part."""
_ROOTED = {Op.BROADCAST, Op.REDUCE}


def to_json(
    results: Sequence[Measured], case: Case, *, backend: str, warmup: int, seed: int = 0
) -> dict[str, Any]:
    """The results of `collectives.measuring.measure`; settings and sizes without a time are left out."""
    settings = [_setting(one, case, warmup, seed) for one in results if one.taken]
    return {
        "schema": BENCH_SCHEMA,
        "op": str(case.op),
        "type": case.dtype,
        "ranks": results[0].ranks if results else 0,
        "backend": backend,
        "cap_gbps": case.cap_gbps,
        "settings": settings,
        "ranking": ranking(settings),
    }


def ranking(settings: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Pairs of settings at one size whose predictions differ by more than a tenth, and in how many the faster one was."""
    pairs = right = 0
    sizes = {case["size_bytes"] for setting in settings for case in setting["cases"]}
    for size in sizes:
        known = [
            (case["predicted_us"], case["time_us"]["median"])
            for setting in settings
            for case in setting["cases"]
            if case["size_bytes"] == size and case["predicted_us"] is not None
        ]
        for (model, time), (other_model, other_time) in combinations(known, 2):
            if max(model, other_model) > _APART * min(model, other_model):
                pairs += 1
                right += (model < other_model) == (time < other_time)
    return {"pairs": pairs, "as_predicted": right}


def _setting(measured: Measured, case: Case, warmup: int, seed: int) -> dict[str, Any]:
    return {
        "name": measured.setting.name,
        "algorithm": None if measured.algorithm is None else dict(measured.algorithm),
        "steered": measured.setting.steer,
        "order": measured.setting.order,
        "cases": [
            _case(measured, case, size, warmup, seed) for size in case.sizes_bytes if measured.times_s(size)
        ],
        "links": [link.to_json() for link in measured.links],
        "contaminated": list(measured.contaminated),
        "plan": None if measured.plan is None else measured.plan.to_json(),
    }


def _case(measured: Measured, case: Case, size_bytes: int, warmup: int, seed: int) -> dict[str, Any]:
    times = measured.times_s(size_bytes)
    taken = [one for one in measured.taken if one.size_bytes == size_bytes]
    flat = [time for init in times for time in init]
    known = interval_of(times)
    low, high = np.percentile(flat, (5, 95))
    elements = size_bytes // ITEM_BYTES[case.dtype]
    algbw = algbw_gbytes_per_s(size_bytes, known.median)
    return {
        "size_bytes": size_bytes,
        "count": elements // measured.ranks if case.op in _SLICED else elements,
        "type": case.dtype,
        "redop": "sum" if case.op in REDUCING else "none",
        "root": 0 if case.op in _ROOTED else -1,
        "time_us": {key: 1e6 * value for key, value in known._asdict().items()},
        "p5_us": 1e6 * float(low),
        "p95_us": 1e6 * float(high),
        "algbw_gbytes_per_s": algbw,
        "busbw_gbytes_per_s": algbw * factor_of(case.op, measured.ranks),
        "wrong": sum(one.wrong for one in taken),
        "inits_us": [[1e6 * time for time in init] for init in times],
        **_forecast(
            measured.predictor,
            [one.exact_us for one in taken],
            size_bytes,
            elements,
            known.median,
            seed,
            largest=size_bytes == max(case.sizes_bytes),
        ),
        "doubts": doubts(times, warmup=warmup),
    }


def _forecast(
    predictor: Predictor | None,
    exact: Sequence[float | None],
    size_bytes: int,
    elements: int,
    time_s: float,
    seed: int,
    *,
    largest: bool,
) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(("predicted_us", "residual", "unsteered_us", "bound_us", "optimal"))
    if predictor is None:
        return found
    found["bound_us"] = predictor.bound_us(size_bytes)
    if not predictor.feasible:
        return found
    if largest:
        found["unsteered_us"] = list(predictor.drawn_us(size_bytes, elements, seed=seed))
    known = [value for value in exact if value is not None]
    if known:
        found["predicted_us"] = median(known)
        found["residual"] = 1e6 * time_s / median(known) - 1
        found["optimal"] = predictor.reaches(size_bytes, median(known))
    return found


def interval_of(times_s: Sequence[Sequence[float]]) -> Interval:
    """Median over initialisations with its interval; with one initialisation the limits are not known."""
    if len(times_s) > 1:
        return bootstrap_median(times_s)
    return Interval(median_of_medians(times_s), float("nan"), float("nan"))


def ratio(base: Measured, other: Measured, size_bytes: int) -> Interval | None:
    """How many times faster `other` is than `base` at one size; initialisations of one number are pairs.

    None with fewer than two initialisations of both.
    """
    sides = [one.times_s(size_bytes) for one in (base, other)]
    pairs = min(map(len, sides))
    if pairs < 2:
        return None
    return bootstrap_ratio(sides[1][:pairs], sides[0][:pairs], paired=True)
