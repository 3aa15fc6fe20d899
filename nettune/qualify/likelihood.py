"""How probable is what was seen of each flow: on a sound path, and on one that crosses a faulty element.

A flow is seen through five nearly independent things: its state, its delivered rate, its losses, its queue (round trip)
and the fate of full-sized datagrams. Every factor is a probability distribution with a broad tail, so that one odd
flow, as a busy machine gives it, convicts nothing. The constants are judgements, checked by simulation and in the lab
(tests/qualify); verdicts rest on thresholds and re-tests besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.flows import FlowState
from nettune.qualify.kinds import Kind
from nettune.qualify.observe import observations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nettune.qualify.flows import FlowResult, ProbeFlow

    Floats = NDArray[np.float64]


KIND_PRIOR = {Kind.RATE: 0.3, Kind.LOSS: 0.25, Kind.FLAP: 0.2, Kind.MTU: 0.15, Kind.DEAD: 0.1}

# Fine enough for a link of several times the rate of the paths over it.
RATES = np.linspace(0.03, 0.94, 92)
LOSSES = np.logspace(-4.3, -0.7, 37)
HITS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])

_STATES = (FlowState.OK, FlowState.GAP, FlowState.STALLED, FlowState.DEAD)
_SOUND_STATE = (0.989, 0.006, 0.003, 0.002)
_RATE_STATE = (0.88, 0.07, 0.04, 0.01)
# Gap, stalled, dead: base, slope with the loss rate, most.
_LOSS_STATES = ((0.02, 12.0, 0.7), (0.005, 1.0, 0.1), (0.005, 1.0, 0.1))
_MTU_STATE = (0.35, 0.03, 0.60, 0.02)
_HIT_STATE = (0.05, 0.40, 0.40, 0.15)
_DEAD_STATE = (0.005, 0.005, 0.02, 0.97)
# Full-sized datagrams: pass, do not pass where small ones do, probe says nothing.
_SOUND_MTU = (0.9885, 0.0005, 0.011)
_MTU_MTU = (0.01, 0.97, 0.02)
_HIT_MTU = (0.6, 0.002, 0.398)
_DEAD_MTU = (0.005, 0.005, 0.99)
_BUSY_FLOWS = 3
"""One cable carries at most two flows of a round, one each way."""
_LIMITED = 0.995
_TOO_FAST = 0.05
"""A transfer that is so much faster than a slow link would let it refutes that link, whatever else disturbed it."""
_BUSY_RATIO, _AS_THE_BEST = 0.97, 0.93
_SOUND_QUEUED, _RATE_QUEUED, _HIT_QUEUED = 0.05, 0.85, 0.15


class Observations:
    """Columns of what tells something: flows, and sums of sets; rows of the other arrays of this class belong to them.

    Attributes:
        results: F rows of `observations`.
        sound: (F,) log probability on a path without a fault.
    """

    def __init__(self, results: Sequence[FlowResult]) -> None:
        busy = busy_rounds(results)
        self.results = [
            r for r in observations(results) if r.state is not FlowState.ERROR and r.round not in busy
        ]
        rows = self.results
        # The states of a sum are told by its flows.
        self.told = np.array([not r.flow.parts for r in rows], dtype=np.bool_)
        self.states = np.array([_STATES.index(r.state) for r in rows], dtype=np.int64)
        self.pace = np.array([r.pace for r in rows])
        self.ratio, self.at_least = relative_ratios(rows)
        self.segments = np.array([float(r.segments) for r in rows])
        self.lost = np.array([float(r.lost) for r in rows])
        self.queued = queued(rows)
        self.waits = np.array([not np.isnan(r.rtt_us) for r in rows], dtype=np.bool_) & (self.states <= 1)
        self.mtu = np.array(
            [-1 if not r.datagrams else (2 if r.mtu_ok is None else int(not r.mtu_ok)) for r in rows]
        )
        self.sound = (
            self._state(_SOUND_STATE)
            + self._mtu(_SOUND_MTU)
            + np.log(self._sound_ratio())
            + np.log(self._sound_lost())
            + self._queued(_SOUND_QUEUED)
        )

    def slowed(self, links: frozenset[int], rows: NDArray[np.int64], speeds: Floats) -> Floats:
        """(G, R) log probabilities of some rows where each of these links has a share of `RATES` of its nominal rate.

        Args:
            links: directed links at fault.
            rows: R rows that cross them.
            speeds: (2L,) nominal rate of each directed link; 0 unknown.
        """
        target = np.stack(
            [expected(self.results[row].flow, links, speeds, RATES / self.pace[row]) for row in rows], axis=1
        )
        # A slow port drops what its queue does not hold: any number, on a logarithmic scale.
        dropped = 1 / ((self.lost + 1) * np.log(self.segments + 2))
        lost = np.log(0.6 * self._sound_lost() + 0.4 * np.where(self.segments > 0, dropped, 1.0))[rows]
        rest = self._state(_RATE_STATE) + self._mtu(_SOUND_MTU) + self._queued(_RATE_QUEUED)
        slowed = rest[rows] + lost + np.log(_slowed_ratio(self.ratio[rows], self.at_least[rows], target))
        # What asks a slow link for no more than it has left, meets a sound one.
        met: Floats = np.where(target < _LIMITED, slowed, self.sound[rows])
        return met

    def under(self, kind: Kind) -> Floats:
        """(G, F) log probabilities where the path crosses a fault of this kind, for each size of a grid.

        Args:
            kind: any but RATE; sizes are `LOSSES` (share of packets), `HITS` (share of flows that an outage hits), or one.
        """
        broad_ratio = np.where(np.isnan(self.ratio), 0.0, -np.log(1.05))
        broad_lost = np.where(self.segments > 0, np.log(_broad(self.lost)), 0.0)
        if kind is Kind.LOSS:
            mean = self.segments * LOSSES[:, None]
            lost_here = np.where(
                self.segments > 0, 0.97 * _negative_binomial(self.lost, mean) + 0.03 * _broad(self.lost), 1.0
            )
            ratio = np.log(0.5 * self._sound_ratio() + 0.5 * np.exp(broad_ratio))
            return (
                self._loss_state()
                + self._mtu(_SOUND_MTU)
                + ratio
                + self._queued(_SOUND_QUEUED)
                + np.log(lost_here)
            )
        if kind is Kind.FLAP:
            hit = (
                self._state(_HIT_STATE)
                + self._mtu(_HIT_MTU)
                + broad_ratio
                + broad_lost
                + self._queued(_HIT_QUEUED)
            )
            hit = np.where(self.told, hit, self.sound)
            either: Floats = np.logaddexp(np.log(HITS)[:, None] + hit, np.log1p(-HITS)[:, None] + self.sound)
            return either
        state, mtu = (_MTU_STATE, _MTU_MTU) if kind is Kind.MTU else (_DEAD_STATE, _DEAD_MTU)
        hit = self._state(state) + self._mtu(mtu) + broad_ratio + broad_lost + self._queued(_HIT_QUEUED)
        # A set that ran has met neither an outage nor a link that drops what is large.
        return np.where(self.told, hit, self.sound)[None, :]

    def _state(self, table: tuple[float, ...]) -> Floats:
        logs: Floats = np.where(self.told, np.log(np.array(table))[self.states], 0.0)
        return logs

    def _loss_state(self) -> Floats:
        """(G, F); the more is lost, the more often a flow waits for a time-out of 0.2 s."""
        gap, stalled, dead = (np.minimum(most, base + slope * LOSSES) for base, slope, most in _LOSS_STATES)
        table = np.log(np.stack([1 - gap - stalled - dead, gap, stalled, dead], axis=1))
        logs: Floats = np.where(self.told, table[:, self.states], 0.0)
        return logs

    def _mtu(self, table: tuple[float, ...]) -> Floats:
        logs: Floats = np.where(self.mtu >= 0, np.log(np.array(table))[self.mtu], 0.0)
        return logs

    def _queued(self, probability: float) -> Floats:
        return np.where(self.waits, np.log(np.where(self.queued, probability, 1 - probability)), 0.0)

    def _sound_ratio(self) -> Floats:
        y = self.ratio
        density = 0.90 * _normal(y, 1.0, 0.008) + 0.08 * _normal(y, 0.97, 0.03) + 0.02 / 1.05
        known: Floats = np.where(np.isnan(y), 1.0, density)
        return known

    def _sound_lost(self) -> Floats:
        density = 0.985 * _poisson(self.lost, 5e-6 * self.segments + 0.003) + 0.015 * _broad(self.lost)
        return np.where(self.segments > 0, density, 1.0)


def expected(flow: ProbeFlow, links: frozenset[int], speeds: Floats, shares: Floats) -> Floats:
    """(G,) delivered over offered rate where these links have shares of their nominal rate, over the pace.

    A flow of a set gets its part of what the link still carries; parts that do not cross it are as offered.
    """
    parts = flow.parts or (flow,)
    loads: dict[int, float] = {}
    for part in parts:
        for link in part.links & links:
            loads[link] = loads.get(link, 0.0) + part.nominal_gbps
    total = np.zeros_like(shares)
    for part in parts:
        crossed = part.links & links
        room = min(
            (speeds[link] / loads[link] if loads[link] and speeds[link] else 1.0 for link in crossed),
            default=np.inf,
        )
        total += part.nominal_gbps * np.minimum(1.0, shares * room)
    nominal = sum(part.nominal_gbps for part in parts)
    return total / nominal if nominal else np.minimum(1.0, shares)


def busy_rounds(results: Sequence[FlowResult]) -> set[int]:
    """Rounds that tell of the machine and not of a link: three flows or more paused, though they share no link."""
    paused: dict[int, set[object]] = {}
    for result in results:
        if not result.alone and result.state is FlowState.GAP:
            one = result.flow.fills if result.flow.fills >= 0 else result.flow.key
            paused.setdefault(result.round, set()).add(one)
    return {number for number, flows in paused.items() if len(flows) >= _BUSY_FLOWS}


def relative_ratios(results: Sequence[FlowResult]) -> tuple[Floats, Floats]:
    """(F,) delivered over offered rate, and (F,) what it is at least where a busy machine hides it.

    Flows of a round share no link, so when all are slow the machine was busy, or all cross something that is slow. Which
    of the two it was, the round does not tell: the ratio of those that are as slow as the best is NaN, and the others
    are divided by it. No machine makes a transfer faster, so what NaN hides is at least what was seen; elsewhere that
    is 0. Flows that ran alone are taken as they are, unless a sound one beside them was slow too.
    """
    best: dict[int, float] = {}
    for result in results:
        if not result.alone and result.ratio == result.ratio:
            best[result.round] = max(best.get(result.round, 0.0), result.ratio)
    values = np.full(len(results), np.nan)
    least = np.zeros(len(results))
    for row, result in enumerate(results):
        top = 1.0 if result.alone else best.get(result.round, 1.0)
        relative = result.ratio / min(max(top, 0.5), 1.0)
        if (top < _BUSY_RATIO and relative > _AS_THE_BEST) or (
            result.disturbed and result.ratio < _BUSY_RATIO
        ):
            least[row] = result.ratio
        else:
            values[row] = relative
    return values, np.nan_to_num(least)


def queued(results: Sequence[FlowResult]) -> NDArray[np.bool_]:
    """(F,) whether a flow waited in a queue: a round trip of more than ten full packets' time, and four times the median."""
    rtt = np.array([r.rtt_us for r in results])
    if not len(rtt):
        return np.zeros(0, dtype=np.bool_)
    packets_us = np.array(
        [10 * (r.mss_bytes + 66) * 8e-3 / r.flow.nominal_gbps if r.flow.nominal_gbps else 0 for r in results]
    )
    known = rtt[~np.isnan(rtt)]
    waited: NDArray[np.bool_] = rtt > np.maximum(packets_us, 4 * (np.median(known) if len(known) else 0.0))
    return waited


