"""Error counters of ports, by their growth between two captures (17 to 22).

What has been counted since the machine started says nothing of today. A counter of 4, 8 or 16 bits that stands at its
end cannot count; one that is smaller than before was reset; one that is absent is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nettune.qualify.checks.deltas import Growth, State, growth, hardware_counters, seconds_between
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.view import HostView


@dataclass(frozen=True)
class Counted:
    """How one counter is judged.

    Attributes:
        limit: of LIMITS; empty: any growth is a fault.
        warns: growth below the limit is a WARN.
        bits: width of the counter in the classic PortCounters attribute, where it stops at its end; 0: wide.
        unless: growth counts only if this counter grows, too.
    """

    name: str
    limit: str = ""
    warns: bool = True
    bits: int = 0
    unless: str = ""


FLAPS = (Counted("link_downed", "link-downed", bits=8), Counted("link_down_events_phy", "link-downed"))
SIGNAL = (
    Counted("symbol_error", "symbol-errors", bits=16),
    Counted("rx_symbol_err_phy", "symbol-errors"),
    Counted("rx_crc_errors_phy", "symbol-errors"),
    Counted("link_error_recovery", "link-recoveries", bits=8),
    Counted("local_link_integrity_errors", bits=4),
    Counted("excessive_buffer_overrun_errors", bits=4),
    Counted("port_rcv_errors", "receive-errors", bits=16),
    Counted("port_xmit_discards", "transmit-discards", bits=16),
)
LOSS = (
    Counted("local_ack_timeout_err", "ack-timeouts"),
    Counted("packet_seq_err", "ack-timeouts"),
    Counted("implied_nak_seq_err", "ack-timeouts"),
    Counted("rnr_nak_retry_err"),
    Counted("roce_adp_retrans", "slow-restarts"),
    Counted("roce_slow_restart", "slow-restarts"),
    # With adaptive routing packets overtake each other on a sound fabric: only with real losses it counts.
    Counted("out_of_sequence", "ack-timeouts", unless="packet_seq_err"),
)
DISCARDS = (
    Counted("rx_discards_phy", "receive-discards"),
    Counted("tx_discards_phy", "receive-discards"),
    Counted("rx_out_of_buffer", "receive-discards"),
    *(Counted(name, "receive-discards") for name in ("rx_total_ring_discards", "rx_stat_discard")),  # bnxt_en
    Counted("rx_dropped", "receive-discards"),  # ice
    Counted("tx_pause_storm_error_events"),
    *(Counted(f"rx_prio{prio}_buf_discard", "receive-discards") for prio in range(8)),
    *(Counted(f"rx_prio{prio}_discards", "receive-discards") for prio in range(8)),
)


_CABLE = "clean and reseat the cable at both ends; look at the peer's counters; change the cable"
_NO_CABLE = (
    "no cable drops these: compare PFC and receive buffers of the job's priority with the switch port's, "
    "then the ring sizes (`ethtool -g`)"
)


def _counters(fleet: Fleet, view: HostView, when: str) -> dict[str, dict[str, int]]:
    """Counters of the data ports, `now` or `before`."""
    return fleet.once(
        ("counters", when, view.host), lambda: hardware_counters(view, fleet.data_ports[view.host])
    )


def _judge(fleet: Fleet, say: Verdicts, family: tuple[Counted, ...]) -> None:
    for view in fleet.hosts:
        earlier = fleet.before.get(view.host)
        ports = _counters(fleet, view, "now")
        relevant = {port: values for port, values in ports.items() if any(c.name in values for c in family)}
        if not ports:
            continue
        if not relevant:
            say.unknown(
                view.where,
                "has none of these counters: " + ", ".join(counted.name for counted in family[:4]),
                fix="collect /sys/class/infiniband and `ethtool -S`; without them nothing is known",
            )
            continue
        if earlier is None:
            say.no_earlier(view)
            _saturated(say, view, relevant, family)
            continue
        past = _counters(fleet, earlier, "before")
        seconds = seconds_between(earlier, view)
        if seconds is not None and seconds < 0:
            say.unknown(
                view.where,
                "the machine started anew between the captures: its counters did, too",
                fix="take the first capture again; or was the later one given with --before?",
            )
            continue
        compared = sum(
            _port(fleet, say, view, port, past.get(port, {}), values, family, seconds)
            for port, values in relevant.items()
        )
        if not say.has_spoken(view.host) and compared:
            span = f" in {seconds:.0f} s" if seconds else ""
            say.ok(
                view.where,
                f"no growth beyond the limits in {compared} counters of {len(relevant)} ports{span}",
            )
        elif not say.has_spoken(view.host):
            say.unknown(
                view.where, "no counter is in both captures", fix="take both captures with the same collector"
            )


def _port(
    fleet: Fleet,
    say: Verdicts,
    view: HostView,
    port: str,
    past: dict[str, int],
    now: dict[str, int],
    family: tuple[Counted, ...],
    seconds: float | None,
) -> int:
    compared = 0
    for counted, grown in _grown(past, now, family):
        where = view.nic(port)
        if grown.state is State.GROWN:
            compared += 1
            _grew(fleet, say, view, port, counted, grown.by, seconds)
        elif grown.state is State.SATURATED:
            say.unknown(
                where,
                f"{counted.name} stands at its end, {now[counted.name]}: it counts no more",
                fix="clear the counters (`perfquery -R`) and capture again",
            )
        elif grown.state is State.RESET:
            say.unknown(
                where,
                f"{counted.name} fell from {past[counted.name]} to {now[counted.name]}: it was reset in between",
                fix="capture again",
            )
        else:
            compared += grown.state is State.SAME
    return compared


def _grown(
    past: dict[str, int], now: dict[str, int], family: tuple[Counted, ...]
) -> Iterator[tuple[Counted, Growth]]:
    for counted in family:
        if counted.name not in now or counted.name not in past:
            continue
        if counted.unless and now.get(counted.unless, 0) <= past.get(counted.unless, 0):
            continue
        yield counted, growth(past[counted.name], now[counted.name], counted.bits)


def _grew(
    fleet: Fleet, say: Verdicts, view: HostView, port: str, counted: Counted, by: int, seconds: float | None
) -> None:
    fix = _NO_CABLE if counted in DISCARDS else _CABLE
    limit = fleet.context.settings.limit(counted.limit) if counted.limit else None
    rated = limit is not None and limit.unit.endswith("/s")
    span = f" in {seconds:.0f} s" if seconds else ""
    beyond = limit is None or by > limit.value * (seconds if rated and seconds else 1.0)
    told = say.fail if beyond and (seconds or not rated) else say.warn if counted.warns else None
    if told is not None:
        told(
            view.nic(port),
            f"{counted.name} grew by {by}{span}",
            basis="growth between two captures",
            fix=fix,
            limits=[counted.limit] if counted.limit else [],
            counter=counted.name,
            grown=by,
            seconds=seconds,
        )


def _saturated(
    say: Verdicts, view: HostView, ports: dict[str, dict[str, int]], family: tuple[Counted, ...]
) -> None:
    for port, values in ports.items():
        ends = [c.name for c in family if c.bits and values.get(c.name) == (1 << c.bits) - 1]
        if ends:
            say.unknown(
                view.nic(port),
                f"{', '.join(ends)} at the end of the counter: nothing more is counted",
                fix="clear the counters (`perfquery -R`) and capture again",
            )


def _congestion(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        earlier = fleet.before.get(view.host)
        if earlier is None:
            continue
        past = _counters(fleet, earlier, "before")
        for port, values in _counters(fleet, view, "now").items():
            old = past.get(port, {})

            def by(name: str, old: dict[str, int] = old, values: dict[str, int] = values) -> int | None:
                known = name in old and name in values and values[name] >= old[name]
                return values[name] - old[name] if known else None

            pauses = [by(f"rx_prio{prio}_pause") for prio in range(8)]
            paused = sum(filter(None, pauses))
            marked, sent, received = (
                by("np_ecn_marked_roce_packets"),
                by("np_cnp_sent"),
                by("port_rcv_packets"),
            )
            where = view.nic(port)
            if paused and marked == 0:
                say.warn(
                    where,
                    f"{paused} pause frames came and no packet was ECN-marked",
                    basis="ECN marks before PFC stops, where both work",
                    fix="switch ECN on for the RoCE traffic class on the switches, thresholds below PFC's",
                    pauses=paused,
                )
            elif sent is not None and received and sent / received > fleet.limit("cnp-share"):
                say.warn(
                    where,
                    f"answered {sent / received:.1%} of the received packets with a CNP",
                    basis="CNPs sent over packets received, both grown since the earlier capture",
                    fix="look for an incast or a slow receiver; compare the ECN thresholds",
                    limits=["cnp-share"],
                )
            elif sent is not None and received:
                say.ok(where, f"{sent} CNPs for {received} received packets", limits=["cnp-share"])


def _flaps(fleet: Fleet, say: Verdicts) -> None:
    _judge(fleet, say, FLAPS)


def _signal(fleet: Fleet, say: Verdicts) -> None:
    _judge(fleet, say, SIGNAL)


def _loss(fleet: Fleet, say: Verdicts) -> None:
    _judge(fleet, say, LOSS)


def _discards(fleet: Fleet, say: Verdicts) -> None:
    _judge(fleet, say, DISCARDS)


_READS = (
    "/sys/class/infiniband/*/ports/*/counters/*",
    "/sys/class/infiniband/*/ports/*/hw_counters/*",
    "ethtool -S IF",
)
RULES = (
    Rule("link-downs", (17,), _READS, "each loss of the link stops the job or costs it seconds", _flaps),
    Rule(
        "signal-errors",
        (18, 19),
        _READS,
        "packets are lost and sent again; the link is about to fail",
        _signal,
    ),
    Rule("loss", (20,), _READS, "lost packets: goodput falls, then time-outs end the job", _loss),
    Rule("congestion", (21,), _READS, "senders are slowed down", _congestion),
    Rule(
        "discards",
        (22,),
        _READS,
        "lossless traffic is dropped: go-back-N sends whole windows again",
        _discards,
    ),
)
