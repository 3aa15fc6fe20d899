"""Events of communicators: their start and end, rings, trees, connections, tuning, and the topology that NCCL sees.

Formats and conventions as in `events`.
"""

from __future__ import annotations

from dataclasses import dataclass

from topology.readers.nccl_log.events import Event


@dataclass(frozen=True, slots=True)
class CommInit(Event):
    """`ncclCommInitRank comm 0x.. rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 61000 commId 0x.. - Init START` (init.cc).

    Attributes:
        state: `START`, `COMPLETE`; of `ncclCommDestroy` and `ncclCommAbort` what stands before COMPLETE: `Destroy`, `Abort`.
        bus: PCI address, decoded.
        comm_id: hash of the unique id, the same on all ranks; `parent` for a split communicator.
    """

    state: str
    function: str
    comm: str
    rank: int
    nranks: int
    cuda_dev: int
    nvml_dev: int
    bus: str
    comm_id: str
    parent: str


@dataclass(frozen=True, slots=True)
class CommShape(Event):
    """`comm 0x.. rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0` (init.cc)."""

    comm: str
    rank: int
    nranks: int
    nnodes: int
    local_ranks: int
    local_rank: int
    mnnvl: bool


@dataclass(frozen=True, slots=True)
class InitTimings(Event):
    """`Init timings - ncclCommInitAll: rank 0 nranks 2 total 0.29 (kernels 0.26, ...)` in seconds (init.cc, since 2.24)."""

    function: str
    rank: int
    nranks: int
    total_s: float
    parts_s: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class RingOrder(Event):
    """`Channel 00/02 : 0 1`: the ranks in order of a ring (graph/rings.cc, rank 0 prints). Cut at 1,023 characters."""

    channel: int
    channels: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A rank's place in one tree; -1 is nobody."""

    channel: int
    children: tuple[int, ...]
    rank: int
    parent: int


@dataclass(frozen=True, slots=True)
class Trees(Event):
    """`Trees [0] 1/-1/-1->0->7 [1] ...` (init.cc); up to 2.6 with both trees of a channel, `a->0->7|7->0->b`."""

    nodes: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class Connection(Event):
    """`Channel 05/0 : 2[2] -> 10[2] [receive] via NET/IB/1/GDRDMA` (transport/{net,p2p,shm}.cc); 2.5: `Ring 00 : ..`.

    Attributes:
        connection: 0, or 1 for a second one of the channel; -1 where not told.
        from_dev, to_dev: as in brackets: NVML device, or PCI bus in old logs (`41000`).
        direction: `send`, `receive`, or empty inside a host.
        via: the whole path; `transport` its network (`IB`, `IBext`, `Socket`), empty inside a host.
        net_dev: number of the NIC; `proxy_rank` the rank on whose host side it is used (PXN), -1 its own.
    """

    channel: int
    connection: int
    from_rank: int
    from_dev: str
    to_rank: int
    to_dev: str
    direction: str
    via: str
    transport: str
    net_dev: int
    proxy_rank: int
    gpu_direct: bool
    shared: bool


@dataclass(frozen=True, slots=True)
class ChannelCounts(Event):
    """`24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer` (init.cc)."""

    coll: int
    collnet: int
    nvls: int
    p2p: int
    p2p_per_peer: int


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """`Connected all rings, use ring PXN 0 GDR 1`, `Connected all trees` (transport.cc, init.cc)."""

    what: str
    pxn: int
    gdr: int


@dataclass(frozen=True, slots=True)
class TuningCell:
    """Latency in us and algorithm bandwidth in GB/s of one algorithm and protocol; both 0.0 where it is not used."""

    algorithm: str
    protocol: str
    latency_us: float
    bandwidth_gbytes_per_s: float


@dataclass(frozen=True, slots=True)
class TuningRow(Event):
    """A row of the table that NCCL_DEBUG_SUBSYS=TUNING prints (graph/tuning.cc); the heads are carried along."""

    function: str
    cells: tuple[TuningCell, ...]


@dataclass(frozen=True, slots=True)
class TuningThreads(Event):
    """The row `Max NThreads` of that table: (algorithm, protocol, threads)."""

    threads: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class AlgorithmChoice(Event):
    """`AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}` (enqueue.cc, TUNING).

    Up to 2.2x `1024 Bytes -> Algo 1 proto 0 time 12.3`: numbers, no function, no channels, and the predicted time.
    """

    function: str
    bytes: int
    algorithm: str
    protocol: str
    first_channel: int
    last_channel: int
    time_us: float


@dataclass(frozen=True, slots=True)
class System(Event):
    """`=== System : maxBw 24.0 totalBw 360.0 ===`: begin of the topology that NCCL sees (graph/topo.cc, GRAPH)."""

    max_gbytes_per_s: float
    total_gbytes_per_s: float


@dataclass(frozen=True, slots=True)
class SystemNode(Event):
    """`+ PCI[24.0] - GPU/4000 (0)` below it, or `CPU/0 (1/1/2)`.

    Attributes:
        depth: columns before the `+`; the parent is the last node above that stands further left.
        link: `PCI`, `NVL`, `SYS`, `NET`; empty for a CPU, which begins a tree.
        kind, id: `GPU` and `4000`; since 2.20 `0-4000`, with the host of a fused topology.
    """

    depth: int
    link: str
    gbytes_per_s: float
    kind: str
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class SystemPaths(Event):
    """`GPU/81000 :GPU/81000 (0/5000.000000/LOC) NET/1 (3/24.000000/PHB)`: (node, hops, GB/s, kind of path)."""

    node: str
    paths: tuple[tuple[str, int, float, str], ...]


@dataclass(frozen=True, slots=True)
class GraphFound(Event):
    """`Pattern 4, crossNic 0, nChannels 2, bw 12.0/12.0, type SYS/PIX, sameChannels 0` (graph/search.cc).

    Patterns: 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct. The first speed and type are
    inside the host.
    """

    pattern: int
    cross_nic: int
    channels: int
    intra_gbytes_per_s: float
    inter_gbytes_per_s: float
    type_intra: str
    type_inter: str
    same_channels: bool


@dataclass(frozen=True, slots=True)
class GraphChannel(Event):
    """` 0 : NET/0 GPU/0 GPU/1 NET/0`: a channel of the graph before it."""

    channel: int
    devices: tuple[str, ...]