def _slowed_ratio(y: Floats, least: Floats, target: Floats) -> Floats:
    density = 0.82 * _normal(y, target, 0.015) + 0.14 * _normal(y, 0.94 * target, 0.05) + 0.04 / 1.05
    hidden = np.where(least > target + _TOO_FAST, 0.04 / 1.05, 1.0)
    known: Floats = np.where(np.isnan(y), hidden, density)
    return known


def _normal(x: Floats, mean: Floats | float, sigma: float) -> Floats:
    density: Floats = np.exp(-0.5 * np.square((x - mean) / sigma)) / (sigma * np.sqrt(2 * np.pi))
    return density


def _poisson(count: Floats, mean: Floats) -> Floats:
    from scipy.special import gammaln

    return np.exp(count * np.log(mean) - mean - gammaln(count + 1))


def _negative_binomial(count: Floats, mean: Floats, size: float = 4.0) -> Floats:
    """Counts with variance mean + mean^2/size: losses come in bursts, and repeats are lost too."""
    from scipy.special import gammaln

    mean = np.maximum(mean, 1e-9)
    log = (
        gammaln(count + size) - gammaln(size) - gammaln(count + 1)
        + size * np.log(size / (size + mean)) + count * np.log(mean / (size + mean))
    )  # fmt: skip
    return np.exp(log)


def _broad(count: Floats) -> Floats:
    """A distribution over all counts without a scale; sums to 1."""
    return 1.0 / ((count + 1) * (count + 2))
