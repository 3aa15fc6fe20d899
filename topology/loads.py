"""Bytes on every directed link: exact where paths are known, else a mean and percentiles over port draws.

The step's time by method `max-link`: each phase lasts as long as its most loaded link needs at its nominal speed, and at
least as long as the computation beside it; phases follow one another as their `after` says. It is a lower bound for that
placement and those port draws.

Other jobs' load (`background`) is bytes per directed link that pass while one step of this job lasts. Where time is
predicted, each phase meets the part that its share of the step's time brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.draws import DrawnPhase, check_draws
from topology.hops import flows_of, spread_all, walk_forced
from topology.results import NetworkResult, PhaseResult
from topology.traffic import check_step, transfers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from topology.placement.mapping import Placement
    from topology.routing import FlowKey, Routing
    from topology.traffic import StepTraffic, Transfers

    Floats = NDArray[np.float64]

PERCENTILES = (5, 50, 95)
US_PER_BYTE_AT_1_GBPS = 8e-3


@dataclass(frozen=True)
class LinkLoads:
    """Bytes on each directed link over port draws: (2L,) mean, median and 95th percentile."""

    mean: Floats
    p50: Floats
    p95: Floats


def exact_loads(
    routing: Routing,
    flows: Sequence[FlowKey],
    flow_bytes: Sequence[float],
    *,
    background: Floats | None = None,
) -> Floats:
    """(2L,) bytes when every flow's 5-tuple is known.

    Raises:
        UnknownPathError: as `Routing.paths`.
        InputError: bytes for more or fewer flows.
    """
    if len(flows) != len(flow_bytes):
        raise InputError(f"loads: {len(flows)} flows, but bytes of {len(flow_bytes)}")
    loads = _start(routing, background)
    for links, carried in zip(routing.paths(flows), flow_bytes, strict=True):
        loads[list(links)] += carried
    return loads


def expected_loads(routing: Routing, moved: Transfers, *, background: Floats | None = None) -> Floats:
    """(2L,) mean bytes over port draws under an ideal hash.

    Raises:
        UnknownPathError: a transfer has no route.
    """
    loads, flows = walk_forced(routing, moved, flows_of(routing, moved))
    return _start(routing, background) + loads + spread_all(routing, moved, flows)


def drawn_loads(
    routing: Routing, moved: Transfers, draws: int, seed: int = 0, *, background: Floats | None = None
) -> Floats:
    """(D, 2L) bytes in each of D port draws under an ideal hash; see `topology.draws` for what is drawn.

    Raises:
        UnknownPathError: a transfer has no route.
    """
    check_draws(draws)
    drawn = DrawnPhase.of(routing, moved, (seed,))
    loads = np.tile(_start(routing, background) + drawn.forced, (draws, 1))
    for which, block in drawn.blocks(draws):
        loads[which, drawn.links] += block
    return loads


def link_loads(
    routing: Routing,
    phases: Sequence[Transfers],
    *,
    draws: int = 200,
    seed: int = 0,
    background: Floats | None = None,
) -> LinkLoads:
    """Bytes of all these phases together on each directed link; memory: draws x links between switches x 8 bytes.

    Raises:
        UnknownPathError: a transfer has no route.
    """
    check_draws(draws)
    forced = _start(routing, background)
    between = np.zeros((draws, len(routing.hops.between)))
    for number, moved in enumerate(phases):
        drawn = DrawnPhase.of(routing, moved, (seed, number))
        forced += drawn.forced
        for which, block in drawn.blocks(draws):
            between[which] += block
    columns = {"mean": between.mean(axis=0)}
    between.sort(axis=0)
    columns |= {f"p{percent}": sorted_percentile(between, percent) for percent in (50, 95)}
    loads = {name: forced.copy() for name in columns}
    for name, column in columns.items():
        loads[name][routing.hops.between] += column
    return LinkLoads(**loads)


def job_loads(routing: Routing, jobs: Iterable[tuple[StepTraffic, Placement]]) -> Floats:
    """(2L,) mean bytes of one step of each running job: the `background` of another.

    Raises:
        UnknownPathError: a transfer has no route.
        InputError: as `topology.traffic.check_step`.
    """
    loads = _start(routing, None)
    for traffic, placement in jobs:
        check_step(traffic, placement.ranks)
        for phase in traffic.phases:
            loads += expected_loads(routing, transfers(phase, placement.nic))
    return loads


def predict(
    routing: Routing,
    placement: Placement,
    traffic: StepTraffic,
    *,
    draws: int = 200,
    seed: int = 0,
    background: Floats | None = None,
) -> NetworkResult:
    """Loads and time of a step on a fabric under a placement, method `max-link`.

    `background` slows the step down, but is not in the result's bytes.

    Raises:
        InputError: as `topology.traffic.check_step`; no draw, or a used link has no speed.
        UnknownPathError: a transfer has no route.
    """
    check_step(traffic, placement.ranks)
    check_draws(draws)
    phases = [
        DrawnPhase.of(routing, transfers(phase, placement.nic), (seed, number))
        for number, phase in enumerate(traffic.phases)
    ]
    timed = [phase_times(phase, draws, None) for phase in phases]
    if background is not None:
        background = _start(routing, background)
        whole = sum(float(times.mean()) for times, _ in timed)
        met = [background * (float(times.mean()) / whole if whole else 0.0) for times, _ in timed]
        timed = [phase_times(phase, draws, part) for phase, part in zip(phases, met, strict=True)]
    ends: dict[str, Floats] = {}
    step = np.zeros(draws)
    results: list[PhaseResult] = []
    for phase, (times, loads) in zip(traffic.phases, timed, strict=True):
        start = np.max([ends[name] for name in phase.after], axis=0) if phase.after else np.zeros(draws)
        ends[phase.name] = start + np.maximum(times, phase.compute_us)
        step = np.maximum(step, ends[phase.name])
        results.append(PhaseResult(phase.name, percentiles(times), loads))
    return NetworkResult("max-link", tuple(results), percentiles(step))


def phase_times(phase: DrawnPhase, draws: int, background: Floats | None) -> tuple[Floats, Floats]:
    """(D,) microseconds in each draw, and (2L,) mean bytes.

    Raises:
        InputError: a used link has no speed.
        UnknownPathError: a transfer has no route.
    """
    fabric, links = phase.routing.fabric, phase.links
    speed = fabric.directed_gbps
    per_byte = np.divide(US_PER_BYTE_AT_1_GBPS, speed, out=np.zeros_like(speed), where=speed > 0)
    others = np.zeros(len(speed)) if background is None else background
    alone = np.where(phase.forced > 0, phase.forced + others, 0.0) * per_byte
    times = np.full(draws, alone.max(initial=0.0))
    total = np.zeros(len(links))
    forced = (phase.forced + others)[links]
    for which, block in phase.blocks(draws):
        total += block.sum(axis=0)
        used = np.where(block > 0, block + forced, 0.0) * per_byte[links]
        times[which] = np.maximum(times[which], used.max(axis=1, initial=0.0))
    loads = phase.forced.copy()
    loads[links] += total / draws
    unknown = np.flatnonzero((loads > 0) & (speed == 0))
    if len(unknown):
        name = fabric.directed_name(int(unknown[0]))
        raise InputError(f"link {name} carries traffic but its speed is not known")
    return times, loads


def percentiles(values: Floats) -> tuple[float, float, float]:
    """(p5, p50, p95) of (D,) values, as numpy.percentile has them."""
    p5, p50, p95 = (float(sorted_percentile(np.sort(values), percent)) for percent in PERCENTILES)
    return p5, p50, p95


def sorted_percentile(values: Floats, percent: float) -> Floats:
    """Percentile along the first axis of values sorted along it, linear between neighbours."""
    place = (len(values) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    between: Floats = values[low] + (values[high] - values[low]) * (place - low)
    return between


def _start(routing: Routing, background: Floats | None) -> Floats:
    count = routing.fabric.directed_count
    if background is None:
        return np.zeros(count)
    if background.shape != (count,):
        raise InputError(f"background: {background.shape} bytes for {count} directed links")
    if not (np.isfinite(background) & (background >= 0)).all():
        raise InputError("background: bytes are negative or no number")
    return background.astype(np.float64)
