"""Where a hybrid is cut: the share of rings that `collectives.cost.hybrid` plans, for steered or drawn paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collectives.cost.hybrid import Half, Plan, plan
from collectives.prediction import Predictor
from collectives.schedules import Edges, Op, Schedule
from collectives.setting import Setting, Shape, scheduled
from collectives.steering import Candidates

if TYPE_CHECKING:
    from topology.placement.mapping import Placement
    from topology.routing import Routing

Floats = NDArray[np.float64]

_NEAR = (-0.05, 0.0, 0.05, 0.1, 0.15)
_CHOICES = 2
_TURNS = 3  # paths are chosen for a share, the share for these paths, and so on; two turns agree


def planned(
    setting: Setting, shape: Shape, routing: Routing, placement: Placement, size_bytes: float
) -> tuple[Setting, Plan]:
    """A hybrid setting with its share `x`, and why.

    Raises:
        InputError: as `collectives.cost.hybrid.plan`, or options that the hybrid does not have.
    """
    halves = [_schedule(setting, shape, x) for x in (1.0, 0.0)]
    ring, tree = (Half.of(half, 0.0) for half in halves)
    if not setting.steer:
        made = plan(routing, placement, ring, tree, size_bytes)
        return _with(setting, made.share), made
    alone = [_loads(routing, placement, half, lambda edges: edges.channel >= 0, 1.0) for half in halves]
    x, rings = 0.5, halves[0].channels
    for _ in range(_TURNS):
        schedule = _schedule(setting, shape, x)
        shares = (
            _loads(routing, placement, schedule, lambda edges: edges.channel < rings, x),
            _loads(routing, placement, schedule, lambda edges: edges.channel >= rings, 1 - x),
        )
        made = plan(
            routing, placement, ring, tree, size_bytes, shares=shares, alone_shares=(alone[0], alone[1])
        )
        if not 0 < made.share < 1:
            break
        x = made.share
    if not 0 < made.share < 1:
        return _with(setting, made.share), made
    # The program knows bytes only. Messages also wait for one another, which moves the best share a little.
    near = [made.share + step for step in _NEAR if 0 < made.share + step < 1]
    times = {x: _time_us(routing, placement, _schedule(setting, shape, x), size_bytes) for x in near}
    return _with(setting, min(times, key=lambda x: times[x])), made


def _time_us(routing: Routing, placement: Placement, schedule: Schedule, size_bytes: float) -> float:
    """Simulated on the best of some choices of paths."""
    predictor = Predictor(routing, placement, schedule)
    candidates = Candidates.anywhere(routing, placement, schedule.channel_edges)
    elements = max(1, int(size_bytes) // 4)
    choices = [candidates.links(candidates.chosen(seed)) for seed in range(_CHOICES)]
    return min(predictor.time_us(size_bytes, elements, links) for links in choices)


def _with(setting: Setting, x: float) -> Setting:
    return replace(setting, options={**setting.options, "x": round(x, 4)})


def _schedule(setting: Setting, shape: Shape, x: float) -> Schedule:
    schedule = scheduled(_with(setting, x), Op.ALL_REDUCE, shape)
    assert schedule is not None
    return schedule


def _loads(
    routing: Routing,
    placement: Placement,
    schedule: Schedule,
    part: Callable[[Edges], NDArray[np.bool_]],
    whole: float,
) -> Floats:
    """(2L,) share of the message on each directed link by some of the edges, when all are steered together."""
    candidates = Candidates.anywhere(routing, placement, schedule.channel_edges)
    chosen = candidates.chosen()
    edges, taken = candidates.edges, candidates.taken[np.arange(len(chosen)), chosen]
    mine = part(edges)
    load = np.zeros(routing.fabric.directed_count + 1)
    np.add.at(load, taken[mine], edges.share[mine][:, None] / whole)
    return load[:-1]
