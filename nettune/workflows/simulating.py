"""`nettune simulate SCENARIO`: a scenario, or several settings of it side by side, packet by packet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from collectives.scenarios.build import Scenario, prepare
from collectives.scenarios.judgement import EcnBound, FluidJudgement, ecn_bound, fluid_judgement
from collectives.scenarios.outcome import COUNTERS, Outcome, Samples
from collectives.scenarios.reader import load_scenario
from collectives.scenarios.simulation import simulate_scenario
from collectives.scenarios.translate import Layout, lay_out
from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.wording import some
from nettune.workflows.run import Progress, RunResult, open_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_UNIT = re.compile(r"_(?:bytes|us|ms|gbps|mbps)$")
_MOST_VARIANTS = 64
_MOST_SAMPLES = 600
_MOST_TIMES = 400


def simulate_file(
    path: Path,
    settings: Sequence[str],
    compared: Sequence[str],
    runs: Path,
    progress: Progress,
    *,
    seed: int = 0,
) -> RunResult:
    """The verb for a scenario.

    Args:
        path: the scenario.
        settings: `key=value` words that stand in place of what the file says.
        compared: `key=value,value,...` words: every combination is simulated with the same seeds.
        runs: folder of run directories.
        progress: takes one line a step.
        seed: of the first draw.

    Raises:
        InputError: a scenario or setting that cannot be read or cannot be, too many combinations.
        UnknownPathError: a flow has no route.
        NettuneError: no compiler, or queues outgrow the memory.
    """
    variants = [(name, _prepared(path, [*settings, *words])) for name, words in _variants(compared)]
    with open_run("simulate", runs, progress, seed=seed) as run:
        findings = _pauses_first(variants)
        told = []
        for name, scenario in variants:
            with run.step(f"simulate {name}"):
                outcome = simulate_scenario(scenario, seed=seed, progress=progress)
            told.append(_told(name, scenario, outcome, seed))
            findings += _findings(name, scenario, outcome)
        first = variants[0][1]
        fabric = first.routing.fabric
        run.data |= {
            "fabric": fabric.to_json(),
            "link_rate_gbps": first.host_gbps,
            "simulation": {
                "name": first.spec.name,
                "file": path.name,
                "scenario": first.spec.model_dump(),
                "variants": told,
            },
            "findings": [finding.to_json() for finding in worst_first(findings)],
        }
        printed = {key: value for key, value in told[0].items() if key not in _DRAWN}
        printed["variants"] = [
            {key: value for key, value in one.items() if key not in _DRAWN} for one in told
        ]
        return run.finish(exit_code(findings), {**printed, "simulation": first.spec.name})


_DRAWN = ("samples", "times_us", "paused_us")
"""Large, and of use to charts only."""


def _prepared(path: Path, settings: Sequence[str]) -> Scenario:
    spec = load_scenario(path, settings)
    try:
        return prepare(spec, path.parent)
    except InputError as error:
        if error.file is not None:
            raise
        raise InputError(str(error), path) from None


def _variants(compared: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Name and settings of every combination; one without a name's worth where nothing is compared."""
    choices = []
    for word in compared:
        key, equals, listed = word.partition("=")
        values = list(dict.fromkeys(part.strip() for part in listed.split(",")))
        if not equals or not key.strip() or not all(values) or len(values) < 2:
            raise InputError(
                f"--compare {word!r:.80}: write it with two values or more, like congestion.preset=paper,barre"
            )
        choices.append([f"{key.strip()}={value}" for value in values])
    found = [list(one) for one in product(*choices)]
    if len(found) > _MOST_VARIANTS:
        raise InputError(f"--compare: {len(found)} combinations are more than {_MOST_VARIANTS}")
    return [(_short(words) or "as given", words) for words in found]


def _short(words: Sequence[str]) -> str:
    """`preset barre, kmin 100K` of full settings: last part of the key, without its unit."""
    parts = [word.partition("=") for word in words]
    return ", ".join(f"{_UNIT.sub('', key.rpartition('.')[2])} {value}" for key, _, value in parts)


def _told(name: str, scenario: Scenario, outcome: Outcome, seed: int) -> dict[str, Any]:
    """All results of one variant as JSON."""
    fabric = scenario.routing.fabric
    result = outcome.network_result()
    layout = lay_out(scenario, seed)
    peaks = np.max([one.link_peak_bytes for one in outcome.seeds], axis=0)
    paused = np.mean([one.link_paused_us for one in outcome.seeds], axis=0)
    counters = {name: [one.counters[name] for one in outcome.seeds] for name in (*COUNTERS, "pfc_paused_us")}
    times = np.sort(np.concatenate([one.fct_us for one in outcome.seeds]))
    return {
        "name": name,
        "seeds": len(outcome.seeds),
        "flows": int(np.mean([len(one.fct_us) for one in outcome.seeds])),
        **_over_seeds(outcome.fct_us()),
        **{name: float(np.mean(values)) for name, values in counters.items()},
        "counter_spread": {name: _spread(values) for name, values in counters.items()},
        "jobs": {job.name: _over_seeds(outcome.fct_us(job.name)) for job in scenario.jobs},
        "result": None if result is None else result.to_json(),
        "peak_queue_bytes": float(peaks.max(initial=0.0)),
        "peak_queue_link": fabric.directed_name(int(peaks.argmax())),
        "congestion": {"kind": scenario.control.kind, **vars(scenario.control)},
        "ecn": vars(scenario.curve),
        "fluid": _fluid(scenario, fluid_judgement(scenario, layout)),
        "stuck": outcome.stuck,
        "paused_us": {str(row): float(paused[row]) for row in np.flatnonzero(paused)},
        "times_us": _thinned(times, _MOST_TIMES).tolist(),
        "samples": _samples(scenario, layout, outcome.seeds[0].samples),
    }


