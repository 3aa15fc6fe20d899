"""nettune's own method: many starts, swaps by an estimate, then the price itself; the least p95 step time, ties by bytes x hops.

Small problems are exhausted. Others start from what launchers do, from the ranks' grid cut into tiles, and from greedy
packing; the best by the estimate of `topology.placement.estimate` are improved by swaps; then these and the launchers' orders are priced over port
draws, so that no launcher's order is better than what is returned. Where a price is cheap, swaps by price follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from topology.placement.classes import best_of_all, class_of_slot
from topology.placement.cutedges import cut_edges
from topology.placement.estimate import Estimate
from topology.placement.methods import depth_first, lexicographic, packed, regrouped, slurm
from topology.placement.pricing import Price, Prices, predicted_price
from topology.placement.swapping import MOST_EDGES, MOST_SWAPS, clusters_of, improve, promising

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]

EXHAUSTED = 2000
"""Maps that are priced one and all instead of being searched: any 9 nodes on 3 alike leaves, 12 nodes on 2."""
_MOST_EXHAUSTED = 24
_SWAP_WORK = 12_000_000
"""Edges of swaps that the estimate looks at from all starts together: some five seconds."""
_PRICE_WORK = 100_000_000
"""Numbers that prices add up while swapping by price: some seconds."""
_MOST_PRICES = 800
_STARTS = 3
# A map so near to what no map beats is not improved by price.
_ENOUGH = 1.02
# Swaps by price start from maps that cost up to so many times the cheapest.
_NEAR = 1.1
_FEW = 64
"""Units for which random starts are worth it: each takes milliseconds."""
_RESTARTS = 9
# A swap must gain this share: the percentiles come from a finite number of draws.
_LEAST_GAIN = 1e-3
# A map is not priced if its estimate is so many times the best price; on small fabrics estimates are up to half too high.
_HOPELESS = 2.0


def order(problem: Problem) -> Ints:
    """(units,) slot of each unit."""
    if problem.units == 1 and not problem.traffic.phases:
        return depth_first.order(problem)
    found = best_of_all(problem, EXHAUSTED) if problem.units <= _MOST_EXHAUSTED else None
    return searched(problem) if found is None else found


def searched(problem: Problem) -> Ints:
    """(units,) slot of each unit, without exhaustion."""
    launchers: list[Ints] = [method.order(problem) for method in (depth_first, slurm, lexicographic)]
    edges = cut_edges(problem)
    if not len(edges.src):
        return launchers[0]
    estimate = Estimate(edges, problem.traffic.phases, len(problem.slots))
    cluster = clusters_of(edges, problem)
    found: dict[bytes, tuple[float, Ints]] = {}
    for slots in chain(
        launchers, [packed.order(problem)], regrouped.blocks(problem), regrouped.orders(problem)
    ):
        key = np.sort(cluster[slots] * problem.units + np.arange(problem.units)).tobytes()
        if key not in found:
            estimate.set(_whole(problem, slots))
            found[key] = (estimate.smooth_us, slots)
    starts = [slots for _, slots in sorted(found.values(), key=lambda one: one[0])[:_STARTS]]
    if problem.units <= _FEW:
        generator = np.random.default_rng(problem.seed)
        starts += [problem.fill(generator.permutation(len(problem.slots))) for _ in range(_RESTARTS)]
    improved = []
    per_round = min(4 * MOST_SWAPS * 2 * len(edges.src) / problem.units, MOST_EDGES)
    rounds = int(np.clip(_SWAP_WORK / len(starts) / per_round, 4, 200))
    pinned = np.flatnonzero(problem.pinned >= 0)
    for number, slots in enumerate(starts):
        estimate.set(_whole(problem, slots))
        improve(estimate, cluster, pinned, rounds, problem.seed + number)
        improved.append((estimate.smooth_us, estimate.slot[: problem.units].copy()))
    improved.sort(key=lambda one: one[0])
    candidates = [slots for _, slots in improved] + [starts[0], *launchers]
    if _work(problem) * len(candidates) <= _PRICE_WORK:
        return _polished(problem, candidates, estimate, cluster)
    return _cheapest(problem, [candidates[0], *launchers], estimate)


def _whole(problem: Problem, slots: Ints) -> Ints:
    """(S,) the slots of the units, then those that stay empty."""
    return np.concatenate([slots, np.setdiff1d(np.arange(len(problem.slots)), slots)])


def _work(problem: Problem) -> int:
    """Numbers that one price adds up."""
    phases = problem.traffic.phases
    edges = sum(len(phase.src) * phase.connections for phase in phases)
    return problem.draws * (len(phases) * len(problem.routing.hops.between) + edges)


def _cheapest(problem: Problem, candidates: list[Ints], estimate: Estimate) -> Ints:
    """The map of the least price, for maps that are costly to price: hopeless ones are left out."""
    best, slots = predicted_price(problem, candidates[0]), candidates[0]
    classes = class_of_slot(problem)
    seen = {classes[slots].tobytes()}
    for other in candidates[1:]:
        if classes[other].tobytes() in seen:
            continue
        seen.add(classes[other].tobytes())
        estimate.set(_whole(problem, other))
        if estimate.cost_us > best.time_us * _HOPELESS:
            continue
        price = predicted_price(problem, other)
        if _better(price, best):
            best, slots = price, other
    return slots


def _polished(problem: Problem, candidates: list[Ints], estimate: Estimate, cluster: Ints) -> Ints:
    """The cheapest map after swaps that lower the price, from each of the cheapest candidates while prices last."""
    prices = Prices(problem)
    classes = class_of_slot(problem)
    priced = {classes[slots].tobytes(): (prices.price(slots), slots) for slots in reversed(candidates)}
    ordered = sorted(priced.values(), key=lambda one: one[0])
    best, found = ordered[0]
    left = int(min(_MOST_PRICES, _PRICE_WORK / _work(problem)))
    enough = problem.bound_us * _ENOUGH
    for number, (price, slots) in enumerate(ordered):
        if left <= 0 or best.time_us <= enough or price.time_us > ordered[0][0].time_us * _NEAR:
            break
        search = _Swaps(problem, prices, classes, (estimate, cluster), problem.seed + number)
        lower, better, used = search.from_(price, slots, left)
        left -= used
        if _better(lower, best):
            best, found = lower, better
    return found


@dataclass(frozen=True)
class _Swaps:
    """Swaps by price: the first that gains is made."""

    problem: Problem
    prices: Prices
    classes: Ints
    guide: tuple[Estimate, Ints]
    seed: int

    def from_(self, best: Price, slots: Ints, most: int) -> tuple[Price, Ints, int]:
        """Price and slots of the better map, and how many maps were priced."""
        units, generator = self.problem.units, np.random.default_rng(self.seed)
        movable = np.ones(len(self.problem.slots), dtype=np.bool_)
        movable[np.flatnonzero(self.problem.pinned >= 0)] = False
        slot, used, improved = _whole(self.problem, slots), 0, True
        self.prices.price(slots)
        self.prices.accept()
        while improved and used < most:
            improved = False
            for a, b in _pairs(slot, *self.guide, movable, generator).tolist():
                if a >= units or self.classes[slot[a]] == self.classes[slot[b]]:
                    continue
                if used >= most:
                    break
                used += 1
                slot[[a, b]] = slot[[b, a]]
                trial = self.prices.price(slot[:units])
                if _better(trial, best):
                    best, improved = trial, True
                    self.prices.accept()
                else:
                    slot[[a, b]] = slot[[b, a]]
        return best, slot[:units], used


def _pairs(
    slot: Ints, estimate: Estimate, cluster: Ints, movable: NDArray[np.bool_], generator: np.random.Generator
) -> Ints:
    """(K, 2) units to swap: all where there are few, else the promising ones."""
    free = np.flatnonzero(movable)
    if len(free) <= 64:
        one, other = np.triu_indices(len(free), 1)
        return free[np.stack([one, other], axis=1)[generator.permutation(len(one))]]
    estimate.set(slot.copy())
    return promising(estimate, cluster, movable, 1000)


def _better(trial: Price, best: Price) -> bool:
    if trial.time_us < best.time_us * (1 - _LEAST_GAIN):
        return True
    as_fast = trial.time_us <= best.time_us * (1 + _LEAST_GAIN / 10)
    return as_fast and trial.hop_bytes < best.hop_bytes * (1 - _LEAST_GAIN)
