"""Parameters of congestion control in the order and the units of the core (core/control.hpp): ps, bytes, bit/s."""

from __future__ import annotations

from collectives.congestion.parameters import (
    CongestionControl,
    Dcqcn,
    FixedRate,
    Hpcc,
    Hybrid,
    Swift,
)
from nettune.errors import InputError

PARAMETERS = 20
_US = 1e6
_MBPS = 1e6


def encoded(control: CongestionControl) -> tuple[int, list[float]]:
    """(algorithm, its values) for the core.

    Raises:
        InputError: an algorithm that the core does not have.
    """
    match control:
        case FixedRate():
            return 0, [(control.rate_gbps or 0) * 1e9]
        case Dcqcn():
            return 1, [
                control.cnp_interval_us * _US,
                max(control.alpha_interval_us * _US, 1),
                control.gain,
                control.initial_alpha,
                control.periodic,
                max(control.rate_decrease_interval_us * _US, 1 if control.periodic else 0),
                control.decrease_to_at_least,
                (control.first_cnp_rate_gbps or 0) * 1e9,
                control.clamp_target,
                control.clamp_target_after_increase,
                max(control.increase_timer_us * _US, 1),
                control.byte_counter or 0,
                control.fast_recovery_stages,
                control.additive_increase_mbps * _MBPS,
                control.hyper_increase_mbps * _MBPS,
                control.min_rate_mbps * _MBPS,
            ]
        case Swift():
            return 2, [
                control.base_target_us * _US,
                control.per_hop_us * _US,
                control.flow_scaling_range_us * _US,
                control.flow_scaling_min_cwnd,
                control.flow_scaling_max_cwnd,
                control.additive_increase_packets,
                control.beta,
                control.max_decrease,
                control.min_cwnd_packets,
                control.max_cwnd_packets,
                control.retransmit_reset_threshold,
            ]
        case Hpcc():
            return 3, [
                control.eta,
                control.max_stage,
                control.additive_increase_mbps * _MBPS,
                control.min_rate_mbps * _MBPS,
            ]
        case Hybrid():
            return 4, [
                control.target_delay_us * _US,
                control.delay_gain,
                control.max_decrease,
                control.ecn_interval_us * _US,
                control.ecn_decrease_to,
                control.increase_bytes,
                control.additive_increase_mbps * _MBPS,
                control.fast_increase_mbps * _MBPS,
                control.fast_after,
                control.min_rate_mbps * _MBPS,
                control.delivered_part,
            ]
    raise InputError(f"the simulator has no congestion control {control.kind!r}")
