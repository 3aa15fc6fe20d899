"""Connections of NCCL's InfiniBand/RoCE transport as flows: how many QPs, what share of the bytes, which ports.

NCCL 2.30.7, src/transport/net_ib: a connection has NCCL_IB_QPS_PER_CONNECTION (default 1) QPs for each device of the side
that has more; QP q uses device q % devices. Message k goes to QPs (k m + i) % qps for i < m, where m is all QPs with
NCCL_IB_SPLIT_DATA_ON_QPS=1 and the number of devices with 0 (default since 2.20); pieces are multiples of 128 bytes.

The transfers made here are those of `topology.traffic`: with an ideal hash `topology.loads` draws their paths. `busiest`
adds draws through the switches' real hashes, with the ports that connections would get.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.draws import DrawnPhase
from topology.ecmp.roce import QPN_BITS, sport_of_qps
from topology.ecmp.tuples import ROCE_PORT, UDP
from topology.ecmp.walk import FlowColumns, walked_loads
from topology.fabric import LinkState
from topology.loads import US_PER_BYTE_AT_1_GBPS, expected_loads, phase_times
from topology.traffic import Transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from topology.fabric import Fabric
    from topology.routing import Routing

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    PortDraw = Callable[[Transfers, np.random.Generator, int], FlowColumns]

MAX_QPS = 128
"""NCCL_IB_MAX_QPS, over all devices of a connection."""
PIECE_BYTES = 128
_BLOCK = 1 << 18


@dataclass(frozen=True)
class QpSettings:
    """NCCL_IB_QPS_PER_CONNECTION and NCCL_IB_SPLIT_DATA_ON_QPS."""

    per_connection: int = 1
    split: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.per_connection <= MAX_QPS:
            raise InputError(f"NCCL_IB_QPS_PER_CONNECTION={self.per_connection} is outside 1 to {MAX_QPS}")


@dataclass(frozen=True)
class Connections:
    """C connections.

    Attributes:
        src_ports, dst_ports: (C, D) NIC ports of the devices that each side merges into one, port rows.
        bytes_: (C,) bytes that each carries.
        message_bytes: (C,) size of its messages.
    """

    src_ports: Ints
    dst_ports: Ints
    bytes_: Floats
    message_bytes: Floats

    def __post_init__(self) -> None:
        if not len(self.src_ports) == len(self.dst_ports) == len(self.bytes_) == len(self.message_bytes):
            raise InputError("connections: the columns differ in length")
        if self.src_ports.ndim != 2 or self.dst_ports.ndim != 2 or np.any(self.message_bytes <= 0):
            raise InputError("connections: ports need a column for each device, and messages a size above 0")

    @classmethod
    def of(cls, src_port: Ints, dst_port: Ints, bytes_: float, messages: int = 1024) -> Connections:
        """One device a side, the same bytes and number of messages everywhere."""
        total = np.full(len(src_port), float(bytes_))
        return cls(src_port[:, None], dst_port[:, None], total, total / messages)


def across_leaves(routing: Routing, bytes_: float = 1e6) -> Connections:
    """Every NIC sends to one of its rail behind another leaf, a permutation: traffic that an operator's test makes.

    NICs without a cable, and rails behind one leaf alone, are left out.
    """
    fabric = routing.fabric
    cabled = fabric.out_of_port >= 0
    if len(fabric.links.state):
        cabled &= fabric.links.state[fabric.out_of_port // 2] == LinkState.UP
    nics = np.flatnonzero((routing.group >= 0) & cabled)
    pairs: list[Ints] = [np.empty((2, 0), dtype=np.int64)]
    for rail in np.unique(fabric.ports.rail[nics]).tolist():
        own = nics[fabric.ports.rail[nics] == rail]
        own = own[np.argsort(routing.group[own], kind="stable")]
        sizes = np.unique(routing.group[own], return_counts=True)[1]
        pairs.append(np.stack([own, np.roll(own, -int(sizes.max()))]))
    source, target = np.concatenate(pairs, axis=1)
    leaf = fabric.ports.node[fabric.directed_ports[fabric.out_of_port[source], 1]]
    reached = routing.hops.sets(leaf, routing.hops.column[target]) >= 0
    away = (routing.group[source] != routing.group[target]) & reached
    return Connections.of(source[away], target[away], bytes_)


def qp_shares(bytes_: float, message_bytes: float, settings: QpSettings, devices: int = 1) -> Floats:
    """(qps,) bytes on each QP of a connection; a last message may be shorter.

    Raises:
        InputError: more QPs than NCCL has.
    """
    qps = settings.per_connection * devices
    if qps > MAX_QPS:
        raise InputError(f"{qps} QPs in a connection: NCCL has {MAX_QPS}")
    used = qps if settings.split else devices
    turns = qps // used
    whole = int(bytes_ // message_bytes)
    counts = np.bincount(np.arange(turns), weights=whole // turns + (np.arange(turns) < whole % turns))
    shares = np.outer(counts, _pieces(message_bytes, used)).ravel()
    rest = bytes_ - whole * message_bytes
    if rest > 0:
        begin = whole % turns * used
        shares[begin : begin + used] += _pieces(rest, used)
    return shares


def _pieces(size: float, used: int) -> Floats:
    """(used,) bytes of one message on each QP that it uses."""
    piece = np.ceil(np.ceil(size / used) / PIECE_BYTES) * PIECE_BYTES
    pieces: Floats = np.clip(size - piece * np.arange(used), 0, piece)
    return pieces


def qp_transfers(connections: Connections, settings: QpSettings) -> Transfers:
    """One transfer for each QP that carries something: `edge` is the connection, `connection` the QP in it.

    Raises:
        InputError: more QPs than NCCL has.
    """
    sources, targets = connections.src_ports.shape[1], connections.dst_ports.shape[1]
    devices = max(sources, targets)
    qps = settings.per_connection * devices
    sizes = np.stack([connections.bytes_, connections.message_bytes], axis=1)
    kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
    shares = np.array([qp_shares(size, message, settings, devices) for size, message in kinds.tolist()])
    number = np.tile(np.arange(qps), len(kind))
    edge = np.repeat(np.arange(len(kind)), qps)
    moved = Transfers(
        src_port=connections.src_ports[edge, number % sources],
        dst_port=connections.dst_ports[edge, number % targets],
        bytes_=shares.reshape(-1, qps)[kind].ravel(),
        edge=edge,
        connection=number,
    )
    used = moved.bytes_ > 0
    return Transfers(**{name: column[used] for name, column in vars(moved).items()})


def roce_ports(moved: Transfers, generator: np.random.Generator, draws: int) -> FlowColumns:
    """(D x T,) flows, draw by draw: every NIC numbers its QPs one after another from a number of its own."""
    ends = np.concatenate([moved.src_port, moved.dst_port])
    ports, index = np.unique(ends, return_inverse=True)
    order = np.argsort(index, kind="stable")
    counts = np.bincount(index, minlength=len(ports))
    rank = np.empty(len(ends), dtype=np.int64)
    rank[order] = np.arange(len(ends)) - np.repeat(np.cumsum(counts) - counts, counts)
    base = generator.integers(1, 2**QPN_BITS - int(counts.max(initial=0)), (draws, len(ports)))
    number = base[:, index] + rank
    local, remote = number[:, : len(moved.src_port)].ravel(), number[:, len(moved.src_port) :].ravel()
    return FlowColumns(
        np.tile(moved.src_port, draws),
        np.tile(moved.dst_port, draws),
        np.full_like(local, UDP),
        sport_of_qps(local, remote),
        np.full_like(local, ROCE_PORT),
        remote,
    )


@dataclass(frozen=True)
class Busiest:
    """Time that the most loaded link needs, over port draws.

    Attributes:
        times_us: (D,) in each draw.
        even_us: if every switch split every flow evenly.
        by: `ideal hash` or `known hashes`.
    """

    times_us: Floats
    even_us: float
    by: str

    @property
    def mean_us(self) -> float:
        """Mean over draws."""
        return float(self.times_us.mean())

    @property
    def p50_us(self) -> float:
        """Median over draws."""
        return float(np.percentile(self.times_us, 50))

    @property
    def p95_us(self) -> float:
        """95th percentile over draws."""
        return float(np.percentile(self.times_us, 95))

    @property
    def efficiency(self) -> float:
        """Even split over mean: what collisions leave of the bandwidth."""
        return self.even_us / self.mean_us if self.mean_us else 1.0


def busiest(
    routing: Routing,
    moved: Transfers,
    *,
    draws: int = 200,
    seed: int = 0,
    ports: PortDraw | None = None,
) -> Busiest:
    """The most loaded link before connections exist: with `ports` through the known hashes, without by an ideal hash.

    Raises:
        UnknownPathError: no route, or `ports` are given and a hash is not known.
        InputError: a used link has no speed.
    """
    even = expected_loads(routing, moved)
    per_byte = us_per_byte(routing.fabric, even > 0)
    if ports is None:
        times, _ = phase_times(DrawnPhase.of(routing, moved, (seed,)), draws, None)
    else:
        times = np.empty(draws)
        step = max(1, _BLOCK // max(len(moved.src_port), routing.fabric.directed_count))
        for begin in range(0, draws, step):
            count = min(step, draws - begin)
            flows = ports(moved, np.random.default_rng((seed, begin)), count)
            draw = np.repeat(np.arange(count), len(moved.src_port))
            loads = walked_loads(routing, flows, np.tile(moved.bytes_, count), draw=draw, draws=count)
            times[begin : begin + count] = (loads * per_byte).max(axis=1, initial=0.0)
    return Busiest(
        times, float((even * per_byte).max(initial=0.0)), "known hashes" if ports else "ideal hash"
    )


def by_qps(
    routing: Routing,
    connections: Connections,
    settings: QpSettings,
    counts: Iterable[int] = (1, 2, 4, 8, 16, 32),
    *,
    draws: int = 100,
    seed: int = 0,
    ports: PortDraw | None = None,
) -> dict[int, Busiest]:
    """QPs per connection -> the most loaded link: what more QPs buy.

    Raises:
        UnknownPathError, InputError: as `busiest`.
    """
    devices = max(connections.src_ports.shape[1], connections.dst_ports.shape[1])
    return {
        count: busiest(
            routing,
            qp_transfers(connections, replace(settings, per_connection=count)),
            draws=draws,
            seed=seed,
            ports=ports,
        )
        for count in counts
        if count * devices <= MAX_QPS
    }


def us_per_byte(fabric: Fabric, used: NDArray[np.bool_]) -> Floats:
    """(2L,) microseconds a byte takes on each directed link; 0 on links that are not used.

    Raises:
        InputError: a used link has no speed.
    """
    speed = fabric.directed_gbps
    unknown = np.flatnonzero(used & (speed == 0))
    if len(unknown):
        raise InputError(
            f"link {fabric.directed_name(int(unknown[0]))} carries traffic but its speed is not known"
        )
    return np.divide(US_PER_BYTE_AT_1_GBPS, speed, out=np.zeros_like(speed), where=used)
