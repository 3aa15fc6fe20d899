"""Local search by swaps of units and of blocks of units, with the estimate of `topology.placement.estimate`.

For every unit and every cluster of slots that look alike, the slope of the estimate says what the unit's bytes would cost
there; the best movers out of a cluster meet the best movers into it. The estimate then prices all of these swaps at once, and
those that gain and do not touch each other are made together. Where none gains, random swaps and random exchanges of
parts of groups (`topology.placement.blocks`) are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.placement.blocks import block_swaps, group_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.cutedges import CutEdges
    from topology.placement.estimate import Estimate
    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_LEAST_GAIN = 1e-6
_PARTNERS = 2
MOST_SWAPS = 1024
_TARGETS = 3
MOST_EDGES = 1 << 20
"""Edges of all swaps that are priced at once: some hundred bytes each."""


def clusters_of(edges: CutEdges, problem: Problem) -> Ints:
    """(S,) number of the cluster of each slot: slots of one cluster are behind the same cuts and have NICs of the same speeds."""
    speed = problem.routing.fabric.ports.speed_gbps[problem.port_of_place]
    own = (
        len(edges.part) > 0
        and len(np.unique(edges.part[0])) == edges.part[0].size
        and edges.floor_us.sum() == 0
    )
    levels = edges.part[1:] if own else edges.part
    looks = np.concatenate([*levels, edges.domain, speed * 1e6], axis=1)
    _, cluster = np.unique(looks, axis=0, return_inverse=True)
    return cluster.ravel().astype(np.int64)


def improve(estimate: Estimate, cluster: Ints, pinned: Ints, rounds: int, seed: int = 0) -> None:
    """Swap until nothing gains, or for so many rounds; the estimate then holds the better map.

    Args:
        estimate: holds the map to start from.
        cluster: (S,) of `clusters_of`.
        pinned: units that stay where they are.
        rounds: each prices up to some thousand swaps.
        seed: of the random swaps that are tried when no promising one gains.
    """
    generator = np.random.default_rng(seed)
    edges, slots = estimate.edges, len(estimate.slot)
    movable = np.ones(slots, dtype=np.bool_)
    movable[pinned] = False
    degree = max(len(edges.src) * 2 / max(slots, 1), 1.0)
    most = int(np.clip(MOST_EDGES / (4 * degree), 16, MOST_SWAPS))
    units = int(max(edges.src.max(initial=0), edges.dst.max(initial=0))) + 1
    labels: list[Ints] | None = None
    stuck = 0  # ways to find swaps that gained nothing since the last gain: promising, random, blocks of each kind
    for _ in range(rounds):
        at = cluster[estimate.slot]
        if stuck < 2:
            pairs = (
                _random(generator, movable, most) if stuck else promising(estimate, cluster, movable, most)
            )
            one, other = pairs[at[pairs[:, 0]] != at[pairs[:, 1]]].T
            trial = np.arange(len(one))
        else:
            if labels is None:
                labels = group_labels(edges, units, slots)
            if stuck - 2 >= len(labels):
                return
            one, other, trial = block_swaps(generator, labels[stuck - 2], at, movable, most)
        stuck = 0 if len(one) and _made(estimate, one, other, trial) else stuck + 1


def promising(estimate: Estimate, cluster: Ints, movable: NDArray[np.bool_], most: int) -> Ints:
    """(K, 2) units whose swap promises most by the slope of the estimate."""
    at = cluster[estimate.slot]
    cost = _pull(estimate, cluster)
    gain = cost[np.arange(len(at)), at][:, None] - cost
    gain[~movable] = -np.inf
    gain[np.arange(len(at)), at] = -np.inf
    count = gain.shape[1]
    targets = min(_TARGETS, count)
    chosen = np.argpartition(-gain, targets - 1, axis=1)[:, :targets]
    units = np.repeat(np.arange(len(at)), targets)
    target = chosen.ravel()
    own = gain[units, target]
    # For every cluster that a unit would go to, those in it that would best go to the unit's.
    big = 4.0 * np.abs(np.where(np.isfinite(gain), gain, 0.0)).max(initial=1.0) + 1.0
    key = at[:, None] * big - np.clip(gain, -big / 4, big / 4)
    order = np.argsort(key, axis=0, kind="stable")
    first = np.searchsorted(np.sort(at), np.arange(count + 1))
    found = []
    for partner in range(_PARTNERS):
        place = first[target] + partner
        inside = place < first[target + 1]
        mate = order[np.minimum(place, len(at) - 1), at[units]]
        both = own + gain[mate, at[units]]
        good = inside & np.isfinite(both) & (mate != units)
        found.append((units[good], mate[good], both[good]))
    one, other, both = (np.concatenate(parts) for parts in zip(*found, strict=True))
    low, high = np.minimum(one, other), np.maximum(one, other)
    _, keep = np.unique(low * len(at) + high, return_index=True)
    keep = keep[np.argsort(-both[keep], kind="stable")][:most]
    return np.stack([low[keep], high[keep]], axis=1)


def _random(generator: np.random.Generator, movable: NDArray[np.bool_], most: int) -> Ints:
    units = np.flatnonzero(movable)
    if len(units) < 2:
        return np.empty((0, 2), dtype=np.int64)
    pairs: Ints = units[generator.integers(0, len(units), (most, 2))]
    return pairs


def _made(estimate: Estimate, one: Ints, other: Ints, trial: Ints) -> bool:
    """Make the trials that gain, best first and no unit twice; fewer of them until all together gain. False if none does."""
    before, start = estimate.smooth_us, estimate.slot
    cost = estimate.swapped(one, other, trial)
    order = np.argsort(cost, kind="stable")
    order = order[cost[order] < before * (1 - _LEAST_GAIN)]
    first = np.searchsorted(trial, np.arange(len(cost) + 1))
    used = np.zeros(len(start), dtype=np.bool_)
    apart = []
    for number in order.tolist():
        swaps = slice(first[number], first[number + 1])
        if not (used[one[swaps]].any() or used[other[swaps]].any()):
            used[one[swaps]] = used[other[swaps]] = True
            apart.append(swaps)
    while apart:
        slot = start.copy()
        for swaps in apart:
            slot[one[swaps]], slot[other[swaps]] = start[other[swaps]], start[one[swaps]]
        estimate.set(slot)
        if estimate.smooth_us < before * (1 - _LEAST_GAIN):
            return True
        apart = apart[: max(len(apart) // 4, 1)] if len(apart) > 1 else []
    estimate.set(start)
    return False


def _pull(estimate: Estimate, cluster: Ints) -> Floats:
    """(S, clusters) slope of the cost of each unit's edges if it stood in each cluster and all others stayed."""
    edges, weight = estimate.edges, estimate.weights()
    units, count = len(estimate.slot), int(cluster.max(initial=0)) + 1
    example = np.full(count, -1, dtype=np.int64)
    example[cluster] = np.arange(len(cluster))
    cost = np.zeros((units, count))
    phases = len(estimate.phases)
    for part in edges.part:
        for own, own_column, far, far_column, way in (
            (edges.src, edges.src_column, edges.dst, edges.dst_column, 0),
            (edges.dst, edges.dst_column, edges.src, edges.src_column, edges.inward),
        ):
            back = edges.inward - way
            far_part = part[estimate.slot[far], far_column]
            beyond = weight[edges.phase, far_part + back] * edges.bytes_
            for column in range(part.shape[1]):
                some = np.flatnonzero(own_column == column)
                there = part[example, column]
                slope = weight[:, there + way]
                table = np.bincount(
                    own[some] * phases + edges.phase[some], edges.bytes_[some], minlength=units * phases
                ).reshape(units, phases)
                cost += table @ slope
                cost += np.bincount(own[some], beyond[some], minlength=units)[:, None]
                # What stays behind the same cut costs nothing there.
                names, place = np.unique(there, return_inverse=True)
                spot = np.minimum(np.searchsorted(names, far_part[some]), len(names) - 1)
                met = names[spot] == far_part[some]
                spared = (
                    weight[edges.phase[some], far_part[some] + way] * edges.bytes_[some] + beyond[some]
                )[met]
                key = own[some][met] * len(names) + spot[met]
                cost -= np.bincount(key, spared, minlength=units * len(names)).reshape(units, -1)[
                    :, place.ravel()
                ]
    return cost
