"""Reader of the configuration of HPCC's ns-3 simulator (alibaba-edu/High-Precision-Congestion-Control, third.cc).

What that simulator does beside what its file says is part of what is read here:

- Switches put acknowledgements into the class of their data, whatever ACK_HIGH_PRIO says: third.cc sets no `AckHighPrio` of
  a switch. They wait behind data, and are marked and counted like it.
- Headroom is 3 rate x delay of a link; a port that is faster than the hosts' has a larger share of the buffer.
- Times on the wire are cut to whole nanoseconds (`Transport.whole_ns`).
- There is no time-out; a packet that is lost without one that follows it ends the simulation without an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collectives.congestion.parameters import CongestionControl, Dcqcn, EcnCurve, Hpcc
from collectives.fabric_sim.network import Network, SwitchSettings, Transport
from collectives.fabric_sim.textfile import read_text
from nettune.errors import InputError

_DEFAULTS = {
    "ENABLE_QCN": "1",
    "PACKET_PAYLOAD_SIZE": "1000",
    "CC_MODE": "1",
    "ALPHA_RESUME_INTERVAL": "55",
    "RATE_DECREASE_INTERVAL": "4",
    "CLAMP_TARGET_RATE": "0",
    "RP_TIMER": "1500",
    "EWMA_GAIN": "0.0625",
    "FAST_RECOVERY_TIMES": "5",
    "RATE_AI": "5Mb/s",
    "RATE_HAI": "50Mb/s",
    "MIN_RATE": "100Mb/s",
    "ERROR_RATE_PER_LINK": "0",
    "L2_ACK_INTERVAL": "1",
    "L2_BACK_TO_ZERO": "0",
    "HAS_WIN": "0",
    "VAR_WIN": "0",
    "FAST_REACT": "1",
    "U_TARGET": "0.95",
    "MI_THRESH": "5",
    "MULTI_RATE": "0",
    "SAMPLE_FEEDBACK": "0",
    "RATE_BOUND": "1",
    "KMIN_MAP": "0",
    "KMAX_MAP": "0",
    "PMAX_MAP": "0",
    "BUFFER_SIZE": "16",
    "LINK_DOWN": "0 0 0",
}
"""Of third.cc, or of the class of the attribute."""

_IGNORED = {
    "USE_DYNAMIC_PFC_THRESHOLD",
    "TOPOLOGY_FILE",
    "FLOW_FILE",
    "TRACE_FILE",
    "TRACE_OUTPUT_FILE",
    "FCT_OUTPUT_FILE",
    "PFC_OUTPUT_FILE",
    "SIMULATOR_STOP_TIME",
    "DATA_RATE",
    "LINK_DELAY",
    "PAUSE_TIME",
    "DCTCP_RATE_AI",
    "L2_CHUNK_SIZE",
    "GLOBAL_T",
    "INT_MULTI",
    "PINT_LOG_BASE",
    "PINT_PROB",
    "ACK_HIGH_PRIO",
    "ENABLE_TRACE",
    "QLEN_MON_FILE",
    "QLEN_MON_START",
    "QLEN_MON_END",
}
"""Files, traces, other algorithms, and what its code does not use."""

_ONLY = {"L2_BACK_TO_ZERO": "0", "MULTI_RATE": "0", "SAMPLE_FEEDBACK": "0", "RATE_BOUND": "1"}

_INT_BYTES = 42  # telemetry of five hops in each data packet and acknowledgement


@dataclass(frozen=True)
class HpccConfig:
    """What a configuration comes to.

    Attributes:
        control: DCQCN or HPCC.
        settings: of switches.
        transport: of NICs, with times cut to whole nanoseconds.
        loss: of each link.
        windowed: each flow has at most the longest path's bandwidth-delay product in flight.
        window_follows_rate: and less at a lower rate.
    """

    control: CongestionControl
    settings: SwitchSettings
    transport: Transport
    loss: float
    windowed: bool
    window_follows_rate: bool

    def base_rtt_us(self, network: Network, paths: Sequence[Sequence[int]]) -> float:
        """`maxRtt` of third.cc over these paths: delays of both ways and the time of one payload on each link."""
        longest = 0.0
        for path in paths:
            cables = [network.cables[link // 2] for link in path]
            once = sum(2 * cable.delay_ns + 8 * self.transport.mtu_bytes / cable.gbps for cable in cables)
            longest = max(longest, once)
        return longest / 1000


def read_hpcc_config(file: Path) -> HpccConfig:
    """Read a configuration.

    Raises:
        InputError: an unknown key, a value out of range, an algorithm that is not DCQCN or HPCC.
    """
    given, lines = _read(file)
    values = {**_DEFAULTS, **given}

    def number(key: str) -> float:
        try:
            return float(values[key])
        except ValueError:
            raise InputError(f"{key} {values[key]:.40}: not a number", file, lines.get(key)) from None

    for key, only in _ONLY.items():
        if key in given and number(key) != float(only):
            raise InputError(f"{key} {given[key]:.40}: only {only} can be simulated", file, lines[key])
    if values["LINK_DOWN"].split()[0] != "0":
        raise InputError(
            "LINK_DOWN: routes are given here and do not change; leave it out", file, lines["LINK_DOWN"]
        )
    mode = number("CC_MODE")
    if mode not in {1, 3}:
        raise InputError(
            f"CC_MODE {mode:g}: 1 (DCQCN) and 3 (HPCC) can be simulated", file, lines.get("CC_MODE")
        )
    try:
        if mode == 1:
            control: CongestionControl = _dcqcn(values, number)
        else:
            control = Hpcc(
                eta=number("U_TARGET"),
                max_stage=int(number("MI_THRESH")),
                additive_increase_mbps=_mbps(values["RATE_AI"]),
                min_rate_mbps=_mbps(values["MIN_RATE"]),
            )
        telemetry = _INT_BYTES if mode == 3 else 0
        payload = int(number("PACKET_PAYLOAD_SIZE"))
        transport = Transport(
            mtu_bytes=payload,
            header_bytes=48 + telemetry,
            ack_bytes=88 if telemetry else 60,
            ack_every=max(1, -(-int(number("L2_ACK_INTERVAL")) // max(1, payload))),
            acks_with_data=True,
            whole_ns=True,
        )
        settings = SwitchSettings(
            buffer_bytes=int(number("BUFFER_SIZE") * 2**20),
            headroom_bytes=lambda gbps, delay_ns: int(gbps * delay_ns / 8 * 3),
            ecn=_curves(values) if number("ENABLE_QCN") else None,
            alpha_follows_rate=True,
        )
    except InputError as error:
        raise InputError(
            str(error), file, lines.get("CC_MODE") if "CC_MODE" in str(error) else None
        ) from error
    except (ValueError, OverflowError) as error:
        raise InputError(f"{error}", file) from error
    return HpccConfig(
        control=control,
        settings=settings,
        transport=transport,
        loss=number("ERROR_RATE_PER_LINK"),
        windowed=bool(number("HAS_WIN")),
        window_follows_rate=bool(number("VAR_WIN")),
    )


def _read(file: Path) -> tuple[dict[str, str], dict[str, int]]:
    given: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, row in enumerate(read_text(file).splitlines(), start=1):
        key, _, value = row.partition("#")[0].strip().partition(" ")
        if not key:
            continue
        if key in _IGNORED:
            continue
        if key not in _DEFAULTS:
            raise InputError(f"{key:.40}: no key of HPCC's configuration", file, line)
        if not value.strip():
            raise InputError(f"{key} has no value", file, line)
        given[key], lines[key] = value.strip(), line
    if not given:
        raise InputError("no key of HPCC's configuration in it, like CC_MODE 1", file)
    return given, lines


def _dcqcn(values: Mapping[str, str], number: Callable[[str], float]) -> Dcqcn:
    return Dcqcn(
        cnp_interval_us=0,
        alpha_interval_us=number("ALPHA_RESUME_INTERVAL"),
        gain=number("EWMA_GAIN"),
        rate_decrease_interval_us=number("RATE_DECREASE_INTERVAL"),
        clamp_target=bool(number("CLAMP_TARGET_RATE")),
        clamp_target_after_increase=True,
        increase_timer_us=number("RP_TIMER"),
        fast_recovery_stages=int(number("FAST_RECOVERY_TIMES")),
        additive_increase_mbps=_mbps(values["RATE_AI"]),
        hyper_increase_mbps=_mbps(values["RATE_HAI"]),
        min_rate_mbps=_mbps(values["MIN_RATE"]),
    )


def _mbps(text: str) -> float:
    found = re.fullmatch(r"([0-9.]+)\s*([MGk]?)(?:b/s|bps)", text)
    if found is None:
        raise InputError(f"{text!r:.40} is no rate; write it like 20Mb/s")
    return float(found[1]) * {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}[found[2]]


def _curves(values: Mapping[str, str]) -> Callable[[float], EcnCurve | None]:
    """Marking by rate: `KMIN_MAP 2 100000000000 400 400000000000 1600` in units of 1000 bytes."""
    kmin, kmax, pmax = (_by_rate(values[key], key) for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"))

    def curve(gbps: float) -> EcnCurve:
        bps = round(gbps * 1e9)
        if not (bps in kmin and bps in kmax and bps in pmax):
            raise InputError(f"KMIN_MAP, KMAX_MAP and PMAX_MAP say nothing about links of {gbps:g} Gb/s")
        return EcnCurve(kmin_bytes=1000 * kmin[bps], kmax_bytes=1000 * kmax[bps], pmax=pmax[bps])

    return curve


def _by_rate(text: str, key: str) -> dict[int, float]:
    words = text.split()
    pairs = words[1:]
    if not words[0].isdigit() or len(pairs) != 2 * int(words[0]):
        raise InputError(f"{key} must be a count and that many pairs of bit/s and value, not {text!r:.40}")
    try:
        return {int(rate): float(value) for rate, value in zip(pairs[::2], pairs[1::2], strict=True)}
    except ValueError:
        raise InputError(f"{key}: {text!r:.40} has something that is no number") from None
