"""Parameters of congestion control in semantic units: one frozen dataclass an algorithm.

Names tell what a value does, not how a vendor encodes it: a gain is a fraction, rates carry their unit, byte counters
are bytes, intervals microseconds. `presets` has the sets of values that are in use.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import ClassVar, Protocol, runtime_checkable

from nettune.errors import InputError


@runtime_checkable
class CongestionControl(Protocol):
    """What a sender obeys. Each class checks its own values when it is made."""

    kind: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class EcnCurve:
    """Marking at a switch's egress queue, after the queue's bytes q when a packet arrives (RED without averaging).

    The probability is 0 up to Kmin, rises linearly to `pmax` at Kmax, and is 1 above Kmax.

    Attributes:
        kmin_bytes, kmax_bytes: thresholds; equal ones make a step (DCTCP).
        pmax: probability at Kmax.

    Raises:
        InputError: Kmin above Kmax, a negative or unknown value, a probability above 1.
    """

    kmin_bytes: float
    kmax_bytes: float
    pmax: float

    def __post_init__(self) -> None:
        _check(self, "ecn", zero={"kmin_bytes", "kmax_bytes", "pmax"}, fractions={"pmax"})
        if self.kmin_bytes > self.kmax_bytes:
            raise InputError(
                f"ecn: kmin_bytes = {self.kmin_bytes:,.0f} is above kmax_bytes = {self.kmax_bytes:,.0f}; marking must not "
                "begin above the queue at which all is marked"
            )

    def probability(self, queue_bytes: float) -> float:
        """Probability that a packet is marked at this queue."""
        if queue_bytes <= self.kmin_bytes:
            return 0.0
        if queue_bytes > self.kmax_bytes:
            return 1.0
        return self.pmax * (queue_bytes - self.kmin_bytes) / (self.kmax_bytes - self.kmin_bytes)


@dataclass(frozen=True, kw_only=True)
class Dcqcn:
    """DCQCN (Zhu et al., SIGCOMM 2015), with the switches of the NICs that implement it.

    Sender, for each QP, with current rate R_C, target rate R_T and congestion estimate alpha; QPs start at the link's rate:

    - First CNP: alpha = `initial_alpha`; R_C and R_T fall to `first_cnp_rate_gbps` where that is given and lower.
    - Cut: R_T = R_C where `clamp_target` is set, or where `clamp_target_after_increase` is set and the timer has raised
      the rate since the last cut; then R_C = max(R_C (1 - alpha/2), R_C decrease_to_at_least, min_rate). Timer, byte
      counter and their stages start again.
    - When to cut, with `periodic` (NICs): a clock of period `rate_decrease_interval_us` starts at the first CNP, and each
      tick cuts if a CNP came since the last tick, so the first cut is one period after the first CNP. Without (the
      paper): a CNP cuts at once, unless the last cut was less than the interval ago.
    - Alpha, with `periodic`: a clock of period `alpha_interval_us` starts at the first CNP; each tick does
      alpha = (1 - gain) alpha, + gain if a CNP came since the last tick (before the cut of the same moment; the first
      CNP does not count). Without: each CNP, after its cut, does alpha = (1 - gain) alpha + gain, and each
      `alpha_interval_us` without a CNP since does alpha = (1 - gain) alpha.
    - Increase, whenever the timer or the byte counter runs out; each has a stage that it counts up after the increase. If
      both stages are below `fast_recovery_stages` = F: R_C = (R_T + R_C)/2. If both are above F: R_T += hyper increase
      first. Otherwise R_T += additive increase first. R_T never exceeds the link's rate. With the byte counter off the
      timer's stage stands for both.

    Attributes:
        cnp_interval_us: the receiver sends at most one CNP per QP in this time; 0: one for every marked packet.
        alpha_interval_us: period of alpha's update.
        gain: weight g of what is new in alpha, 0 to 1.
        initial_alpha: alpha at the first CNP, 0 to 1.
        periodic: see above.
        rate_decrease_interval_us: time between two cuts; 0, only without `periodic`: none.
        decrease_to_at_least: part of the rate that a cut leaves at least, whatever alpha is.
        first_cnp_rate_gbps: None leaves the rate as it is.
        clamp_target, clamp_target_after_increase: see above.
        increase_timer_us: period of the increase timer.
        byte_counter: bytes sent per increase by the byte counter; None: off.
        fast_recovery_stages: F.
        additive_increase_mbps, hyper_increase_mbps: what an increase adds to the target rate.
        min_rate_mbps: floor of the rate.

    Raises:
        InputError: a value outside of its range.
    """

    kind: ClassVar[str] = "dcqcn"

    cnp_interval_us: float
    alpha_interval_us: float
    gain: float
    initial_alpha: float = 1.0
    periodic: bool = True
    rate_decrease_interval_us: float
    decrease_to_at_least: float = 0.5
    first_cnp_rate_gbps: float | None = None
    clamp_target: bool = False
    clamp_target_after_increase: bool = False
    increase_timer_us: float
    byte_counter: int | None = None
    fast_recovery_stages: int
    additive_increase_mbps: float
    hyper_increase_mbps: float
    min_rate_mbps: float

    def __post_init__(self) -> None:
        _check(
            self,
            self.kind,
            zero={"cnp_interval_us", "rate_decrease_interval_us", "initial_alpha", "hyper_increase_mbps"},
            fractions={"gain", "initial_alpha", "decrease_to_at_least"},
        )
        if self.increase_timer_us < 0.01:
            raise InputError(
                f"dcqcn: increase_timer_us must be at least 0.01, not {self.increase_timer_us:g}"
            )
        if self.periodic and not self.rate_decrease_interval_us:
            raise InputError("dcqcn: rate_decrease_interval_us must be above 0 where cuts are periodic")


@dataclass(frozen=True, kw_only=True)
class Swift:
    """Swift (Kumar et al., SIGCOMM 2020): a window in packets that follows delay.

    target = base_target + hops per_hop + clamp(a / sqrt(cwnd) + b, 0, flow_scaling_range), with
    a = range / (1/sqrt(fs_min) - 1/sqrt(fs_max)), b = -a / sqrt(fs_max).
    ACK with delay below the target: cwnd += ai / cwnd (cwnd of 1 or more), else ai; above it, at most once an RTT:
    cwnd *= max(1 - beta (delay - target) / delay, 1 - max_decrease). Time-out: cwnd = min_cwnd after
    `retransmit_reset_threshold` in a row, else cwnd *= 1 - max_decrease. Below 1 packet the sender paces by rtt / cwnd.

    Raises:
        InputError: a value outside of its range, fs_min_cwnd or min_cwnd not below its maximum.
    """

    kind: ClassVar[str] = "swift"

    base_target_us: float
    per_hop_us: float
    flow_scaling_range_us: float
    flow_scaling_min_cwnd: float
    flow_scaling_max_cwnd: float
    additive_increase_packets: float
    beta: float
    max_decrease: float
    min_cwnd_packets: float
    max_cwnd_packets: float
    retransmit_reset_threshold: int

    def __post_init__(self) -> None:
        _check(
            self,
            self.kind,
            zero={"per_hop_us", "flow_scaling_range_us"},
            fractions={"beta", "max_decrease"},
        )
        if self.flow_scaling_min_cwnd >= self.flow_scaling_max_cwnd:
            raise InputError("swift: flow_scaling_min_cwnd must be below flow_scaling_max_cwnd")
        if self.min_cwnd_packets >= self.max_cwnd_packets:
            raise InputError("swift: min_cwnd_packets must be below max_cwnd_packets")


@dataclass(frozen=True, kw_only=True)
class Hpcc:
    """HPCC (Li et al., SIGCOMM 2019): rate from in-network telemetry, after UpdateRateHp of its rdma-hw.cc.

    Per hop u = txRate / B + min(qlen, last qlen) / (B T); U is its EWMA over the base RTT T. If U / eta >= 1 or the
    stage has reached `max_stage`: R = R_C / (U / eta) + R_AI and the stage is 0; else R = R_C + R_AI and the stage
    counts up. R_C follows once per RTT.

    Attributes:
        eta: utilisation aimed at.
        max_stage: increases in a row before a multiplicative step.
        additive_increase_mbps: R_AI.
        min_rate_mbps: floor of the rate.

    Raises:
        InputError: a value outside of its range.
    """

    kind: ClassVar[str] = "hpcc"

    eta: float
    max_stage: int
    additive_increase_mbps: float
    min_rate_mbps: float

    def __post_init__(self) -> None:
        _check(self, self.kind, zero={"max_stage"}, fractions={"eta"})


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """A rate that obeys both ECN and queueing delay; nettune's own, in the spirit of what MegaScale and Barre describe.

    It is neither of theirs. For each QP:

    - A marked packet reported (no CNP interval), at most once each `ecn_interval_us`: R *= ecn_decrease_to.
    - An ACK whose RTT less the base RTT, the queueing delay d, is above `target_delay_us`, at most once an RTT:
      R *= max(1 - delay_gain (d - target) / d, 1 - max_decrease).
    - Neither goes below `delivered_part` of the rate at which data is acknowledged (over a base RTT or more): a queue that others
      filled would else cut again and again until it has drained, and leave a rate from which the flow takes long to rise.
    - An RTT without either, in which also `increase_bytes` were sent (Barre's two locks): R += additive increase;
      after `fast_after` such in a row R += fast increase instead.

    Raises:
        InputError: a value outside of its range.
    """

    kind: ClassVar[str] = "hybrid"

    target_delay_us: float
    delay_gain: float
    max_decrease: float
    ecn_interval_us: float
    ecn_decrease_to: float
    increase_bytes: int
    additive_increase_mbps: float
    fast_increase_mbps: float
    fast_after: int
    min_rate_mbps: float
    delivered_part: float

    def __post_init__(self) -> None:
        _check(
            self,
            self.kind,
            zero={"ecn_interval_us", "increase_bytes", "delivered_part"},
            fractions={"delay_gain", "max_decrease", "ecn_decrease_to", "delivered_part"},
        )


@dataclass(frozen=True, kw_only=True)
class FixedRate:
    """No reaction to congestion: PFC alone holds queues.

    Attributes:
        rate_gbps: what each QP sends at; None: the link's rate.

    Raises:
        InputError: a rate that is not positive.
    """

    kind: ClassVar[str] = "fixed-rate"

    rate_gbps: float | None = None

    def __post_init__(self) -> None:
        _check(self, self.kind)


CONTROLS: dict[str, type[CongestionControl]] = {
    one.kind: one for one in (Dcqcn, Swift, Hpcc, Hybrid, FixedRate)
}
"""The algorithms by name."""


def _check(
    values: EcnCurve | Dcqcn | Swift | Hpcc | Hybrid | FixedRate,
    where: str,
    *,
    zero: frozenset[str] | set[str] = frozenset(),
    fractions: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Refuse what is no finite number, not positive (0 only where `zero` says so), or above 1 where a fraction."""
    for field in fields(values):
        value = getattr(values, field.name)
        if value is None or isinstance(value, bool):
            continue
        highest = 1.0 if field.name in fractions else inf
        if not isfinite(value) or value < 0 or value > highest or (value == 0 and field.name not in zero):
            at_least = "0 or more" if field.name in zero else "above 0"
            most = " and at most 1" if field.name in fractions else ""
            raise InputError(f"{where}: {field.name} must be {at_least}{most}, not {value:g}")
