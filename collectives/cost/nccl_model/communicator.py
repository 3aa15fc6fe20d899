"""What NCCL knows when it prices its algorithms: ranks, nodes, GPUs, CPU, and a graph of channels for each algorithm.

The graphs come from NCCL's own search over the machine, which is not modelled here; a log with
NCCL_DEBUG_SUBSYS=GRAPH prints them (`Pattern 4, crossNic 0, nChannels 2, bw 1.2/1.2, type SYS/SYS`), and
NCCL_GRAPH_DUMP_FILE writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from collectives.cost.nccl_model import constants as c
from collectives.cost.nccl_model.constants import ALGORITHMS, GENERATIONS, PATHS
from nettune.errors import InputError

CPUS = ("intel", "amd", "mixed", "other")
# Which graph of the search an algorithm runs on; src/init.cc, from memory: UNVERIFIED but for PAT, whose bandwidth in
# the vector is Tree's.
_GRAPH_OF = {
    "Tree": "tree",
    "Ring": "ring",
    "CollNetDirect": "collnet-direct",
    "CollNetChain": "collnet-chain",
    "NVLS": "nvls",
    "NVLSTree": "nvls",
    "PAT": "tree",
}


@dataclass(frozen=True)
class Graph:
    """Channels of one algorithm.

    Attributes:
        channels: number of channels that the search found.
        bw_intra, bw_inter: GB/s of one channel inside a node and between nodes.
        type_intra, type_inter: worst path that it uses, of `constants.PATHS`.
        latency_inter_us: latency of the network as the net plugin tells it; most say 0.
        chain_pattern: whether a tree's ranks inside a node form a chain (pattern TREE), not a balanced or split tree.
        same_channels: whether all channels are alike.

    Raises:
        InputError: a negative number, or no such path.
    """

    channels: int
    bw_intra: float
    bw_inter: float
    type_intra: str = "NVL"
    type_inter: str = "PIX"
    latency_inter_us: float = 0.0
    chain_pattern: bool = True
    same_channels: bool = True

    def __post_init__(self) -> None:
        if not all(
            0 <= value < inf for value in (self.channels, self.bw_intra, self.bw_inter, self.latency_inter_us)
        ):
            raise InputError("NCCL graph: channels, bandwidths and latency must be numbers of 0 or more")
        if self.type_intra not in PATHS or self.type_inter not in PATHS:
            raise InputError(f"NCCL graph: {self.type_intra}/{self.type_inter}: paths are {', '.join(PATHS)}")

    def within(self, path: str, *, inter: bool) -> bool:
        """Whether the worst path, between or inside nodes, is no worse than `path`."""
        return PATHS.index(self.type_inter if inter else self.type_intra) <= PATHS.index(path)


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """A communicator as the tuning model sees it.

    Attributes:
        ranks, nodes: numbers; an NVL72 domain that NCCL joins by MNNVL is one node.
        graphs: `ring` and `tree`, and `collnet-direct`, `collnet-chain`, `nvls` where the machine has them.
        min_cc, max_cc: compute capability of the oldest and newest GPU (as min_cc where left out): 70 Volta, 80 Ampere,
            90 Hopper, 100 Blackwell.
        cpu: vendor, one of `CPUS`.
        x86: whether the CPUs are x86.
        channels: channels of the communicator after all doubling and limits; see `used_channels` where left out.
        collnet: whether CollNet (SHARP) is on.
        collnet_heads: GPUs of a node with a NIC of their own in CollNet.
        nvswitch: whether GPUs of a node are joined by switches.
        nvls_channels: channels that NVLS uses; those of its graph by default.
        net_overhead_us: what posting to the network costs; by CPU when None (NCCL_NET_OVERHEAD).
        ll128_c2c: NCCL_LL128_C2C.
        pat: NCCL_PAT_ENABLE: None is the default, on at one rank a node.

    Raises:
        InputError: fewer than two ranks, nodes that do not divide them, no ring or tree, an unknown CPU, numbers out of
            range.
    """

    ranks: int
    nodes: int
    graphs: Mapping[str, Graph]
    min_cc: int = 90
    max_cc: int | None = None
    cpu: str = "intel"
    x86: bool = True
    channels: int | None = None
    collnet: bool = False
    collnet_heads: int = 0
    nvswitch: bool = False
    nvls_channels: int | None = None
    net_overhead_us: float | None = None
    ll128_c2c: bool = True
    pat: bool | None = None

    def __post_init__(self) -> None:
        if self.ranks < 2 or self.nodes < 1 or self.ranks % self.nodes:
            raise InputError(
                f"NCCL model: {self.ranks} ranks on {self.nodes} nodes; it needs two ranks, equally many on each node"
            )
        if not {"ring", "tree"} <= set(self.graphs) <= set(_GRAPH_OF.values()):
            raise InputError(
                f"NCCL model: graphs are ring, tree and perhaps {', '.join(sorted(set(_GRAPH_OF.values())))}"
            )
        if not all(isinstance(graph, Graph) for graph in self.graphs.values()):
            raise InputError("NCCL model: graphs must be of class Graph")
        for name, value in (("channels", self.channels), ("nvls_channels", self.nvls_channels)):
            if value is not None and not 1 <= value <= c.MAX_CHANNELS:
                raise InputError(f"NCCL model: {name} = {value} is not between 1 and {c.MAX_CHANNELS}")
        if self.max_cc is not None and self.min_cc > self.max_cc:
            raise InputError(f"NCCL model: min_cc = {self.min_cc} is above max_cc = {self.max_cc}")
        if self.net_overhead_us is not None and not 0 <= self.net_overhead_us < inf:
            raise InputError(
                f"NCCL model: net_overhead_us = {self.net_overhead_us} is no number of 0 or more"
            )
        if self.cpu not in CPUS:
            raise InputError(f"NCCL model: CPU {self.cpu!r} is not one of {', '.join(CPUS)}")

    @property
    def per_node(self) -> int:
        """Ranks on each node."""
        return self.ranks // self.nodes

    @property
    def generation(self) -> str:
        """Row of the tables for the oldest GPU."""
        return GENERATIONS[sum(self.min_cc >= cc for cc in (80, 90, 100))]

    @property
    def column(self) -> int:
        """Column of the tables: 1 node, 2, more."""
        return min(self.nodes, 3) - 1

    @property
    def overhead_us(self) -> float:
        """Network overhead of a step between nodes."""
        if self.net_overhead_us is not None:
            return self.net_overhead_us
        return 2.0 if self.x86 and self.cpu == "amd" else 1.0

    @property
    def used_channels(self) -> int:
        """Channels of the communicator: twice the ring's, and twice again where few fast ones cross the network.

        Source: `ncclTopoPostset` of src/graph/connect.cc, 2.30.7. The second doubling is UNVERIFIED.
        """
        if self.channels is not None:
            return self.channels
        ring = self.graphs["ring"]
        found = min(2 * ring.channels, c.MAX_CHANNELS)
        again = self.min_cc >= c.HOPPER and self.nodes > 1 and ring.bw_intra > c.FAST_RING_BW
        return 2 * found if again and found < c.FEW_CHANNELS else found

    def graph(self, algorithm: str) -> Graph:
        """Graph of an algorithm; without channels where the machine has none.

        Raises:
            InputError: no such algorithm.
        """
        if algorithm not in ALGORITHMS:
            raise InputError(f"NCCL has no algorithm {algorithm!r}; known: {', '.join(ALGORITHMS)}")
        return self.graphs.get(_GRAPH_OF[algorithm], Graph(0, 0.0, 0.0))
