"""`replaced`: a running job gets other hosts for some nodes, and every other node stays unless moving it pays.

Nodes whose host may not be used any more go to free hosts, one after another to the one that costs least. A map that is made
anew is taken only if its step is shorter by a stated share.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.placement.cutedges import cut_edges
from topology.placement.estimate import Estimate
from topology.placement.place import METHODS, OURS, Placed, priced, problem_of
from topology.placement.pricing import predicted_price

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.mapping import Placement
    from topology.placement.problem import Problem
    from topology.routing import Routing
    from topology.traffic import StepTraffic

    Ints = NDArray[np.int64]

THRESHOLD = 0.05
"""Share of the step's communication time that a map made anew must gain: checkpoints and warm caches move with ranks."""
KEPT = "kept"
"""Method of a map that changed no more than it had to."""
_TRIED = 8
"""Free slots of a displaced unit that are priced, the best by the estimate."""


def replaced(
    routing: Routing,
    traffic: StepTraffic,
    parent: Placement,
    *,
    threshold: float = THRESHOLD,
    ranks_per_host: int | None = None,
    **options: Any,
) -> Placed:
    """The parent map with as few moves as possible, or nettune's map where that gains more than the threshold.

    Args:
        routing: forwarding state with its fabric.
        traffic: the step's communication.
        parent: the map that the job has.
        threshold: share of the kept map's time that a map made anew must gain.
        ranks_per_host: left out, the most that a host of the parent has.
        **options: as in `topology.placement.place.problem_of`; the failed host is one of `excluded`.

    Raises:
        InputError: as `place`; a parent of another number of ranks, a threshold below 0.
        UnknownPathError: two hosts have no route between them.
    """
    per_host = ranks_per_host or int(np.unique(parent.host, return_counts=True)[1].max())
    problem = problem_of(routing, traffic, ranks_per_host=per_host, **options)
    return resolved(problem, parent.host, threshold)


def resolved(problem: Problem, parent: Ints, threshold: float = THRESHOLD) -> Placed:
    """`replaced` for a problem that is at hand: one without the hosts that must be left.

    Args:
        problem: the problem.
        parent: (R,) node row of each rank under the map that the job has; negative where the fabric has its host no more.
        threshold: as in `replaced`.

    Raises:
        InputError: a parent of another number of ranks, a threshold below 0; as `topology.loads.predict`.
        UnknownPathError: two hosts have no route between them.
    """
    if len(parent) != problem.traffic.ranks:
        raise InputError(f"the map to keep has {len(parent)} ranks, the job {problem.traffic.ranks}")
    if not threshold >= 0:
        raise InputError(
            f"a threshold of {threshold} is below 0; give the share of the time that moves must gain"
        )
    kept = _kept(problem, parent)
    anew = settled(problem, import_module(METHODS[OURS]).order(problem), parent)
    chosen, method = kept, KEPT
    if predicted_price(problem, anew).time_us < predicted_price(problem, kept).time_us * (1 - threshold):
        chosen, method = anew, OURS
    return priced(problem, replace(problem.placement(chosen, method), parent=parent))


def settled(problem: Problem, slots: Ints, parent: Ints) -> Ints:
    """The same map up to hosts that no path tells apart, with as many units as possible where the parent has them."""
    from topology.placement.classes import class_of_slot

    classes = class_of_slot(problem)
    before = problem.slots_under(parent)
    found = np.full(len(slots), -1, dtype=np.int64)
    stays = (before >= 0) & (classes[np.maximum(before, 0)] == classes[slots])
    # Pinned units have the slot that they must have; nobody else settles there.
    stays &= ~np.isin(before, slots[problem.pinned >= 0]) | (before == problem.pinned)
    stays[problem.pinned >= 0] = False
    found[problem.pinned >= 0] = problem.pinned[problem.pinned >= 0]
    found[stays] = before[stays]
    for number in np.unique(classes[slots]).tolist():
        loose = np.flatnonzero((found < 0) & (classes[slots] == number))
        free = np.setdiff1d(np.flatnonzero(classes == number), found[found >= 0])
        # Empty slots that the map used anyway come first: the same hosts stay in use.
        free = free[np.argsort(~np.isin(free, slots), kind="stable")]
        found[loose] = free[: len(loose)]
    return found


def _kept(problem: Problem, parent: Ints) -> Ints:
    """Slots that keep what the parent has, displaced units in the free slots that cost least, the busiest unit first."""
    found = problem.slots_under(parent)
    fixed = problem.pinned >= 0
    found[~fixed & np.isin(found, problem.pinned[fixed])] = -1
    found[fixed] = problem.pinned[fixed]
    size = problem.ranks_in_a_unit
    load = np.zeros(problem.units)
    for phase in problem.traffic.phases:
        np.add.at(load, phase.src // size, phase.edge_bytes)
    lost = np.flatnonzero(found < 0)
    lost = lost[np.argsort(-load[lost], kind="stable")]
    free = np.setdiff1d(np.arange(len(problem.slots)), found[found >= 0])
    found[lost] = free[: len(lost)]
    estimate = Estimate(cut_edges(problem), problem.traffic.phases, len(problem.slots))
    empty = np.setdiff1d(np.arange(len(problem.slots)), found)
    for unit in lost.tolist():
        whole = np.concatenate([found, empty])
        others = np.concatenate([[unit], lost[lost > unit], np.arange(problem.units, len(whole))])
        estimate.set(whole)
        costs = estimate.swapped(np.full(len(others), unit), others)
        best = others[np.argsort(costs, kind="stable")[:_TRIED]]
        maps = []
        for other in best.tolist():
            trial = whole.copy()
            trial[[unit, other]] = trial[[other, unit]]
            maps.append(trial)
        whole = min(maps, key=lambda one: predicted_price(problem, one[: problem.units]))
        found, empty = whole[: problem.units], whole[problem.units :]
    return found
