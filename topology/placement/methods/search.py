"""nettune's own method: many starts, swaps by an estimate, then the price itself; the least p95 step time, ties by bytes x hops.

Small problems are exhausted. Others start from what launchers do, from the ranks' grid cut into tiles, and from greedy
packing; the best by the estimate of `topology.placement.estimate` are improved by swaps of units and of parts of groups; then
these and the launchers' orders are priced over port draws, so that no launcher's order is better than what is returned. Where
a price is cheap, swaps by price follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from topology.placement.blocks import block_swaps, group_labels
from topology.placement.classes import best_of_all, class_of_slot
from topology.placement.cutedges import cut_edges
from topology.placement.estimate import Estimate
from topology.placement.methods import depth_first, lexicographic, packed, regrouped, slurm
from topology.placement.pricing import Price, Prices, predicted_price
from topology.placement.swapping import MOST_EDGES, MOST_SWAPS, clusters_of, improve, promising

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_LEAST_PRICES = 100
"""Where no more prices than that are to be had, swaps by price are not begun."""
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
# Maps whose times differ by less than this share are as fast: p95 over 100 draws is no surer than that.
_AS_FAST = 5e-3
_BLOCKS = 4
"""Exchanges of parts of groups by price: so many times all units move, for each kind of group."""
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
    if _work(problem) * _LEAST_PRICES <= _PRICE_WORK:
        priced = _polished(problem, candidates, estimate, cluster)
    else:
        priced = _worth_pricing(problem, [candidates[0], starts[0], *launchers], estimate)
    classes = class_of_slot(problem)
    launched = [
        priced[key][0].time_us for key in (classes[one].tobytes() for one in launchers) if key in priced
    ]
    limit = min([min(priced.values(), key=lambda one: one[0])[0].time_us * (1 + _AS_FAST), *launched])
    as_fast = [one for one in priced.values() if one[0].time_us <= limit]
    # A little less time is not worth much more bytes x hops, nor the other way around.
    return min(as_fast, key=lambda one: one[0].time_us * one[0].hop_bytes)[1]


def _whole(problem: Problem, slots: Ints) -> Ints:
    """(S,) the slots of the units, then those that stay empty."""
    return np.concatenate([slots, np.setdiff1d(np.arange(len(problem.slots)), slots)])


def _work(problem: Problem) -> int:
    """Numbers that one price adds up."""
    phases = problem.traffic.phases
    edges = sum(len(phase.src) * phase.connections for phase in phases)
    return problem.draws * (len(phases) * len(problem.routing.hops.between) + edges)


def _worth_pricing(
    problem: Problem, candidates: list[Ints], estimate: Estimate
) -> dict[bytes, tuple[Price, Ints]]:
    """Maps by their classes with their prices, for maps that are costly to price: hopeless ones are left out."""
    classes = class_of_slot(problem)
    found: dict[bytes, tuple[Price, Ints]] = {}
    for slots in candidates:
        key = classes[slots].tobytes()
        estimate.set(_whole(problem, slots))
        best_us = min((price.time_us for price, _ in found.values()), default=np.inf)
        if key not in found and estimate.cost_us <= best_us * _HOPELESS:
            found[key] = predicted_price(problem, slots), slots
    return found


def _polished(
    problem: Problem, candidates: list[Ints], estimate: Estimate, cluster: Ints
) -> dict[bytes, tuple[Price, Ints]]:
    """Maps by their classes with their prices, and those after swaps by price from the cheapest, while prices last."""
    prices = Prices(problem)
    classes = class_of_slot(problem)
    alike = {classes[slots].tobytes(): slots for slots in reversed(candidates)}
    found = {key: (prices.price(slots), slots) for key, slots in alike.items()}
    ordered = sorted(found.values(), key=lambda one: one[0])
    best_us = ordered[0][0].time_us
    left = int(min(_MOST_PRICES, _PRICE_WORK / _work(problem)))
    enough = problem.bound_us * _ENOUGH
    for number, (price, slots) in enumerate(ordered):
        if left <= 0 or best_us <= enough or price.time_us > ordered[0][0].time_us * _NEAR:
            break
        search = _Swaps(problem, prices, classes, (estimate, cluster), problem.seed + number)
        lower, better, used = search.from_(price, slots, left)
        left -= used
        best_us = min(best_us, lower.time_us)
        found[classes[better].tobytes()] = lower, better
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
        units = self.problem.units
        slot, used, improved = _whole(self.problem, slots), 0, True
        generator = np.random.default_rng(self.seed)
        self.prices.price(slots)
        self.prices.accept()
        while improved and used < most:
            improved = False
            for one, other in self._trials(slot.copy(), generator):
                if used >= most:
                    break
                still = (one >= units) & (other >= units) | (
                    self.classes[slot[one]] == self.classes[slot[other]]
                )
                if still.all():
                    continue
                used += 1
                slot[one], slot[other] = slot[other], slot[one]
                trial = self.prices.price(slot[:units])
                if _better(trial, best):
                    best, improved = trial, True
                    self.prices.accept()
                else:
                    slot[one], slot[other] = slot[other], slot[one]
        return best, slot[:units], used

    def _trials(self, slot: Ints, generator: np.random.Generator) -> Iterator[tuple[Ints, Ints]]:
        """Units that change places: pairs, all where there are few, else the promising ones; then parts of groups."""
        estimate, cluster = self.guide
        movable = np.ones(len(slot), dtype=np.bool_)
        movable[np.flatnonzero(self.problem.pinned >= 0)] = False
        free = np.flatnonzero(movable)
        if len(free) <= _FEW:
            one, other = np.triu_indices(len(free), 1)
            pairs = free[np.stack([one, other], axis=1)[generator.permutation(len(one))]]
        else:
            estimate.set(slot)
            pairs = promising(estimate, cluster, movable, 1000)
        yield from zip(pairs[:, :1], pairs[:, 1:], strict=True)
        for label in group_labels(estimate.edges, self.problem.units, len(slot)):
            one, other, trial = block_swaps(
                generator, label, self.classes[slot], movable, _BLOCKS * len(slot)
            )
            parts = np.flatnonzero(np.diff(trial)) + 1
            yield from zip(np.split(one, parts), np.split(other, parts), strict=True)


def _better(trial: Price, best: Price) -> bool:
    if trial.time_us < best.time_us * (1 - _LEAST_GAIN):
        return True
    as_fast = trial.time_us <= best.time_us * (1 + _LEAST_GAIN / 10)
    return as_fast and trial.hop_bytes < best.hop_bytes * (1 - _LEAST_GAIN)
