"""Local search by swaps, from the best of the constructive orders: the least p95 step time, ties by bytes x hops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.loads import predict
from topology.placement.bound import lower_bound_us
from topology.placement.mapping import Placement
from topology.placement.methods import depth_first, packed

if TYPE_CHECKING:
    from topology.placement.problem import Problem

MAX_EVALUATIONS = 3000
# A swap must gain this share: the percentiles come from a finite number of draws.
_LEAST_GAIN = 1e-3


def order(problem: Problem) -> list[str]:
    """Host of each rank.

    Hosts that no rank uses take part as empty slots. Every swap is priced by `predict` with the same port draws; the
    search stops when no swap gains, when the lower bound is reached, or after MAX_EVALUATIONS prices.
    """
    starts = [depth_first.order(problem), packed.order(problem)]
    slots, price = min(((start, _price(problem, start)) for start in starts), key=lambda found: found[1])
    spare = problem.slots(problem.hosts)
    for host in slots:
        spare.remove(host)
    slots = [*slots, *spare]
    enough = lower_bound_us(problem) * (1 + _LEAST_GAIN)
    evaluations = 0
    improved = price[0] > enough
    while improved and evaluations < MAX_EVALUATIONS:
        improved = False
        for a in range(problem.traffic.ranks):
            for b in range(a + 1, len(slots)):
                if slots[a] == slots[b] or evaluations >= MAX_EVALUATIONS:
                    continue
                trial = list(slots)
                trial[a], trial[b] = trial[b], trial[a]
                trial_price = _price(problem, trial[: problem.traffic.ranks])
                evaluations += 1
                if _better(trial_price, price):
                    slots, price = trial, trial_price
                    improved = price[0] > enough
    return slots[: problem.traffic.ranks]


def _price(problem: Problem, hosts: list[str]) -> tuple[float, float]:
    placement = Placement.of_hosts(problem.routing.fabric, hosts)
    result = predict(problem.routing, placement, problem.traffic, draws=problem.draws, seed=problem.seed)
    return result.time_us[2], problem.hop_bytes(placement)


def _better(trial: tuple[float, float], best: tuple[float, float]) -> bool:
    if trial[0] < best[0] * (1 - _LEAST_GAIN):
        return True
    return trial[0] <= best[0] * (1 + _LEAST_GAIN / 10) and trial[1] < best[1] * (1 - _LEAST_GAIN)
