"""The overlapped hybrid: a share x of a message over ring channels while 1 - x goes over tree channels. Is it worth it?

A linear program: the least T over x, with for every link l and port draw d

    T_d >= first + size x (x R_dl + (1 - x) V_dl) / speed_l        both halves share the link
    T_d >= ring latency + size x x max_l (R_dl / speed_l)          each half alone
    T_d >= tree latency + size x (1 - x) max_l (V_dl / speed_l)

where R and V are the shares of the message that the ring's and the tree's edges put on a link and `first` is the smaller
latency. The mean of T_d is minimised; x = 0 and x = 1 are also priced as what they are, one schedule alone. Both halves
leave through the same NICs, so where a NIC binds, what one half gives up the other takes, and nothing is gained: then
the plan says so.

The prediction is at least the cut bound of the collective, hence the gain at most what that bound leaves: each half is a
whole collective on its share, and every cut must carry both. It leaves out: start-up of channels, queues, and that NCCL
itself cannot mix (two communicators, or an own schedule, can).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectives.schedules import Edges, Schedule
from nettune.errors import InputError
from topology.loads import US_PER_BYTE_AT_1_GBPS, drawn_loads, expected_loads
from topology.placement.mapping import Placement
from topology.routing import Routing
from topology.traffic import Phase, transfers

Floats = NDArray[np.float64]

PLAN_SCHEMA = "nettune.hybrid-plan/1"
WORTH_IT = 0.01  # a smaller gain is within what the model leaves out
_TIGHT = 1e-6  # relative: constraints this close to equality bind


@dataclass(frozen=True)
class Half:
    """One of the two schedules.

    Attributes:
        name: for the sentence.
        edges: directed pairs of ranks with the share of the message that each carries.
        latency_us: what it takes for an empty message.
    """

    name: str
    edges: Edges
    latency_us: float

    @classmethod
    def of(cls, schedule: Schedule, alpha_us: float) -> Half:
        """Half of a schedule, a round of which costs `alpha_us` whatever it carries."""
        return cls(schedule.name, schedule.edges, schedule.count * alpha_us)


@dataclass(frozen=True)
class Plan:
    """How to split.

    Attributes:
        share: part of the message for the first half (the ring): 1 all, 0 none.
        time_us: predicted, mean over port draws.
        alone_us: predicted of each half alone, first and second.
        gain: 1 - time / the better half alone; 0 where one half alone is best.
        binding: link that limits the split, the busiest on the mean of the draws; empty where a latency does.
        sentence: the result for a person.
    """

    share: float
    time_us: float
    alone_us: tuple[float, float]
    gain: float
    binding: str
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`."""
        return {"schema": PLAN_SCHEMA, **vars(self), "alone_us": list(self.alone_us)}


def plan(
    routing: Routing,
    placement: Placement,
    ring: Half,
    tree: Half,
    size_bytes: float,
    *,
    draws: int = 0,
    seed: int = 0,
    shares: tuple[Floats, Floats] | None = None,
    alone_shares: tuple[Floats, Floats] | None = None,
) -> Plan:
    """The best split of one message between two halves that run at the same time.

    Args:
        routing: forwarding state, with its fabric.
        placement: where the ranks are.
        ring: the first half; any schedule of the same operation will do.
        tree: the second.
        size_bytes: message size.
        draws: port draws; 0 takes the mean load of each link, which is optimistic about collisions.
        seed: of the draws.
        shares: (2L,) share of the message that each half puts on each directed link, where paths are chosen; no draws
            are made then.
        alone_shares: the same for each half alone, where its paths are then other ones.

    Raises:
        InputError: a used link has no speed, or the size is not positive.
        UnknownPathError: two ranks have no route between them.
    """
    if size_bytes <= 0:
        raise InputError(f"hybrid: the message has {size_bytes} bytes; there is nothing to split")
    loads = (
        [_loads(routing, placement, half, draws, seed) for half in (ring, tree)]
        if shares is None
        else [share[None, :] for share in shares]
    )
    speed = routing.fabric.directed_gbps
    used = np.flatnonzero((loads[0] + loads[1]).max(axis=0) > 0)
    if np.any(speed[used] == 0):
        slow = int(used[np.argmin(speed[used])])
        raise InputError(
            f"link {routing.fabric.directed_name(slow)} carries traffic but its speed is not known"
        )
    # Microseconds that each link needs for the whole message, (D, used links).
    per_share = size_bytes * US_PER_BYTE_AT_1_GBPS / speed[used]
    first, second = (load[:, used] * per_share for load in loads)
    by_itself = [first, second]
    if alone_shares is not None:
        by_itself = [share[None, used] * per_share for share in alone_shares]
    alone = (
        ring.latency_us + float(by_itself[0].max(axis=1, initial=0.0).mean()),
        tree.latency_us + float(by_itself[1].max(axis=1, initial=0.0).mean()),
    )
    share, time_us = _solve(first, second, ring.latency_us, tree.latency_us)
    best = min(alone)
    binding = ""
    if len(used):
        shared = share * first + (1 - share) * second
        if float(shared.max(axis=1).mean()) + min(ring.latency_us, tree.latency_us) >= time_us * (1 - _TIGHT):
            binding = routing.fabric.directed_name(int(used[np.argmax(shared.mean(axis=0))]))
    if time_us >= best * (1 - WORTH_IT):
        better = ring if alone[0] <= alone[1] else tree
        share, time_us, gain = float(better is ring), best, 0.0
        sentence = _no_gain(routing, better, used, first, second, share)
    else:
        gain = 1 - time_us / best
        limit = f"limited by {binding}" if binding else "limited by the latency and links of each half alone"
        sentence = (
            f"{share:.0%} over {ring.name} and {1 - share:.0%} over {tree.name} takes {time_us:.0f} us against "
            f"{best:.0f} us for the better of the two alone ({gain:.1%} less), {limit}."
        )
    return Plan(share, time_us, alone, gain, binding, sentence)


