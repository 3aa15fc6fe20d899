"""Variables of networks: InfiniBand and RoCE, sockets, out-of-band, merging of NICs."""

from __future__ import annotations

from functools import partial

from collectives.nccl.variables import Kind, Variable

_integer = partial(Variable, kind=Kind.INTEGER)
_flag = partial(Variable, kind=Kind.INTEGER, low=0, high=1)
_word = partial(Variable, kind=Kind.WORD)

_FIVE_BITS = (
    "what a value of 32 or more becomes: the documentation says infinite, the field in the QP has 5 bits"
)

_IB = (
    _integer(
        "NCCL_IB_TIMEOUT",
        default="20",
        low=1,
        high=31,
        history=(("2.0", "14"), ("2.14", "18"), ("2.23", "20")),
        unverified=_FIVE_BITS,
    ),
    _integer("NCCL_IB_RETRY_CNT", default="7", low=0, high=7, since="2.1.15"),
    _integer("NCCL_IB_QPS_PER_CONNECTION", default="1", low=1, high=128, since="2.10"),
    _flag(
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        default="0",
        since="2.18",
        history=(("2.18", "1"), ("2.20", "0")),
    ),
    _integer("NCCL_IB_TC", default="-1", low=-1, high=255, since="2.1.15"),
    _integer("NCCL_IB_FIFO_TC", default="-1", low=-1, high=255, since="2.22.3"),
    _integer("NCCL_IB_SL", default="-1", low=-1, high=15, since="2.1.4"),
    _integer("NCCL_IB_GID_INDEX", default="-1", low=-1, high=255, since="2.1.4"),
    _word("NCCL_IB_ADDR_FAMILY", default="AF_INET", words=("AF_INET", "AF_INET6"), since="2.21"),
    Variable("NCCL_IB_ADDR_RANGE", since="2.21"),
    _integer("NCCL_IB_ROCE_VERSION_NUM", default="2", low=1, high=2, since="2.21"),
    _integer("NCCL_IB_PKEY", default="0", low=0, since="2.1.4"),
    _integer("NCCL_IB_PKEY_VALUE", default="-1", low=-1, high=65535, since="2.31"),
    Variable("NCCL_IB_HCA"),
    _flag("NCCL_IB_DISABLE", default="0"),
    _integer("NCCL_IB_AR_THRESHOLD", default="8192", low=0, since="2.6", unit="bytes"),
    _integer("NCCL_IB_ADAPTIVE_ROUTING", default="-2", low=-2, high=1, since="2.16"),
    _flag("NCCL_IB_OOO_RQ", default="0", since="2.30"),
    _integer("NCCL_IB_PCI_RELAXED_ORDERING", default="2", low=0, high=2, since="2.12"),
    # The documentation names 2.23 for the variable, and 2.19 for the behaviour.
    _flag("NCCL_IB_ECE_ENABLE", default="1", since="2.19"),
    _flag("NCCL_IB_RETURN_ASYNC_EVENTS", default="1", since="2.23"),
    _flag("NCCL_IB_EVENT_BASED_LB", default="0", since="2.31"),
    _flag("NCCL_IB_MERGE_NICS", default="1", since="2.20"),
    _flag("NCCL_IB_MERGE_VFS", default="1"),
    Variable("NCCL_IB_RAIL_POLICY", default="CX9", since="2.30.5"),
    _flag("NCCL_IB_CUDA_SUPPORT", removed="2.4", instead="NCCL_NET_GDR_LEVEL"),
    _flag("NCCL_IB_SUBNET_AWARE_ROUTING", default="0", since="2.30"),
    _integer("NCCL_IB_SUBNET_PREFIX_LEN", default="24", low=1, high=32, since="2.30"),
    _flag("NCCL_IB_WARN_RAIL_LOCAL", default="0"),
    _flag("NCCL_IB_MQP_RETRY_ALL", default="0"),
    _integer("NCCL_IB_MQP_RETRY_CNT", default="34", low=0),
    _integer("NCCL_IB_MQP_RETRY_SLEEP_MSEC", default="100", low=0, unit="ms"),
    _flag("NCCL_IB_USE_INLINE", default="0"),
    _flag("NCCL_IB_RESILIENCY_PORT_FAILOVER", default="0", since="2.29"),
    _integer("NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS", default="1", low=0, since="2.29"),
    _integer("NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY", default="10", low=0, since="2.29", unit="ms"),
    _flag("NCCL_IB_RESILIENCY_PORT_RECOVERY", default="0", since="2.29"),
    _integer("NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", default="200", low=0, since="2.29", unit="ms"),
    _integer("NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT", default="5000", low=0, since="2.29", unit="ms"),
    _integer(
        "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT",
        default="4000",
        low=0,
        since="2.29",
        unit="ms",
    ),
    _integer(
        "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL",
        default="500",
        low=0,
        since="2.29",
        unit="ms",
    ),
    _integer("NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE", default="5", low=0, since="2.29"),
    _integer("NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE", default="5", low=0, since="2.29"),
    _integer("NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX", default="5", low=0, since="2.29"),
)

