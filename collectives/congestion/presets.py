"""Parameter sets that are in use, by name, as functions of the link's rate where their source scales with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from collectives.congestion.parameters import (
    CongestionControl,
    Dcqcn,
    EcnCurve,
    FixedRate,
    Hpcc,
    Hybrid,
    Swift,
)
from nettune.errors import InputError

Values = TypeVar("Values", bound=Any)


def paper(_link_gbps: float) -> Dcqcn:
    """DCQCN's paper (SIGCOMM 2015) and its fluid model (CoNEXT 2016), values for 40 Gb/s links, not scaled.

    R_HAI and the floor of the rate are not in the paper: 200 Mb/s is that of the authors' ns3-rdma configuration, 10 Mb/s
    ours.
    """
    return Dcqcn(
        cnp_interval_us=50,
        alpha_interval_us=55,
        gain=1 / 256,
        periodic=False,
        rate_decrease_interval_us=0,
        clamp_target=True,
        increase_timer_us=55,
        byte_counter=10_000_000,
        fast_recovery_stages=5,
        additive_increase_mbps=40,
        hyper_increase_mbps=200,
        min_rate_mbps=10,
    )


def hpcc_runpy(link_gbps: float) -> Dcqcn:
    """What `run.py --cc dcqcn` of the HPCC simulator sets ("vendor"), with its state machine in rdma-hw.cc.

    CNPs are a bit in each ACK of a marked packet; there is no byte counter; increases scale as 5 and 50 Mb/s at 25 Gb/s.
    """
    return Dcqcn(
        cnp_interval_us=0,
        alpha_interval_us=1,
        gain=1 / 256,
        rate_decrease_interval_us=4,
        clamp_target_after_increase=True,
        increase_timer_us=300,
        byte_counter=None,
        fast_recovery_stages=1,
        additive_increase_mbps=5 * link_gbps / 25,
        hyper_increase_mbps=50 * link_gbps / 25,
        min_rate_mbps=100,
    )


def mlx5_default(_link_gbps: float) -> Dcqcn:
    """Defaults of mlx5 NICs as mlxconfig prints them; the same at every link rate.

    DCE_TCP_G 1019 is a keep weight of 1019/1024, so the gain is 5/1024; RPG_BYTE_RESET 32767 bytes; RPG_THRESHOLD 1;
    RPG_MIN_DEC_FAC 50; CLAMP_TGT_RATE 0, CLAMP_TGT_RATE_AFTER_TIME_INC 1; MIN_TIME_BETWEEN_CNPS 4.
    """
    return Dcqcn(
        cnp_interval_us=4,
        alpha_interval_us=1,
        gain=5 / 1024,
        initial_alpha=1023 / 1024,
        rate_decrease_interval_us=4,
        decrease_to_at_least=0.5,
        clamp_target_after_increase=True,
        increase_timer_us=300,
        byte_counter=32767,
        fast_recovery_stages=1,
        additive_increase_mbps=5,
        hyper_increase_mbps=50,
        min_rate_mbps=1,
    )


def barre(link_gbps: float) -> Dcqcn:
    """DCQCN retuned after table 2 of Barre (USENIX ATC 2025), at 400 Gb/s; the rest as `mlx5_default`.

    The table gives ranges: CNP interval 0..2 us, cut interval 1..4 us, timer 20..100 us, R_AI 8..20 Mb/s, least decrease
    to 80..98%. Here is about the middle of each, which is our choice.
    """
    return replace(
        mlx5_default(link_gbps),
        cnp_interval_us=1,
        rate_decrease_interval_us=2.5,
        increase_timer_us=60,
        additive_increase_mbps=14,
        decrease_to_at_least=0.89,
    )


def swift(link_gbps: float) -> Swift:
    """Swift as open implementations set it: the values are not the paper's, which does not print all of them.

    Base target, beta, largest decrease and the range of 4 base targets as in aliyun/ns-3-alibabacloud; the window's
    ceiling is 1 ms of the link in packets of 1 KB.
    """
    return Swift(
        base_target_us=25,
        per_hop_us=1,
        flow_scaling_range_us=100,
        flow_scaling_min_cwnd=0.1,
        flow_scaling_max_cwnd=100,
        additive_increase_packets=1,
        beta=0.8,
        max_decrease=0.4,
        min_cwnd_packets=0.01,
        max_cwnd_packets=max(1.0, link_gbps * 125),
        retransmit_reset_threshold=4,
    )


def hpcc(link_gbps: float) -> Hpcc:
    """What `run.py --cc hpcc` of the HPCC simulator sets: eta 0.95, no additive stages, 10 Mb/s at 25 Gb/s."""
    return Hpcc(eta=0.95, max_stage=0, additive_increase_mbps=10 * link_gbps / 25, min_rate_mbps=100)


def hybrid(link_gbps: float) -> Hybrid:
    """Our own: the cut to 97% lies in what Barre describes; steps of 0.5% and 1% of the link's rate an RTT, and the rest, do not.

    Steps and `delivered_part` were chosen by trial on incasts of 12 and 15 hosts, an all-to-all and a permutation.
    """
    return Hybrid(
        target_delay_us=20,
        delay_gain=0.8,
        max_decrease=0.4,
        ecn_interval_us=2,
        ecn_decrease_to=0.97,
        increase_bytes=8192,
        additive_increase_mbps=5 * link_gbps,
        fast_increase_mbps=10 * link_gbps,
        fast_after=5,
        min_rate_mbps=10,
        delivered_part=0.7,
    )


def pfc_only(_link_gbps: float) -> FixedRate:
    """No congestion control."""
    return FixedRate()


PRESETS: dict[str, Callable[[float], CongestionControl]] = {
    "paper": paper,
    "hpcc-runpy": hpcc_runpy,
    "mlx5-default": mlx5_default,
    "barre": barre,
    "swift": swift,
    "hpcc": hpcc,
    "hybrid": hybrid,
    "pfc-only": pfc_only,
}
"""The first four are DCQCN."""

ECN_PRESETS: dict[str, Callable[[float], EcnCurve]] = {
    # DCQCN's paper, 40 Gb/s links.
    "paper": lambda _: EcnCurve(kmin_bytes=5_000, kmax_bytes=200_000, pmax=0.01),
    # run.py of the HPCC simulator: 100 and 400 KB at 25 Gb/s.
    "hpcc-runpy": lambda gbps: EcnCurve(kmin_bytes=4_000 * gbps, kmax_bytes=16_000 * gbps, pmax=0.2),
    # NVIDIA Cumulus and Onyx, RoCE mode.
    "cumulus": lambda _: EcnCurve(kmin_bytes=150_000, kmax_bytes=1_500_000, pmax=1.0),
    # Microsoft's SONiC templates.
    "sonic": lambda _: EcnCurve(kmin_bytes=2**20, kmax_bytes=2**21, pmax=0.05),
}
"""Marking curves of switches: vendors of NICs set none."""


def control(name: str, link_gbps: float, changed: Mapping[str, Any] | None = None) -> CongestionControl:
    """A preset at a link's rate, with some of its values changed.

    Args:
        name: of `PRESETS`.
        link_gbps: rate of the host's link.
        changed: parameter -> value.

    Raises:
        InputError: no such preset or parameter, or a value outside of its range.
    """
    return changed_values(_chosen(PRESETS, name, "congestion preset")(link_gbps), changed or {})


def ecn_curve(name: str, link_gbps: float, changed: Mapping[str, Any] | None = None) -> EcnCurve:
    """A preset of the marking curve, as `control`."""
    return changed_values(_chosen(ECN_PRESETS, name, "ECN preset")(link_gbps), changed or {})


def changed_values(values: Values, changed: Mapping[str, Any]) -> Values:
    """The same parameters with some changed.

    Raises:
        InputError: no such parameter, or a value of another type or outside of its range.
    """
    known = {field.name: str(field.type) for field in fields(values)}
    for key, value in changed.items():
        if key not in known:
            raise InputError(f"{type(values).__name__.lower()} has no {key!r}{near(key, known)}")
        fits = {"bool": bool, "int": int, "int | None": int}.get(known[key], (int, float))
        if (isinstance(value, bool) and known[key] != "bool") or not isinstance(value, fits):
            raise InputError(f"{key}: {value!r:.60} is no {known[key].split()[0]}")
    changed_to: Values = replace(values, **changed)
    return changed_to


def near(word: str, known: Mapping[str, Any]) -> str:
    """`; did you mean 'x'?`, or all that is known where nothing is near."""
    import difflib  # of use to mistakes only

    found = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; known: {', '.join(known)}"


def _chosen(table: Mapping[str, Values], name: str, what: str) -> Values:
    if name not in table:
        raise InputError(f"no {what} {name!r:.60}{near(name, table)}")
    return table[name]