def _loads(routing: Routing, placement: Placement, half: Half, draws: int, seed: int) -> Floats:
    """(D, 2L) share of the message on each directed link."""
    edges = half.edges
    phase = Phase(half.name, "hybrid", 1.0, edges.src, edges.dst, edges.share)
    moved = transfers(phase, placement.nic)
    return drawn_loads(routing, moved, draws, seed) if draws else expected_loads(routing, moved)[None, :]


def _solve(first: Floats, second: Floats, ring_latency: float, tree_latency: float) -> tuple[float, float]:
    """Share of the first half and mean time of the mix."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    # Variables x, T_1 .. T_D. Each row: slope * x - T_d <= -constant.
    draws, links = first.shape
    least = min(ring_latency, tree_latency)
    ring_most, tree_most = first.max(axis=1, initial=0.0), second.max(axis=1, initial=0.0)
    slope = np.concatenate([(first - second).ravel(), ring_most, -tree_most])
    constant = np.concatenate(
        [(second + least).ravel(), np.full(draws, ring_latency), tree_latency + tree_most]
    )
    draw = np.concatenate([np.repeat(np.arange(draws), links), np.arange(draws), np.arange(draws)])
    # Constraints that another one of the same draw implies for all x are many: links used alike.
    kept = np.unique(np.stack([draw, slope, constant]), axis=1)
    draw, slope, constant = kept[0].astype(np.int64), kept[1], kept[2]
    rows = np.arange(len(slope))
    scale = max(float(constant.max()), float(np.abs(slope).max()), 1e-30)
    # The stubs of scipy do not know that linprog takes sparse tables.
    table: Any = coo_array(
        (
            np.concatenate([slope / scale, -np.ones(len(rows))]),
            (np.concatenate([rows, rows]), np.concatenate([np.zeros_like(draw), draw + 1])),
        ),
        shape=(len(rows), draws + 1),
    )
    goal = np.concatenate([[0.0], np.full(draws, 1 / draws)])
    bounds = [(0.0, 1.0)] + [(0.0, None)] * draws
    solved: Any = linprog(goal, A_ub=table.tocsr(), b_ub=-constant / scale, bounds=bounds, method="highs")
    if not solved.success:
        raise InputError(f"hybrid: the linear program was not solved: {solved.message}")
    share = float(np.clip(solved.x[0], 0.0, 1.0))
    # The solver keeps constraints only within its tolerance; the time of this share is worked out exactly.
    times = np.zeros(draws)
    np.maximum.at(times, draw, slope * share + constant)
    return share, float(times.mean())


def _no_gain(
    routing: Routing, better: Half, used: NDArray[np.int64], first: Floats, second: Floats, share: float
) -> str:
    if not len(used):
        return "Nothing is gained by splitting: no byte crosses the network."
    own, other = (
        (first.mean(axis=0), second.mean(axis=0)) if share else (second.mean(axis=0), first.mean(axis=0))
    )
    worst = int(np.argmax(own))
    name = routing.fabric.directed_name(int(used[worst]))
    if not own[worst]:
        return f"Nothing is gained by splitting: {better.name} alone puts no byte on the network."
    return (
        f"Nothing is gained by splitting: {better.name} alone is limited by {name}, which the other half loads "
        f"{other[worst] / own[worst]:.2f} times as much for the same bytes."
    )
