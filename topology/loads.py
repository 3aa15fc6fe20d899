"""Bytes on every directed link: exact where paths are known, else a mean and percentiles over port draws.

The step's time by method `max-link`: each phase lasts as long as its most loaded link needs at its nominal speed;
phases follow one another as their `after` says. It is a lower bound for that placement and those port draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.results import NetworkResult, PhaseResult
from topology.traffic import transfers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.placement.mapping import Placement
    from topology.routing import FlowKey, Routing
    from topology.traffic import StepTraffic, Transfers

    Floats = NDArray[np.float64]

PERCENTILES = (5, 50, 95)


def exact_loads(routing: Routing, flows: Sequence[FlowKey], flow_bytes: Sequence[float]) -> Floats:
    """(2L,) bytes when every flow's 5-tuple is known.

    Raises:
        UnknownPathError: as `Routing.paths`.
    """
    loads = np.zeros(routing.fabric.directed_count)
    for links, carried in zip(routing.paths(flows), flow_bytes, strict=True):
        loads[list(links)] += carried
    return loads


def expected_loads(routing: Routing, moved: Transfers) -> Floats:
    """(2L,) mean bytes over port draws under an ideal hash."""
    loads = np.zeros(routing.fabric.directed_count)
    for src, dst, carried in zip(
        moved.src_port.tolist(), moved.dst_port.tolist(), moved.bytes_.tolist(), strict=True
    ):
        for link, probability in routing.spread(src, dst).items():
            loads[link] += probability * carried
    return loads


def drawn_loads(routing: Routing, moved: Transfers, draws: int, seed: int = 0) -> Floats:
    """(D, 2L) bytes in each of D port draws under an ideal hash.

    The random numbers belong to (edge, connection, draw) and not to the placement, so two placements compared with one
    seed differ by their paths alone (common random numbers).
    """
    loads = np.zeros((draws, routing.fabric.directed_count))
    if not len(moved.edge):
        return loads
    connections = int(moved.connection.max()) + 1
    uniform = np.random.default_rng(seed).random((int(moved.edge.max()) + 1, connections, draws))
    rows = np.arange(draws)
    columns = (moved.src_port, moved.dst_port, moved.bytes_, moved.edge, moved.connection)
    for src, dst, carried, edge, connection in zip(*(column.tolist() for column in columns), strict=True):
        alternatives = routing.alternatives(src, dst)
        edges = np.cumsum([probability for probability, _ in alternatives])
        picked = np.minimum(
            np.searchsorted(edges, uniform[edge, connection], side="right"), len(alternatives) - 1
        )
        for index, (_, links) in enumerate(alternatives):
            taken = rows[picked == index]
            for link in links:
                loads[taken, link] += carried
    return loads


def predict(
    routing: Routing, placement: Placement, traffic: StepTraffic, *, draws: int = 200, seed: int = 0
) -> NetworkResult:
    """Loads and time of a step on a fabric under a placement, method `max-link`.

    Raises:
        InputError: the placement has other ranks than the traffic, or a used link has no speed.
        UnknownPathError: a transfer has no route.
    """
    if placement.ranks != traffic.ranks:
        raise InputError(f"the placement has {placement.ranks} ranks, the job {traffic.ranks}")
    speed = routing.fabric.directed_gbps
    results: list[PhaseResult] = []
    ends: dict[str, Floats] = {}
    step = np.zeros(draws)
    for phase in traffic.phases:
        loads = drawn_loads(routing, transfers(phase, placement.nic), draws, seed)
        used = loads.max(axis=0) > 0
        if np.any(speed[used] == 0):
            link = int(np.flatnonzero(used & (speed == 0))[0])
            raise InputError(
                f"link {routing.fabric.directed_name(link)} carries traffic but its speed is not known"
            )
        duration = (loads[:, used] * 8e-3 / speed[used]).max(axis=1) if used.any() else np.zeros(draws)
        start = np.max([ends[name] for name in phase.after], axis=0) if phase.after else np.zeros(draws)
        ends[phase.name] = start + duration
        step = np.maximum(step, ends[phase.name])
        results.append(PhaseResult(phase.name, _percentiles(duration), loads.mean(axis=0)))
    return NetworkResult("max-link", tuple(results), _percentiles(step))


def _percentiles(values: NDArray[Any]) -> tuple[float, float, float]:
    p5, p50, p95 = np.percentile(values, PERCENTILES)
    return float(p5), float(p50), float(p95)
