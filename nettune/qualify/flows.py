"""A planned transfer, what became of it, and the ways that flows between two NICs can take."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

Key = tuple[int, int, int, tuple[int, ...], tuple["Key", ...]]

Alternatives = tuple[tuple[float, tuple[int, ...]], ...]


class FlowState(enum.StrEnum):
    """How a transfer ended."""

    OK = "ok"
    GAP = "gap"
    STALLED = "stalled"
    DEAD = "dead"
    ERROR = "error"


@dataclass(frozen=True)
class ProbeFlow:
    """One planned transfer.

    Attributes:
        src_port, dst_port: port rows of the two NICs.
        tcp_ports: source ports to try in turn; where the hash is known, all take the same path.
        udp_ports: source ports of UDP datagrams that take that path too; empty: no MTU probe.
        alternatives: (probability, directed links) of the paths that it may take; one of probability 1 where known.
        nominal_gbps: speed of the slowest link of the path, or the part of a set that falls to it; 0 unknown.
        fills: directed link that it fills together with the flows of its round that have the same number; -1 none.
        parts: the flows of a set whose sum this one stands for; empty for a flow that is sent.
    """

    src_port: int
    dst_port: int
    tcp_ports: tuple[int, ...]
    udp_ports: tuple[int, ...]
    alternatives: Alternatives
    nominal_gbps: float
    fills: int = -1
    parts: tuple[ProbeFlow, ...] = ()

    @property
    def key(self) -> Key:
        """Equal for flows (and sums) that take the same way at the same rate."""
        parts = tuple(sorted(part.key for part in self.parts))
        return self.src_port, self.dst_port, self.fills, self.tcp_ports[:1], parts

    @property
    def known(self) -> bool:
        """Whether its path is known exactly."""
        return len(self.alternatives) == 1

    @property
    def links(self) -> frozenset[int]:
        """Every directed link that it may cross."""
        return frozenset(link for _, links in self.alternatives for link in links)

    def crosses(self, links: frozenset[int]) -> float:
        """Probability that it crosses any of these directed links."""
        return sum(probability for probability, way in self.alternatives if not links.isdisjoint(way))


@dataclass(frozen=True, kw_only=True)
class FlowResult:
    """What was measured of one transfer.

    Attributes:
        flow: the plan.
        state: how it ended.
        stage: 1 first pass, 2 re-test of suspects.
        round: number of the round; flows of one round ran at the same time.
        alone: nothing else ran in its round.
        pace: share of the nominal rate, on the wire, that the sender held to.
        offered_gbps: payload rate that the sender held to; 0 where no speed is known and it sent as fast as it went.
        delivered_gbps: payload rate at the receiver.
        share: delivered rate, headers counted, over nominal; NaN where no speed is known.
        segments: data segments sent, repeats included.
        lost: segments sent again, less those that turned out not to have been lost.
        rtt_us, min_rtt_us: smoothed and least round trip.
        gap_s: longest time without data while data was due.
        mss_bytes: payload of a full segment.
        small_datagrams, full_datagrams: how many of `datagrams` small and full-sized ones arrived.
        datagrams: how many of each were sent; 0 where none could be.
        note: reason of an error.
        disturbed: a sound transfer that ran beside it was slow too, so its rate and pauses tell of the machine.
    """

    flow: ProbeFlow
    state: FlowState
    stage: int = 1
    round: int = 0
    alone: bool = False
    pace: float = 1.0
    offered_gbps: float = 0.0
    delivered_gbps: float = 0.0
    share: float = float("nan")
    segments: int = 0
    lost: int = 0
    rtt_us: float = 0.0
    min_rtt_us: float = 0.0
    gap_s: float = 0.0
    mss_bytes: int = 0
    small_datagrams: int = 0
    full_datagrams: int = 0
    datagrams: int = 0
    note: str = ""
    disturbed: bool = False

    @property
    def ratio(self) -> float:
        """Delivered over offered rate, at most 1.05; NaN where nothing was expected."""
        return min(self.delivered_gbps / self.offered_gbps, 1.05) if self.offered_gbps > 0 else float("nan")

    @property
    def mtu_ok(self) -> bool | None:
        """Whether full-sized datagrams pass where small ones do; None where the probe does not tell."""
        if self.full_datagrams > 0:
            return True
        return False if self.small_datagrams >= 2 else None

    def to_json(self) -> dict[str, Any]:
        """Figures by name; ports as rows of the fabric."""
        values = {key: value for key, value in vars(self).items() if key != "flow"}
        share = values.pop("share")
        return {
            "src_port": self.flow.src_port,
            "dst_port": self.flow.dst_port,
            "sport": self.flow.tcp_ports[0],
            "links": [[probability, list(links)] for probability, links in self.flow.alternatives],
            "nominal_gbps": self.flow.nominal_gbps,
            "fills": self.flow.fills,
            **values,
            "state": str(self.state),
            "share": None if math.isnan(share) else share,
            "mtu_ok": self.mtu_ok,
        }
