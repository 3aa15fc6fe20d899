"""Numbers of NCCL's tuning model, as data: 2.30.7, the defaults that a tuner plugin's `init` may replace since 2.28.

Source: notes taken from src/graph/tuning.cc and src/graph/topo.h of NVIDIA/nccl 2.30.7. The only vector is what 2.29.7
printed for 2 ranks on 2 nodes over sockets (see `coverage`); a row that this vector does not use is UNVERIFIED: never
compared with what a real NCCL printed. Latencies in us, bandwidths in GB/s (1e9 byte/s), protocols LL, LL128, Simple.
"""

from __future__ import annotations

NCCL_VERSION = "2.30.7"

ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")
OPERATIONS = {
    "broadcast": "Broadcast",
    "reduce": "Reduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "all_reduce": "AllReduce",
}

Latencies = tuple[float, float, float]
_NONE: Latencies = (0.0, 0.0, 0.0)

BASE_LATENCY_US: dict[str, Latencies] = {
    "Tree": (6.8, 14.0, 8.4),
    "Ring": (6.6, 14.0, 8.4),
    "CollNetDirect": _NONE,
    "CollNetChain": _NONE,
    "NVLS": _NONE,
    "NVLSTree": _NONE,
    "PAT": (8.0, 8.0, 8.0),
}

# By what the graph's paths inside a node are, and the network. NVLINK and PCI rows are UNVERIFIED, and of NET the rows
# that are not Tree (one rank a node uses Tree's row for every algorithm).
HARDWARE_LATENCY_US: dict[str, dict[str, Latencies]] = {
    "NVLINK": {
        "Tree": (0.6, 1.25, 4.0),
        "Ring": (0.6, 1.9, 3.4),
        "CollNetDirect": (0.0, 0.0, 3.7),
        "CollNetChain": (0.0, 0.0, 2.8),
        "NVLS": (0.0, 0.0, 25.0),
        "NVLSTree": (0.0, 0.0, 25.0),
        "PAT": (0.0, 0.0, 4.0),
    },
    "PCI": {
        "Tree": (1.0, 1.9, 4.0),
        "Ring": (1.0, 2.5, 5.7),
        "CollNetDirect": (0.0, 0.0, 3.7),
        "CollNetChain": (0.0, 0.0, 2.8),
        "NVLS": _NONE,
        "NVLSTree": _NONE,
        "PAT": (0.0, 0.0, 4.0),
    },
    "NET": {
        "Tree": (5.0, 8.5, 14.0),
        "Ring": (2.7, 4.0, 14.0),
        "CollNetDirect": (0.0, 0.0, 31.0),
        "CollNetChain": (0.0, 0.0, 30.0),
        "NVLS": (0.0, 0.0, 18.0),
        "NVLSTree": (0.0, 0.0, 20.9),
        "PAT": (0.0, 0.0, 14.0),
    },
}

GENERATIONS = ("Volta", "Ampere", "Hopper", "Blackwell")  # compute capability below 80, 80, 90, 100 and up

# Caps by generation and number of nodes: 1, 2, more. All UNVERIFIED: none binds in the vector.
Caps = dict[str, Latencies]
# On one node by generation; on several by the CPU: AMD and mixed take Ampere's row, all others Volta's.
LL_MAX_BW: Caps = {
    "Volta": (39.0, 39.0, 20.4),
    "Ampere": (87.7, 22.5, 19.0),
    "Hopper": (141.0, 45.0, 35.0),
    "Blackwell": (282.0, 90.0, 70.0),
}
RING_LL128_MAX_BW: Caps = {  # per channel, as the three below
    "Volta": (20.0, 20.0, 20.0),
    "Ampere": (20.0, 20.0, 20.0),
    "Hopper": (36.7, 36.7, 36.7),
    "Blackwell": (40.0, 40.0, 40.0),
}
TREE_LL128_MAX_BW: Caps = {
    "Volta": (20.0, 20.0, 20.0),
    "Ampere": (20.0, 20.0, 20.0),
    "Hopper": (36.7, 36.7, 29.0),
    "Blackwell": (55.6, 31.67, 20.0),
}
TREE_MAX_BW: Caps = {
    "Volta": (26.5, 18.5, 10.0),
    "Ampere": (24.0, 23.6, 17.8),
    "Hopper": (38.7, 41.4, 36.0),
    "Blackwell": (70.0, 42.8, 24.0),
}
NVLS_TREE_MAX_BW: Caps = {
    "Volta": (26.5, 18.5, 10.0),
    "Ampere": (24.0, 23.6, 17.8),
    "Hopper": (0.0, 57.7, 45.5),
    "Blackwell": (0.0, 96.0, 80.0),
}
NVLS_EFFICIENCY = {"Volta": 0.0, "Ampere": 0.0, "Hopper": 0.85, "Blackwell": 0.74}

# Trees do not follow the model at middle sizes: factor on their bandwidth by log2(bytes / 64), 64 B and up; UNVERIFIED.
TREE_CORRECTION: tuple[tuple[float, ...], ...] = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1),
    (0.9,) * 7 + (0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9),
)
TREE_CORRECTION_END = 23  # Tree stops one entry before the table does; NVLSTree does not

# Kinds of path, nearest first (src/graph/topo.h): what LL128 may run over is a comparison of these.
PATHS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")

# Bytes per thread before one more is worth it. Ring LL is times the ranks. 512 of CollNet: UNVERIFIED.
THREAD_THRESHOLD: dict[str, int] = {"LL": 8, "LL128": 8, "Simple": 64}
COLLNET_THREAD_THRESHOLD = 512
MAX_THREADS: dict[str, int] = {"LL": 512, "LL128": 640, "Simple": 512}
MAX_THREADS_ANY = 640
SLOW_RING_THREADS = 256  # of Ring Simple, where its bandwidth inside the node is at most that of one PCI slot
PCI_BW = 12.0
WARP = 32
# Channels: at most, and what doubles few fast ones between nodes of Hopper and later (UNVERIFIED).
MAX_CHANNELS = 64
HOPPER = 90
FEW_CHANNELS = 16
FAST_RING_BW = 45.0
# Least traffic that the scheduler gives a channel, and how many times a byte of LL counts.
CELL_TRAFFIC = 32 << 10
LL_TRAFFIC = 4
