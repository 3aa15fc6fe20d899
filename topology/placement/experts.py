"""Which expert on which expert-parallel rank, from measured counts of tokens, so that the busiest NIC or uplink has least.

Every rank holds equally many experts. A rank's NIC receives the tokens of its experts (and sends as many back); the
uplinks of a leaf receive those of all its ranks that come from elsewhere. Largest first, each to the rank that is emptiest
(Graham 1969), then exchanges of two experts while the busiest gains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class ExpertMap:
    """A placement of experts, in time units of tokens over Gbit/s.

    Attributes:
        rank: (E,) expert-parallel rank of each expert.
        cost: of the busiest NIC or uplink under this map.
        cost_in_order: the same with experts in order, as frameworks place them.
        bound: no map has less.
    """

    rank: Ints
    cost: float
    cost_in_order: float
    bound: float


def place_experts(
    tokens: Floats,
    ranks: int,
    *,
    nic_gbps: Floats | None = None,
    leaf: Ints | None = None,
    uplink_gbps: Floats | None = None,
) -> ExpertMap:
    """Place E experts on R ranks of an expert-parallel group.

    Args:
        tokens: (E,) tokens of each expert, or (R, E) those that each rank sends to it.
        ranks: R; divides E.
        nic_gbps: (R,) speed of each rank's NIC; all alike where left out.
        leaf: (R,) number of the leaf that each rank is under; one leaf where left out.
        uplink_gbps: (leaves,) speed into each leaf; nothing binds there where left out.

    Raises:
        InputError: counts that are no numbers of 0 or more, columns of another length, speeds that are not above 0.
    """
    sent = np.asarray(tokens, dtype=np.float64)
    if sent.ndim == 1:
        sent = np.tile(sent / max(ranks, 1), (max(ranks, 1), 1))
    _refuse(sent, ranks, nic_gbps, leaf, uplink_gbps)
    experts = sent.shape[1]
    nic = np.ones(ranks) if nic_gbps is None else np.asarray(nic_gbps, dtype=np.float64)
    under = np.zeros(ranks, dtype=np.int64) if leaf is None else np.asarray(leaf, dtype=np.int64)
    leaves = int(under.max()) + 1
    uplink = np.full(leaves, np.inf) if uplink_gbps is None else np.asarray(uplink_gbps, dtype=np.float64)
    # What reaches rank r over its NIC when it holds e: all but its own; over its leaf's uplinks: all but the leaf's.
    over_nic = (sent.sum(axis=0)[None, :] - sent) / nic[:, None]
    by_leaf = np.zeros((leaves, experts))
    np.add.at(by_leaf, under, sent)
    over_uplink = (sent.sum(axis=0)[None, :] - by_leaf) / uplink[:, None]
    state = _Loads(over_nic, over_uplink, under)
    in_order = np.repeat(np.arange(ranks), experts // ranks)
    rank = _exchanged(state, _largest_first(state, sent.sum(axis=0), experts // ranks))
    if state.cost(rank) > state.cost(in_order):
        rank = _exchanged(state, in_order)
    bound = max(
        float(over_nic.min(axis=0).max(initial=0.0)),
        float((over_nic * nic[:, None]).min(axis=0).sum() / nic.sum()),
    )
    return ExpertMap(rank, state.cost(rank), state.cost(in_order), bound)


@dataclass(frozen=True)
class _Loads:
    """(R, E) what an expert costs each rank's NIC, (leaves, E) each leaf's uplinks, (R,) leaf of each rank."""

    over_nic: Floats
    over_uplink: Floats
    under: Ints

    def sums(self, rank: Ints) -> tuple[Floats, Floats]:
        """(R,) and (leaves,) loads."""
        experts = np.arange(len(rank))
        leaf = self.under[rank]
        nic = np.bincount(rank, self.over_nic[rank, experts], minlength=len(self.over_nic))
        uplink = np.bincount(leaf, self.over_uplink[leaf, experts], minlength=len(self.over_uplink))
        return nic.astype(np.float64), uplink.astype(np.float64)

    def cost(self, rank: Ints) -> float:
        """The busiest of all."""
        return float(max(map(np.max, self.sums(rank))))


def _largest_first(state: _Loads, total: Floats, room: int) -> Ints:
    ranks = len(state.over_nic)
    found = np.zeros(len(total), dtype=np.int64)
    nic, uplink, held = np.zeros(ranks), np.zeros(len(state.over_uplink)), np.zeros(ranks, dtype=np.int64)
    for expert in np.argsort(-total, kind="stable").tolist():
        here = nic + state.over_nic[:, expert]
        there = (uplink + state.over_uplink[:, expert])[state.under]
        cost = np.where(held < room, np.maximum(here, there), np.inf)
        chosen = int(np.lexsort((here, cost))[0])
        found[expert] = chosen
        held[chosen] += 1
        nic[chosen] += state.over_nic[chosen, expert]
        uplink[state.under[chosen]] += state.over_uplink[state.under[chosen], expert]
    return found


def _exchanged(state: _Loads, rank: Ints) -> Ints:
    """Exchange an expert of the busiest NIC or leaf with another's, the best exchange first, while the busiest gains."""
    rank = rank.copy()
    for _ in range(4 * len(rank)):
        nic, uplink = state.sums(rank)
        cost = max(float(nic.max()), float(uplink.max()))
        busy = (
            rank == int(np.argmax(nic))
            if nic.max() >= uplink.max()
            else state.under[rank] == int(np.argmax(uplink))
        )
        best, pair = cost * (1 - _LEAST_GAIN), None
        for one in np.flatnonzero(busy).tolist():
            for other in np.flatnonzero(rank != rank[one]).tolist():
                rank[[one, other]] = rank[[other, one]]
                trial = state.cost(rank)
                rank[[one, other]] = rank[[other, one]]
                if trial < best:
                    best, pair = trial, [one, other]
        if pair is None:
            break
        rank[pair] = rank[pair[::-1]]
    return rank


def _refuse(
    sent: Floats, ranks: int, nic_gbps: Floats | None, leaf: Ints | None, uplink_gbps: Floats | None
) -> None:
    if ranks < 1 or sent.ndim != 2 or len(sent) != ranks or not sent.shape[1] or sent.shape[1] % ranks:
        raise InputError(
            f"experts: counts of shape {sent.shape} for {ranks} ranks; give one for each expert, a multiple of the ranks"
        )
    if not np.isfinite(sent).all() or (sent < 0).any():
        raise InputError("experts: counts of tokens must be numbers of 0 or more")
    for what, column, length in (
        ("nic_gbps", nic_gbps, ranks),
        ("leaf", leaf, ranks),
        ("uplink_gbps", uplink_gbps, 1 if leaf is None else int(np.max(leaf)) + 1),
    ):
        if column is not None and len(column) != length:
            raise InputError(f"experts: {what} has {len(column)} entries, not {length}")
    for what, speeds in (("nic_gbps", nic_gbps), ("uplink_gbps", uplink_gbps)):
        if speeds is not None and not (np.asarray(speeds) > 0).all():
            raise InputError(f"experts: {what} must be above 0")
