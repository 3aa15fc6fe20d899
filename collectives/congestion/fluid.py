"""DCQCN at one bottleneck as a fluid: delay differential equations, their fixed point, their integration.

Source: Zhu et al., "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016, with the numerics of
the authors' `fluidmodel/dcqcn/dcqcn2.m`. Inside, rates are packets per microsecond and the queue is in packets.

N flows with current rate R_C, target rate R_T and estimate alpha share a link of rate C with queue q. A packet is marked
with probability p(q), and its sender learns of it after the feedback delay. With p and the R_C of event rates delayed:

    d alpha = g/t_a (1 - (1-p)^(t_a R_C) - alpha)
    d R_T   = -(R_T - R_C)/t_c a + R_AI R_C (c + e)
    d R_C   = -R_C alpha/(2 t_c) a + (R_T - R_C)/2 R_C (b + d)
    d q     = sum of R_C - C

    a = 1 - (1-p)^(t_c R_C)         b = p/((1-p)^-B - 1)         c = (1-p)^(F B) b
                                    d = p/((1-p)^-(T R_C) - 1)   e = (1-p)^(F T R_C) d

t_a is the interval of alpha, t_c that of cuts or CNPs, B packets and T time of an increase, F fast recovery's stages.
Hyper increase, clamping, the least decrease and the floor of the rate are not in the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from collectives.congestion.parameters import Dcqcn, EcnCurve
from nettune.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # Real numbers, or complex ones for derivatives by a complex step.
    Numbers = NDArray[Any]

MOST_FLOWS = 100_000
MOST_VALUES = 50_000_000
"""Flows x steps of an integration: 400 MB for each column."""


@dataclass(frozen=True)
class Bottleneck:
    """N DCQCN flows through one queue.

    Attributes:
        control: parameters of the senders.
        curve: marking at the queue.
        link_gbps: rate of the link, and the highest of a flow.
        flows: N.
        delay_us: from a packet's departure at the queue to its sender's reaction.
        packet_bytes: bytes of a packet; the paper has 1000.

    Raises:
        InputError: a rate, delay or packet that is not positive, no flows or too many, a curve that never marks.
    """

    control: Dcqcn
    curve: EcnCurve
    link_gbps: float
    flows: int
    delay_us: float
    packet_bytes: int = 1000

    def __post_init__(self) -> None:
        for name in ("link_gbps", "delay_us", "packet_bytes"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise InputError(f"fluid: {name} must be above 0, not {value:g}")
        if not 1 <= self.flows <= MOST_FLOWS:
            raise InputError(f"fluid: flows must be 1 to {MOST_FLOWS}, not {self.flows}")
        if not self.curve.pmax or self.curve.kmin_bytes == self.curve.kmax_bytes:
            raise InputError(
                "fluid: marking must rise from kmin_bytes to kmax_bytes for a fixed point to exist"
            )

    @property
    def capacity(self) -> float:
        """Packets per microsecond that the link carries."""
        return self.link_gbps * 1e3 / 8 / self.packet_bytes

    @property
    def cut_interval_us(self) -> float:
        """Least time between two cuts: by CNPs, or by the sender."""
        spacing = max(self.control.cnp_interval_us, self.control.rate_decrease_interval_us)
        return max(spacing, 1 / self.capacity)

    @property
    def slope(self) -> float:
        """How much p rises with one packet of queue between Kmin and Kmax."""
        return self.curve.pmax * self.packet_bytes / (self.curve.kmax_bytes - self.curve.kmin_bytes)

    def marked(self, queue: float) -> float:
        """Marking probability at a queue in packets."""
        return self.curve.probability(queue * self.packet_bytes)

    def events(self, p: Numbers, rate: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(a, b + d, c + e) of the module's text at delayed p and R_C."""
        control = self.control
        with np.errstate(all="ignore"):
            kept = np.log1p(-p)
            cut = -np.expm1(kept * self.cut_interval_us * rate)
            raised, added = _increases(
                p, kept, control.increase_timer_us * rate, control.fast_recovery_stages
            )
            if control.byte_counter is not None:
                packets = np.asarray(control.byte_counter / self.packet_bytes)
                by_bytes = _increases(p, kept, packets, control.fast_recovery_stages)
                raised, added = raised + by_bytes[0], added + by_bytes[1]
        return cut, raised, added

    def flow_slopes(
        self, alpha: Numbers, target: Numbers, rate: Numbers, p: Numbers, late_rate: Numbers
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Slopes of alpha, R_T and R_C per microsecond; `p` and `late_rate` are those of `delay_us` ago."""
        control = self.control
        cut, raised, added = self.events(p, late_rate)
        with np.errstate(all="ignore"):
            seen = -np.expm1(np.log1p(-p) * control.alpha_interval_us * late_rate)
        additive = self.per_us(control.additive_increase_mbps)
        tau = self.cut_interval_us
        return (
            control.gain / control.alpha_interval_us * (seen - alpha),
            -(target - rate) / tau * cut + additive * late_rate * added,
            -rate * alpha / (2 * tau) * cut + (target - rate) / 2 * late_rate * raised,
        )

    def per_us(self, mbps: float) -> float:
        """Packets per microsecond of a rate in Mb/s."""
        return mbps / 8 / self.packet_bytes

    def gbps(self, rate: Any) -> Any:
        """Gb/s of packets per microsecond."""
        return rate * self.packet_bytes * 8 / 1e3


def _increases(p: Numbers, kept: Numbers, packets: Numbers, stages: int) -> tuple[Numbers, Numbers]:
    """(p / ((1-p)^-n - 1), that times (1-p)^(F n)) with the limit 1/n at p = 0; at p = 1 both are 0."""
    # (1-p)^n in the numerator: its inverse would overflow where increases are rare.
    often = np.where(p == 0, 1 / packets, p * np.exp(kept * packets) / -np.expm1(kept * packets))
    return often, often * np.exp(stages * kept * packets)


@dataclass(frozen=True)
class FixedPoint:
    """Where all flows send at C/N and the queue stays.

    Attributes:
        p: marking probability.
        queue_bytes: queue at which the curve's ramp, drawn on beyond Kmax if need be, marks with it.
        alpha: estimate of each flow.
        rate_gbps: current rate of each flow, C/N.
        target_gbps: target rate of each flow.
        on_ramp: whether p is at most the curve's pmax; otherwise the queue hovers at Kmax.
    """

    p: float
    queue_bytes: float
    alpha: float
    rate_gbps: float
    target_gbps: float
    on_ramp: bool


def fixed_point(model: Bottleneck) -> FixedPoint:
    """The unique fixed point: a root in p of a^2 alpha / ((b+d)(c+e)) = t_c^2 R_AI C/N; it depends on C/N only.

    Packets rest there as long as they keep off Kmax. Single CNPs make the queue swing, and above Kmax, where every packet
    is marked, a swing is cut off; the fluid has neither. Ten flows at 40 Gb/s with the paper's curve (Kmax 200 KB) rest at
    76 KB where the fluid says 123: with the same slope up to 300 KB or more they rest at 113 to 122, with a standard
    deviation of 60 to 85 KB and a fifth of the time above 200 KB.

    Raises:
        InputError: the rates of these parameters never meet, as when nothing is ever increased.
    """
    from scipy.optimize import brentq

    rate = np.asarray(model.capacity / model.flows)
    tau = model.cut_interval_us
    wanted = np.log(tau**2 * model.per_us(model.control.additive_increase_mbps) * rate)

    def excess(log_p: float) -> float:
        p = np.asarray(np.exp(log_p))
        cut, raised, added = model.events(p, rate)
        seen = -np.expm1(np.log1p(-p) * model.control.alpha_interval_us * rate)
        # Cuts win where increases are too rare for a number.
        with np.errstate(all="ignore"):
            value = 2 * np.log(cut) + np.log(seen) - np.log(raised) - np.log(added) - wanted
        return float(min(value, 1e3)) if not np.isnan(value) else 1e3

    low, high = np.log(1e-15), np.log1p(-1e-12)
    if excess(low) > 0 or excess(high) < 0:
        raise InputError("fluid: these parameters have no fixed point; increases and cuts never balance")
    p = float(np.exp(brentq(excess, low, high, xtol=1e-13)))
    cut, raised, _ = (float(value) for value in model.events(np.asarray(p), rate))
    alpha = float(-np.expm1(np.log1p(-p) * model.control.alpha_interval_us * rate))
    curve = model.curve
    return FixedPoint(
        p=p,
        queue_bytes=p / curve.pmax * (curve.kmax_bytes - curve.kmin_bytes) + curve.kmin_bytes,
        alpha=alpha,
        rate_gbps=model.gbps(float(rate)),
        target_gbps=model.gbps(float(rate) + alpha * cut / (tau * raised)),
        on_ramp=p <= curve.pmax,
    )


@dataclass(frozen=True)
class Trajectory:
    """What an integration gives, S + 1 moments.

    Attributes:
        time_us: (S+1,).
        queue_bytes: (S+1,).
        rate_gbps: (S+1, N) current rates.
    """

    time_us: Floats
    queue_bytes: Floats
    rate_gbps: Floats


def integrate(
    model: Bottleneck,
    duration_us: float,
    *,
    step_us: float = 1.0,
    rates_gbps: Floats | None = None,
    queue_bytes: float = 0.0,
) -> Trajectory:
    """Integrate by Heun's method with a constant step, of which the delay is a multiple.

    Rates stay between 0 and C, the queue at or above 0. Before time 0 nothing is marked and rates are those of the start.

    Args:
        model: the bottleneck.
        duration_us: how long.
        step_us: at most this step; the paper's authors use 10 us or less.
        rates_gbps: (N,) rates at the start; all at the link's rate where left out, as the paper's flows start.
        queue_bytes: queue at the start.

    Raises:
        InputError: no positive duration or step, rates that do not fit, or more values than memory should hold.
    """
    if not (0 < duration_us < np.inf and 0 < step_us < np.inf):
        raise InputError("fluid: the duration and the step must be above 0")
    lag = max(1, int(np.ceil(model.delay_us / step_us)))
    step = model.delay_us / lag
    count = int(np.ceil(duration_us / step))
    if (count + 1) * model.flows > MOST_VALUES:
        raise InputError(
            f"fluid: {model.flows} flows x {count} steps are more than {MOST_VALUES}; take a longer step or less time"
        )
    capacity = model.capacity
    start = np.full(model.flows, capacity) if rates_gbps is None else np.asarray(rates_gbps, float)
    if rates_gbps is not None:
        start = start * (capacity / model.link_gbps)
    if start.shape != (model.flows,) or not (start >= 0).all():
        raise InputError(f"fluid: {model.flows} rates of 0 or more are needed at the start")

    rates = np.empty((count + 1, model.flows))
    queues = np.empty(count + 1)
    rates[0], queues[0] = start, queue_bytes / model.packet_bytes
    alpha, target = np.full(model.flows, model.control.initial_alpha), start.copy()

    def delayed(index: int) -> tuple[Numbers, Numbers]:
        if index < 0:
            return np.asarray(0.0), rates[0]
        return np.asarray(model.marked(float(queues[index]))), rates[index]

    late = delayed(-lag)
    for now in range(count):
        later = delayed(now + 1 - lag)
        first = model.flow_slopes(alpha, target, rates[now], *late)
        guess = [
            value + step * slope for value, slope in zip((alpha, target, rates[now]), first, strict=True)
        ]
        guess[2] = guess[2].clip(0, capacity)
        second = model.flow_slopes(guess[0], guess[1], guess[2], *later)
        alpha = alpha + step / 2 * (first[0] + second[0])
        target = (target + step / 2 * (first[1] + second[1])).clip(0, capacity)
        rates[now + 1] = (rates[now] + step / 2 * (first[2] + second[2])).clip(0, capacity)
        arrived = (rates[now].sum() + rates[now + 1].sum()) / 2
        queues[now + 1] = max(0.0, queues[now] + step * (arrived - capacity))
        late = later
    return Trajectory(
        np.arange(count + 1, dtype=float) * step, queues * model.packet_bytes, model.gbps(rates)
    )
