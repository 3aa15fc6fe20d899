"""How probable is what was seen of each flow: on a sound path, and on one that crosses a faulty element.

A flow is seen through five nearly independent things: its state, its delivered rate, its losses, its queue (round trip)
and the fate of full-sized datagrams. Every factor is a probability distribution with a broad tail, so that one odd
flow, as a busy machine gives it, convicts nothing. The constants are judgements, checked by simulation and in the lab
(tests/qualify); verdicts rest on thresholds and re-tests besides.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.flows import FlowState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nettune.qualify.flows import FlowResult

    Floats = NDArray[np.float64]


class Kind(enum.StrEnum):
    """Kinds of fault, named as the checks that report them."""

    RATE = "link-rate"
    LOSS = "link-loss"
    MTU = "link-mtu"
    FLAP = "link-flap"
    DEAD = "link-dead"


KIND_PRIOR = {Kind.RATE: 0.3, Kind.LOSS: 0.25, Kind.FLAP: 0.2, Kind.MTU: 0.15, Kind.DEAD: 0.1}

RATES = np.linspace(0.04, 0.94, 46)
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
_SOUND_QUEUED, _RATE_QUEUED, _HIT_QUEUED = 0.05, 0.85, 0.15


class Observations:
    """Columns of the flows that tell something; rows of the other arrays of this class belong to them.

    Attributes:
        results: F rows.
        sound: (F,) log probability on a path without a fault.
    """

    def __init__(self, results: Sequence[FlowResult]) -> None:
        busy = busy_rounds(results)
        self.results = [r for r in results if r.state is not FlowState.ERROR and r.round not in busy]
        rows = self.results
        self.states = np.array([_STATES.index(r.state) for r in rows], dtype=np.int64)
        self.pace = np.array([r.pace for r in rows])
        self.nominal = np.array([r.flow.nominal_gbps for r in rows])
        self.ratio = relative_ratios(rows)
        self.segments = np.array([float(r.segments) for r in rows])
        self.lost = np.array([float(r.lost) for r in rows])
        self.queued = queued(rows)
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

    def under(self, kind: Kind, speed_gbps: float) -> Floats:
        """(G, F) log probabilities where the path crosses a fault of this kind, for each size of a grid.

        Args:
            kind: the fault; sizes are `RATES` (share of the link's nominal rate), `LOSSES` (share of packets), `HITS`
                (share of flows that an outage hits), or one.
            speed_gbps: nominal rate of the link at fault; 0 takes each path's own.
        """
        broad_ratio = np.where(np.isnan(self.ratio), 0.0, -np.log(1.05))
        broad_lost = np.where(self.segments > 0, np.log(_broad(self.lost)), 0.0)
        if kind is Kind.RATE:
            share = (
                np.where(self.nominal > 0, speed_gbps / np.maximum(self.nominal, 1e-9), 1.0)
                if speed_gbps
                else 1.0
            )
            target = np.minimum(1.0, RATES[:, None] * share / self.pace)
            lost = np.log(
                0.6 * self._sound_lost() + 0.4 * np.where(self.segments > 0, _broad(self.lost), 1.0)
            )
            return (
                self._state(_RATE_STATE) + self._mtu(_SOUND_MTU) + lost + self._queued(_RATE_QUEUED)
                + np.log(self._slowed_ratio(target))
            )  # fmt: skip
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
            either: Floats = np.logaddexp(np.log(HITS)[:, None] + hit, np.log1p(-HITS)[:, None] + self.sound)
            return either
        state, mtu = (_MTU_STATE, _MTU_MTU) if kind is Kind.MTU else (_DEAD_STATE, _DEAD_MTU)
        return (self._state(state) + self._mtu(mtu) + broad_ratio + broad_lost + self._queued(_HIT_QUEUED))[
            None, :
        ]

    def _state(self, table: tuple[float, ...]) -> Floats:
        logs: Floats = np.log(np.array(table))[self.states]
        return logs

    def _loss_state(self) -> Floats:
        """(G, F); the more is lost, the more often a flow waits for a time-out of 0.2 s."""
        gap, stalled, dead = (np.minimum(most, base + slope * LOSSES) for base, slope, most in _LOSS_STATES)
        table = np.log(np.stack([1 - gap - stalled - dead, gap, stalled, dead], axis=1))
        logs: Floats = table[:, self.states]
        return logs

    def _mtu(self, table: tuple[float, ...]) -> Floats:
        logs: Floats = np.where(self.mtu >= 0, np.log(np.array(table))[self.mtu], 0.0)
        return logs

    def _queued(self, probability: float) -> Floats:
        told = self.states <= 1
        return np.where(told, np.log(np.where(self.queued, probability, 1 - probability)), 0.0)

    def _sound_ratio(self) -> Floats:
        y = self.ratio
        density = 0.90 * _normal(y, 1.0, 0.008) + 0.08 * _normal(y, 0.97, 0.03) + 0.02 / 1.05
        known: Floats = np.where(np.isnan(y), 1.0, density)
        return known

    def _slowed_ratio(self, target: Floats) -> Floats:
        y = self.ratio
        density = 0.82 * _normal(y, target, 0.015) + 0.14 * _normal(y, 0.94 * target, 0.05) + 0.04 / 1.05
        known: Floats = np.where(np.isnan(y), 1.0, density)
        return known

    def _sound_lost(self) -> Floats:
        density = 0.985 * _poisson(self.lost, 5e-6 * self.segments + 0.003) + 0.015 * _broad(self.lost)
        return np.where(self.segments > 0, density, 1.0)


def busy_rounds(results: Sequence[FlowResult]) -> set[int]:
    """Rounds that tell of the machine and not of a link: three flows or more paused, though they share no link."""
    paused: dict[int, int] = {}
    for result in results:
        if not result.alone and result.state is FlowState.GAP:
            paused[result.round] = paused.get(result.round, 0) + 1
    return {number for number, count in paused.items() if count >= _BUSY_FLOWS}


def relative_ratios(results: Sequence[FlowResult]) -> Floats:
    """(F,) delivered over offered rate, divided by that of the best flow of the same round where even that is low.

    Flows of a round share no link, so when all are slow the machine was busy. Flows that ran alone are taken as they are.
    """
    best: dict[int, float] = {}
    for result in results:
        if not result.alone:
            best[result.round] = max(best.get(result.round, 0.0), result.ratio)
    values = [r.ratio / min(max(best.get(r.round, 1.0), 0.5), 1.0) for r in results]
    return np.array(values, dtype=np.float64)


def queued(results: Sequence[FlowResult]) -> NDArray[np.bool_]:
    """(F,) whether a flow waited in a queue: a round trip of more than ten full packets' time, and four times the median."""
    rtt = np.array([r.rtt_us for r in results])
    if not len(rtt):
        return np.zeros(0, dtype=np.bool_)
    packets_us = np.array(
        [10 * (r.mss_bytes + 66) * 8e-3 / r.flow.nominal_gbps if r.flow.nominal_gbps else 0 for r in results]
    )
    waited: NDArray[np.bool_] = rtt > np.maximum(packets_us, 4 * np.median(rtt))
    return waited


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