_SOCKETS = (
    Variable("NCCL_SOCKET_IFNAME"),
    _word("NCCL_SOCKET_FAMILY", words=("AF_INET", "AF_INET6")),
    _integer("NCCL_SOCKET_RETRY_CNT", default="34", low=0, since="2.24"),
    _integer("NCCL_SOCKET_RETRY_SLEEP_MSEC", default="100", low=0, since="2.24", unit="ms"),
    _integer("NCCL_SOCKET_POLL_TIMEOUT_MSEC", default="0", low=0, since="2.28", unit="ms"),
    _integer("NCCL_SOCKET_NTHREADS", default="-2", low=1, high=16, since="2.4.8"),
    _integer("NCCL_NSOCKS_PERTHREAD", default="-2", low=1, high=64, since="2.4.8"),
    _integer("NCCL_SOCKET_RCVBUF", default="-1", low=-1, unit="bytes"),
    _integer("NCCL_SOCKET_SNDBUF", default="-1", low=-1, unit="bytes"),
    _integer("NCCL_SOCKET_MAGIC", low=0, since="2.29"),
)

_ANY = (
    Variable("NCCL_NET", since="2.10"),
    Variable("NCCL_NET_PLUGIN", since="2.11"),
    Variable(
        "NCCL_NET_GDR_LEVEL",
        kind=Kind.LEVEL,
        words=("LOC", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"),
        since="2.3.4",
    ),
    Variable("NCCL_IB_GDR_LEVEL", kind=Kind.LEVEL, removed="2.4", instead="NCCL_NET_GDR_LEVEL"),
    _flag("NCCL_NET_GDR_C2C", default="1", since="2.26", history=(("2.26", "0"), ("2.27", "1"))),
    _flag("NCCL_NET_GDR_READ", default="-2"),
    _flag("NCCL_GDR_FLUSH_DISABLE", default="0"),
    _flag("NCCL_NET_FORCE_FLUSH", default="0"),
    _flag("NCCL_NET_SHARED_BUFFERS", default="-2", since="2.8"),
    _flag("NCCL_NET_SHARED_COMMS", default="1", since="2.12"),
    _flag("NCCL_NET_DISABLE_INTRA", default="0"),
    _flag("NCCL_NET_OPTIONAL_RECV_COMPLETION", default="1"),
    Variable("NCCL_NET_MERGE_LEVEL", kind=Kind.LEVEL, words=("LOC", "PIX", "PXB", "PHB", "SYS")),
    _word("NCCL_NET_MERGE_POLICY", default="ALL", words=("ALL", "RAIL"), since="2.30.5"),
    Variable("NCCL_NET_FORCE_MERGE"),
    Variable("NCCL_NETDEVS_POLICY", default="AUTO", since="2.28"),
    _flag("NCCL_IGNORE_NET_MISMATCH", default="1", since="2.30"),
    _flag("NCCL_IGNORE_COLLNET_MISMATCH", default="0", since="2.30"),
    _flag("NCCL_OOB_NET_ENABLE", default="0", since="2.23"),
    Variable("NCCL_OOB_NET_IFNAME", since="2.23"),
    _flag("NCCL_DMABUF_ENABLE", default="1", since="2.13"),
    _integer("NCCL_UID_STAGGER_THRESHOLD", default="256", low=1, since="2.23"),
    _integer("NCCL_UID_STAGGER_RATE", default="7000", low=1, since="2.23"),
)

VARIABLES = (*_IB, *_SOCKETS, *_ANY)