def _over_seeds(times: dict[str, list[float]]) -> dict[str, Any]:
    """Means and ranges over seeds; None where no flow ended in any."""
    if not times["mean"]:
        return {"fct_us": None, "fct_us_spread": None}
    return {
        "fct_us": {name: float(np.mean(values)) for name, values in times.items()},
        "fct_us_spread": {name: _spread(values) for name, values in times.items()},
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "max": max(values)}


def _fluid(scenario: Scenario, found: FluidJudgement | None) -> dict[str, Any] | None:
    if found is None:
        return None
    model, point = found.model, found.point
    return {
        "link": scenario.routing.fabric.directed_name(found.link),
        "flows": model.flows,
        "delay_us": model.delay_us,
        "link_gbps": model.link_gbps,
        "p": point.p,
        "queue_bytes": point.queue_bytes,
        "on_ramp": point.on_ramp,
        "alpha": point.alpha,
        "rate_gbps": point.rate_gbps,
        "queue_per_ms": found.settling.queue_per_ms,
        "fairness_per_ms": found.settling.fairness_per_ms,
        "stable": found.settling.stable,
        "map": {
            "flows": found.map_flows,
            "delays_us": found.map_delays_us,
            "queue_per_ms": found.map_per_ms.tolist(),
        },
    }


def _samples(scenario: Scenario, layout: Layout, samples: Samples | None) -> dict[str, Any] | None:
    if samples is None or not len(samples.time_us):
        return None
    fabric, work = scenario.routing.fabric, layout.workload

    def nic(port: int) -> str:
        return fabric.nodes.name[int(fabric.ports.node[port])]

    return {
        "time_us": _thinned(samples.time_us, _MOST_SAMPLES).tolist(),
        "queues_bytes": {
            fabric.directed_name(link): _thinned(values, _MOST_SAMPLES).tolist()
            for link, values in samples.queue_bytes.items()
        },
        "rates_gbps": {
            f"{nic(int(work.src_port[row]))} > {nic(int(work.dst_port[row]))} ({row})": _thinned(
                values, _MOST_SAMPLES
            ).tolist()
            for row, values in samples.rate_gbps.items()
        },
    }


def _thinned(values: Floats, most: int) -> Floats:
    """At most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return values
    chosen: Floats = values[np.linspace(0, len(values) - 1, most).astype(np.int64)]
    return chosen


def _findings(name: str, scenario: Scenario, outcome: Outcome) -> list[Finding]:
    found = []
    if outcome.stuck:
        found.append(
            Finding(
                check="progress",
                status=Status.FAIL,
                where=ElementId.fabric(),
                what=f"{name}: {outcome.stuck}",
                fix="raise run.limit_ms where flows are slow, break the circle of pauses where ports wait for each other",
            )
        )
    drops = sum(one.counters["drops"] for one in outcome.seeds)
    if scenario.spec.switch.pfc and drops:
        found.append(
            Finding(
                check="lossless",
                status=Status.WARN,
                where=ElementId.fabric(),
                what=f"{name}: switches dropped {drops:.0f} packets although PFC is on",
                evidence={"drops": drops},
                fix="give ports the headroom that their links' rate and delay need",
            )
        )
    return found


def _pauses_first(variants: Sequence[tuple[str, Scenario]]) -> list[Finding]:
    """Settings with which PFC may pause a port before ECN has marked, one finding for those alike."""
    alike: dict[EcnBound, list[str]] = {}
    for name, scenario in variants:
        bound = ecn_bound(scenario)
        if bound is not None and bound.kmin_bytes > bound.bound_bytes:
            alike.setdefault(bound, []).append(name)
    fabric = variants[0][1].routing.fabric
    return [
        Finding(
            check="ecn-before-pfc",
            status=Status.WARN,
            where=fabric.node_element(bound.switch),
            what=f"{some(names, 3)}: Kmin of {bound.kmin_bytes / 1e3:,.0f} KB is above {bound.bound_bytes / 1e3:,.0f} KB:"
            " PFC may pause a port before ECN has marked",
            evidence={"kmin_bytes": bound.kmin_bytes, "bound_bytes": bound.bound_bytes, "settings": names},
            fix="lower ecn.kmin_bytes, or give switch.alpha and switch.buffer_bytes more",
        )
        for bound, names in alike.items()
    ]
