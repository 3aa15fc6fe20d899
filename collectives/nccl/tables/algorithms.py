"""Variables of algorithms, channels, buffers, transports inside a host."""

from __future__ import annotations

from functools import partial

from collectives.nccl.variables import Kind, Variable

_integer = partial(Variable, kind=Kind.INTEGER)
_flag = partial(Variable, kind=Kind.INTEGER, low=0, high=1)

ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")

ALGORITHM_SINCE = {
    "CollNetDirect": "2.14",
    "CollNetChain": "2.14",
    "NVLS": "2.17",
    "NVLSTree": "2.18",
    "PAT": "2.23",
}

_CHOICE = (
    Variable("NCCL_ALGO", since="2.5"),
    Variable("NCCL_PROTO", since="2.5"),
    _integer("NCCL_NTHREADS", default="-2", low=64, high=512),
    _integer("NCCL_LL128_NTHREADS", default="-2", low=160, high=640),
    Variable("NCCL_THREAD_THRESHOLDS"),
    _flag("NCCL_COLLNET_ENABLE", since="2.6"),
    _integer("NCCL_COLLNET_NODE_THRESHOLD", default="2", low=1, since="2.9.9"),
    _integer("NCCL_PAT_ENABLE", default="2", low=0, high=2),
    _integer("NCCL_NVLS_ENABLE", default="2", low=0, high=2, since="2.17"),
    _integer("NCCL_NVLS_NCHANNELS", low=1),
    _integer("NCCL_NVLS_CHUNKSIZE", default="131072", low=1, unit="bytes"),
    _integer("NCCL_NVLSTREE_MAX_CHUNKSIZE", default="-1", low=-1, unit="bytes"),
    _integer("NCCL_NET_OVERHEAD", default="-2", low=-2),
    _flag("NCCL_LL128_C2C", default="1"),
    _integer("NCCL_CROSS_NIC", default="2", low=0, high=2),
    Variable("NCCL_TUNER_PLUGIN"),
    Variable("NCCL_GRAPH_FILE"),
    Variable("NCCL_GRAPH_DUMP_FILE"),
    _integer("NCCL_GRAPH_DUMP_FILE_RANK", default="0", low=0),
)

_CHANNELS = (
    _integer("NCCL_MIN_CTAS", low=1, high=64, since="2.17"),
    _integer("NCCL_MAX_CTAS", low=1, high=64, since="2.17"),
    _integer("NCCL_MIN_NCHANNELS", default="-2", low=1, high=64, deprecated="2.17", instead="NCCL_MIN_CTAS"),
    _integer("NCCL_MAX_NCHANNELS", default="-2", low=1, high=64, deprecated="2.17", instead="NCCL_MAX_CTAS"),
    _integer("NCCL_MIN_NRINGS", default="-2", low=1, high=64, deprecated="2.5", instead="NCCL_MIN_CTAS"),
    _integer("NCCL_MAX_NRINGS", default="-2", low=1, high=64, deprecated="2.5", instead="NCCL_MAX_CTAS"),
    _integer("NCCL_MIN_P2P_NCHANNELS", default="1", low=1, high=64),
    _integer("NCCL_MAX_P2P_NCHANNELS", default="64", low=1, high=64),
    _integer("NCCL_NCHANNELS_PER_NET_PEER", default="-1", low=-1, high=64),
    Variable("NCCL_CTA_POLICY", since="2.27"),
    _integer("NCCL_CGA_CLUSTER_SIZE", low=0, high=8, since="2.16"),
)

_BUFFERS = (
    _integer("NCCL_BUFFSIZE", default="4194304", low=1, unit="bytes"),
    _integer("NCCL_LL_BUFFSIZE", low=1, unit="bytes"),
    _integer("NCCL_LL128_BUFFSIZE", low=1, unit="bytes"),
    _integer("NCCL_CHUNK_SIZE", default="0", low=0, unit="bytes"),
    _integer("NCCL_P2P_NET_CHUNKSIZE", default="131072", low=1, since="2.14", unit="bytes"),
    _integer("NCCL_P2P_NVL_CHUNKSIZE", default="524288", low=1, unit="bytes"),
    _integer("NCCL_P2P_PCI_CHUNKSIZE", default="131072", low=1, unit="bytes"),
    _integer("NCCL_P2P_LL_THRESHOLD", default="16384", low=0, since="2.14", unit="bytes"),
    _flag("NCCL_ALLOC_P2P_NET_LL_BUFFERS", default="0", since="2.14"),
    _integer("NCCL_P2P_PER_CHANNEL_NET_BW", default="14", low=1),
    _integer("NCCL_SINGLE_RING_THRESHOLD", low=0, unit="bytes", removed="2.3"),
    _integer("NCCL_LL_THRESHOLD", low=0, unit="bytes", removed="2.5", instead="NCCL_PROTO"),
    _integer("NCCL_TREE_THRESHOLD", low=0, unit="bytes", removed="2.5", instead="NCCL_ALGO"),
)

_INSIDE = (
    _flag("NCCL_P2P_DISABLE", default="0"),
    Variable(
        "NCCL_P2P_LEVEL", kind=Kind.LEVEL, words=("LOC", "NVL", "PIX", "PXB", "PHB", "SYS"), since="2.3.4"
    ),
    _flag("NCCL_P2P_DIRECT_DISABLE", default="0"),
    _flag("NCCL_P2P_READ_ENABLE", default="-2"),
    _flag("NCCL_P2P_USE_CUDA_MEMCPY", default="0"),
    _flag("NCCL_IGNORE_DISABLED_P2P", default="0"),
    _flag("NCCL_SHM_DISABLE", default="0"),
    _flag("NCCL_NVB_DISABLE", default="0", since="2.11"),
    _flag("NCCL_PXN_DISABLE", default="0", since="2.12"),
    _integer("NCCL_P2P_PXN_LEVEL", default="2", low=0, high=2, since="2.12"),
    _flag("NCCL_PXN_C2C", default="1", since="2.27", history=(("2.27", "0"), ("2.28", "1"))),
    _integer("NCCL_CUMEM_ENABLE", default="-2", low=0, high=1, since="2.18"),
    _flag("NCCL_CUMEM_HOST_ENABLE", default="-1", since="2.23"),
    _integer("NCCL_MNNVL_ENABLE", default="2", low=0, high=2, since="2.21"),
    _integer("NCCL_MNNVL_UUID", default="-1", since="2.25"),
    _integer("NCCL_MNNVL_CLIQUE_ID", default="-1", since="2.25"),
    _integer("NCCL_GDRCOPY_ENABLE", default="0", low=0, high=1),
    _flag("NCCL_GDRCOPY_FIFO_ENABLE", default="1"),
    _flag("NCCL_GDRCOPY_SYNC_ENABLE", default="1"),
    _flag("NCCL_GDRCOPY_FLUSH_ENABLE", default="0"),
    Variable("NCCL_TOPO_FILE", since="2.6"),
    Variable("NCCL_TOPO_DUMP_FILE", since="2.6"),
    _integer("NCCL_TOPO_DUMP_FILE_RANK", default="0", low=0),
    Variable("NCCL_HOSTID"),
)

VARIABLES = (*_CHOICE, *_CHANNELS, *_BUFFERS, *_INSIDE)
