"""Local search by swaps, from the best of the constructive orders: the least p95 step time, ties by bytes x hops."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from topology.placement.bound import lower_bound_us
from topology.placement.methods import depth_first, packed
from topology.placement.pricing import Price, Prices

if TYPE_CHECKING:
    from topology.placement.problem import Problem

MAX_EVALUATIONS = 3000
# A swap must gain this share: the percentiles come from a finite number of draws.
_LEAST_GAIN = 1e-3


def order(problem: Problem) -> list[str]:
    """Host of each rank.

    Hosts that no rank uses take part as empty slots. Every swap is priced with the same port draws; the search stops when
    no swap gains, when the lower bound is reached, or after MAX_EVALUATIONS prices.
    """
    prices = Prices(problem)
    ranks = problem.traffic.ranks
    number = {host: row for row, host in enumerate(problem.hosts)}
    starts = [
        np.array([number[host] for host in method.order(problem)], dtype=np.int64)
        for method in (depth_first, packed)
    ]
    best, hosts = min(((prices.price(start), start) for start in starts), key=lambda found: found[0])
    prices.price(hosts)
    prices.accept()
    spare = np.full(len(problem.hosts), problem.ranks_per_host) - np.bincount(
        hosts, minlength=len(problem.hosts)
    )
    slots = np.concatenate([hosts, np.repeat(np.arange(len(problem.hosts)), spare)])
    enough = lower_bound_us(problem) * (1 + _LEAST_GAIN)
    evaluations = 0
    improved = best.time_us > enough
    while improved and evaluations < MAX_EVALUATIONS:
        improved = False
        for a, b in combinations(range(len(slots)), 2):
            if a >= ranks or evaluations >= MAX_EVALUATIONS or (improved and best.time_us <= enough):
                break
            if slots[a] == slots[b]:
                continue
            slots[[a, b]] = slots[[b, a]]
            trial = prices.price(slots[:ranks])
            evaluations += 1
            if _better(trial, best):
                best, improved = trial, True
                prices.accept()
            else:
                slots[[a, b]] = slots[[b, a]]
        improved = improved and best.time_us > enough
    return [problem.hosts[row] for row in slots[:ranks].tolist()]


def _better(trial: Price, best: Price) -> bool:
    if trial.time_us < best.time_us * (1 - _LEAST_GAIN):
        return True
    as_fast = trial.time_us <= best.time_us * (1 + _LEAST_GAIN / 10)
    return as_fast and trial.hop_bytes < best.hop_bytes * (1 - _LEAST_GAIN)
