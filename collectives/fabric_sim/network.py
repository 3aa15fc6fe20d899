"""What is simulated: nodes, links, and what switches and NICs are set to.

Links are directed here, two a cable as in `topology.fabric`: link 2 c goes from end a to end b of cable c, 2 c + 1 back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

from collectives.congestion.parameters import EcnCurve
from nettune.errors import InputError

PS_PER_US = 1_000_000
MAX_GBPS = 10_000.0


@dataclass(frozen=True, kw_only=True)
class SwitchSettings:
    """Buffer, PFC and ECN of a switch.

    A packet that arrives takes room of its ingress port: first the port's reserve, then the pool that all ports share, of
    which one port may use `alpha` times what is free, then the port's headroom. PFC pauses the sender when the pool's
    limit is reached and resumes it `xon_offset_bytes` below. Without PFC there is no headroom; what does not fit is lost.

    Attributes:
        buffer_bytes: all of it.
        reserve_bytes: for each port and class.
        headroom_bytes: for each port and lossless class, or a function of its link's Gb/s and ns; None:
            `congestion.buffers.headroom_bytes` of the link.
        alpha: dynamic threshold, as a factor (2^n of a switch's dynamic_th n).
        xoff_bytes: a set threshold in place of the dynamic one.
        xon_offset_bytes: how far below the threshold a sender goes on.
        pfc: whether data classes are lossless.
        ecn: marking curve of a port by its rate in Gb/s; None: no marking.
        alpha_follows_rate: a port faster than the hosts' has alpha doubled for each doubling, up to 1 (HPCC's simulator).
    """

    buffer_bytes: int = 32 * 2**20
    reserve_bytes: int = 4096
    headroom_bytes: int | Callable[[float, float], int] | None = None
    alpha: float = 0.125
    xoff_bytes: int | None = None
    xon_offset_bytes: int = 3072
    pfc: bool = True
    ecn: Callable[[float], EcnCurve | None] | None = None
    alpha_follows_rate: bool = False

    def __post_init__(self) -> None:
        for name in ("reserve_bytes", "xon_offset_bytes"):
            if getattr(self, name) < 0:
                raise InputError(f"switch: {name} must be 0 or more")
        if self.buffer_bytes <= 0:
            raise InputError("switch: buffer_bytes must be above 0")
        if not 0 < self.alpha < 1e6:
            raise InputError(f"switch: alpha must be above 0, not {self.alpha:g}")
        for name in ("headroom_bytes", "xoff_bytes"):
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                raise InputError(f"switch: {name} must be 0 or more")


@dataclass(frozen=True, kw_only=True)
class Transport:
    """What NICs do with messages.

    Attributes:
        mtu_bytes: payload of a full packet.
        header_bytes: what a data packet has beside it on the wire.
        ack_bytes, cnp_bytes, pfc_bytes: whole frames.
        ack_every: packets for one acknowledgement (the last of a message is always acknowledged).
        acks_with_data: acknowledgements are in the class of their data: they queue with it at switches and PFC stops
            them; otherwise they have strict priority.
        selective_repeat: only what is missing is sent again; otherwise all from the first missing packet on (go-back-N).
        reorder_packets: a NACK needs a packet that is more than this ahead (for paths of unequal length).
        nack_interval_us: until a gap that stays open is reported again.
        timeout: exponent of the time-out, 4.096 us x 2^timeout; None: no time-out, as in HPCC's simulator.
        retry_count: time-outs in a row without progress before a flow fails.
        adaptive_us: first time-out of adaptive retransmission; each value is used `same_timeouts` times, then doubled up
            to that of `timeout`; an acknowledgement starts again. None: always that of `timeout`.
        spray: each packet takes the next of its flow's paths.
        flowlet_us: another of its paths, drawn, after a pause of this length; None: never.
        whole_ns: cut times on the wire and between packets to whole nanoseconds, as the ns-3 simulators of HPCC's family
            do; they are 1% too fast at 100 Gb/s, 4.5% at 400.
    """

    mtu_bytes: int = 1000
    header_bytes: int = 48
    ack_bytes: int = 60
    cnp_bytes: int = 64
    pfc_bytes: int = 64
    ack_every: int = 1
    acks_with_data: bool = False
    selective_repeat: bool = False
    reorder_packets: int = 0
    nack_interval_us: float = 500.0
    timeout: int | None = None
    retry_count: int = 7
    adaptive_us: float | None = None
    same_timeouts: int = 2
    spray: bool = False
    flowlet_us: float | None = None
    whole_ns: bool = False

    def __post_init__(self) -> None:
        for name in ("mtu_bytes", "ack_bytes", "cnp_bytes", "pfc_bytes", "ack_every", "same_timeouts"):
            if not 1 <= getattr(self, name) <= 60_000:
                raise InputError(f"transport: {name} must be 1 to 60000, not {getattr(self, name)}")
        if not 0 <= self.header_bytes <= 5000:
            raise InputError(f"transport: header_bytes must be 0 to 5000, not {self.header_bytes}")
        if self.timeout is not None and not 0 <= self.timeout <= 31:
            raise InputError(f"transport: timeout is an exponent, 0 to 31, not {self.timeout}")
        if not 0 <= self.retry_count <= 1_000_000 or not 0 <= self.reorder_packets < 2**31:
            raise InputError("transport: retry_count and reorder_packets must be 0 or more")
        for name in ("nack_interval_us", "adaptive_us", "flowlet_us"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise InputError(f"transport: {name} must be above 0, not {value:g}")
        if self.adaptive_us is not None and self.timeout is None:
            raise InputError("transport: adaptive_us needs a timeout, the longest that it may reach")

    @property
    def wire_bytes(self) -> int:
        """A full data packet on the wire."""
        return self.mtu_bytes + self.header_bytes

    @property
    def timeout_ps(self) -> int:
        """4.096 us x 2^timeout; 0: none (an exponent of 0 is infinite, too)."""
        return 0 if not self.timeout else 4_096_000 << self.timeout


@dataclass(frozen=True)
class Cable:
    """A cable between two nodes, both directions alike.

    Attributes:
        a, b: rows of nodes.
        gbps: rate of each direction.
        delay_ns: propagation.
        loss: part of packets that are corrupted on it, at random.
    """

    a: int
    b: int
    gbps: float
    delay_ns: float
    loss: float = 0.0


@dataclass(frozen=True)
class Change:
    """A cable goes down or comes up."""

    at_us: float
    cable: int
    up: bool


@dataclass(frozen=True)
class Network:
    """Nodes and cables with the settings of switches.

    Attributes:
        names: of the nodes.
        hosts: number of hosts; nodes 0 to hosts - 1 are hosts, the others switches.
        cables: of all; parallel ones are several.
        settings: of all switches, or of each.
        changes: cables that go down or up.

    Raises:
        InputError: a cable to nowhere or to itself, a rate, delay or loss out of range, a host without a cable or with
            two (a host with several NICs is several nodes here), a buffer smaller than what ports reserve.
    """

    names: Sequence[str]
    hosts: int
    cables: Sequence[Cable]
    settings: SwitchSettings = field(default_factory=SwitchSettings)
    changes: Sequence[Change] = ()

    def __post_init__(self) -> None:
        nodes = len(self.names)
        if not 0 < self.hosts <= nodes:
            raise InputError(f"a network needs hosts: {self.hosts} of {nodes} nodes")
        used = [0] * self.hosts
        for cable in self.cables:
            if not (0 <= cable.a < nodes and 0 <= cable.b < nodes) or cable.a == cable.b:
                raise InputError(f"cable {cable.a}-{cable.b}: no two of the nodes 0 to {nodes - 1}")
            name = f"cable {self.names[cable.a]} - {self.names[cable.b]}"
            if not 1e-3 <= cable.gbps <= MAX_GBPS:
                raise InputError(f"{name}: the rate must be 0.001 to {MAX_GBPS:g} Gb/s, not {cable.gbps:g}")
            if not 0 <= cable.delay_ns <= 1e9:
                raise InputError(f"{name}: the delay must be 0 to 1e9 ns, not {cable.delay_ns:g}")
            if not 0 <= cable.loss < 1:
                raise InputError(f"{name}: the loss must be 0 to below 1, not {cable.loss:g}")
            for end in (cable.a, cable.b):
                if end < self.hosts:
                    used[end] += 1
        if (least := min(used)) != 1 or max(used) != 1:
            wrong = used.index(least if least != 1 else max(used))
            raise InputError(
                f"host {self.names[wrong]} has {used[wrong]} cables; a host here has one (give each NIC a node of its own)"
            )
        for change in self.changes:
            if not 0 <= change.cable < len(self.cables):
                raise InputError(f"a change names cable {change.cable}; there are {len(self.cables)}")
            if not isfinite(change.at_us) or change.at_us < 0:
                raise InputError(f"a change of cable {change.cable} at {change.at_us:g} us")

    @property
    def link_count(self) -> int:
        """Directed links: two a cable."""
        return 2 * len(self.cables)

    def link_ends(self, link: int) -> tuple[int, int]:
        """Node rows from and to which a directed link goes."""
        cable = self.cables[link // 2]
        return (cable.b, cable.a) if link % 2 else (cable.a, cable.b)

    def link_name(self, link: int) -> str:
        """`leaf0 > spine1`."""
        start, end = self.link_ends(link)
        return f"{self.names[start]} > {self.names[end]}"

    @cached_property
    def links_between(self) -> dict[tuple[int, int], list[int]]:
        """(from, to) -> directed links, several where cables are parallel."""
        found: dict[tuple[int, int], list[int]] = {}
        for row, cable in enumerate(self.cables):
            found.setdefault((cable.a, cable.b), []).append(2 * row)
            found.setdefault((cable.b, cable.a), []).append(2 * row + 1)
        return found

    def host_gbps(self) -> float:
        """Rate of the first host's link, which presets scale with."""
        return next(cable.gbps for cable in self.cables if min(cable.a, cable.b) == 0)
