"""The rest of NCCL's variables (logs, RAS, launches, registration), PyTorch's and the OFI plugin's."""

from __future__ import annotations

from functools import partial

from collectives.nccl.variables import Kind, Variable

_integer = partial(Variable, kind=Kind.INTEGER)
_flag = partial(Variable, kind=Kind.INTEGER, low=0, high=1)
_word = partial(Variable, kind=Kind.WORD)
_bool = partial(Variable, kind=Kind.BOOL, unverified="which words PyTorch's parser of booleans takes")

DEBUG_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE", "ATTN")
SUBSYSTEMS = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY", "NVLS",
    "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip

_LOGS = (
    _word("NCCL_DEBUG", words=("NONE", *DEBUG_LEVELS)),
    Variable("NCCL_DEBUG_LEVELS", since="2.32"),
    Variable("NCCL_DEBUG_SUBSYS", default="INIT,BOOTSTRAP,ENV", since="2.3.4"),
    Variable("NCCL_DEBUG_FILE", since="2.2.12"),
    Variable("NCCL_DEBUG_TIMESTAMP_FORMAT", default="[%F %T] ", since="2.26"),
    Variable("NCCL_DEBUG_TIMESTAMP_LEVELS", default="WARN", since="2.26"),
    _integer("NCCL_WARN_ENABLE_DEBUG_INFO", default="0", low=0, high=1),
    _flag("NCCL_NVTX_DISABLE", default="0"),
    Variable("NCCL_PROFILER_PLUGIN"),
    _flag("NCCL_REPORT_CONNECT_PROGRESS", default="0"),
)

_RAS = (
    _flag("NCCL_RAS_ENABLE", default="1", since="2.24"),
    Variable("NCCL_RAS_ADDR", default="localhost:28028", since="2.24"),
    Variable("NCCL_RAS_TIMEOUT_FACTOR", kind=Kind.FLOAT, default="1", since="2.24"),
)

_LAUNCH = (
    Variable("NCCL_CONF_FILE", since="2.23"),
    Variable("NCCL_ENV_PLUGIN", since="2.28"),
    Variable("NCCL_NO_CACHE"),
    Variable("NCCL_COMM_ID"),
    Variable("NCCL_PSK", since="2.31", unverified="the version that brought it"),
    Variable("NCCL_GIN_PLUGIN", since="2.29.3"),
    Variable("NCCL_RMA_PLUGIN", since="2.30.7"),
    Variable("NCCL_PROXY_CPUSET"),
    Variable("NCCL_IBVERBS_LIB"),
    _flag("NCCL_COMM_BLOCKING", since="2.14"),
    _integer("NCCL_CONNECT_ROUND_MAX_PEERS", default="128", low=1),
    _flag("NCCL_RUNTIME_CONNECT", default="1", since="2.22"),
    _word("NCCL_LAUNCH_MODE", default="PARALLEL", words=("PARALLEL", "GROUP"), since="2.1", deprecated="2.9"),
    _flag("NCCL_LAUNCH_ORDER_IMPLICIT", default="0", since="2.26"),
    _flag("NCCL_LAUNCH_RACE_FATAL", default="1", since="2.26"),
    _flag("NCCL_IGNORE_CPU_AFFINITY", default="0", since="2.4.6"),
    _flag("NCCL_SET_THREAD_NAME", default="0", since="2.12"),
    _flag("NCCL_SET_STACK_SIZE", default="0", since="2.9"),
    _flag("NCCL_CHECKS_DISABLE", default="0", deprecated="2.2.12", instead="NCCL_CHECK_POINTERS"),
    _flag(
        "NCCL_CHECK_POINTERS",
        default="0",
        since="2.2.12",
        deprecated="2.29.7",
        instead="NCCL_CHECK_MODE=DEBUG_LOCAL",
    ),
    _word(
        "NCCL_CHECK_MODE", default="DEFAULT", words=("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"), since="2.29.7"
    ),
    _flag("NCCL_MEM_SYNC_DOMAIN", default="1", since="2.16"),
    _flag("NCCL_MULTI_RANK_GPU_ENABLE", default="0", since="2.30"),
    _flag("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", default="0"),
    _flag("NCCL_GRAPH_REGISTER", default="1", since="2.11"),
    _flag("NCCL_LOCAL_REGISTER", default="1", since="2.19"),
    _flag("NCCL_LEGACY_CUDA_REGISTER", default="0", since="2.24"),
    _flag("NCCL_WIN_ENABLE", default="1", since="2.27"),
    _flag("NCCL_GRAPH_MIXING_SUPPORT", default="1", since="2.13"),
    _flag("NCCL_GRAPH_STREAM_ORDERING", default="1", since="2.30"),
    _flag("NCCL_RMA_EAGER_INIT", default="0", since="2.31"),
    _flag("NCCL_IPC_USE_ABSTRACT_SOCKET", default="1", since="2.29"),
    _flag("NCCL_SYM_GIN_KERNELS_ENABLE", default="1", since="2.29"),
)

# PyTorch 2.14.1; the names without TORCH_ were the ones before 2.2.
_TORCH = (
    _integer("TORCH_NCCL_ASYNC_ERROR_HANDLING", default="3", low=0, high=3),
    _bool("TORCH_NCCL_BLOCKING_WAIT", default="0"),
    _integer("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", default="480", low=1, unit="s"),
    _bool("TORCH_NCCL_ENABLE_MONITORING", default="1"),
    _integer("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", default="15000", low=0, unit="ms"),
    _integer("TORCH_NCCL_COORD_CHECK_MILSEC", default="1000", low=1, unit="ms"),
    _bool("TORCH_NCCL_DUMP_ON_TIMEOUT", default="1"),
    _integer("TORCH_FR_BUFFER_SIZE", default="2000", low=0),
    _integer("TORCH_NCCL_TRACE_BUFFER_SIZE", default="2000", low=0),
    Variable("TORCH_FR_DUMP_TEMP_FILE"),
    Variable("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
    Variable("TORCH_NCCL_DEBUG_INFO_PIPE_FILE"),
    _bool("TORCH_NCCL_DESYNC_DEBUG", default="0"),
    _bool("TORCH_NCCL_ENABLE_TIMING", default="0"),
    _bool("TORCH_NCCL_NAN_CHECK", default="0"),
    _bool("TORCH_NCCL_TRACE_CPP_STACK", default="0"),
    _bool("TORCH_FR_CPP_STACK", default="0"),
    _bool("TORCH_NCCL_RETHROW_CUDA_ERRORS", default="1"),
    _bool("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", default="1"),
    _bool("TORCH_NCCL_PROPAGATE_ERROR", default="0"),
    _bool("TORCH_NCCL_EXTRA_DUMP_ON_EXEC", default="0"),
    _bool("TORCH_NCCL_CUDA_EVENT_CACHE", default="1"),
    _bool("TORCH_NCCL_CUDA_EVENT_CACHE_DISABLE", default="0"),
    _integer("TORCH_NCCL_RANKS_PER_ROOT", low=0),
    _bool("TORCH_NCCL_HIGH_PRIORITY", default="0"),
    _bool("TORCH_NCCL_AVOID_RECORD_STREAMS", default="0"),
    _bool("TORCH_NCCL_BCAST_UNIQUEID", default="1"),
    _bool("TORCH_NCCL_USE_COMM_NONBLOCKING", default="0"),
    _integer("TORCH_NCCL_NONBLOCKING_TIMEOUT", low=0, unit="s"),
    _bool("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", default="0"),
    Variable(
        "NCCL_ASYNC_ERROR_HANDLING", deprecated="PyTorch 2.2", instead="TORCH_NCCL_ASYNC_ERROR_HANDLING"
    ),
    Variable("NCCL_BLOCKING_WAIT", deprecated="PyTorch 2.2", instead="TORCH_NCCL_BLOCKING_WAIT"),
    Variable("NCCL_DESYNC_DEBUG", deprecated="PyTorch 2.2", instead="TORCH_NCCL_DESYNC_DEBUG"),
    Variable("NCCL_ENABLE_TIMING", deprecated="PyTorch 2.2", instead="TORCH_NCCL_ENABLE_TIMING"),
)

_OFI = (
    _word("OFI_NCCL_TUNER_TYPE", default="REGION", words=("INTERNAL", "REGION", "MODEL")),
    _integer("OFI_NCCL_TUNER_NUM_CHANNELS", default="8", low=1),
    _integer("OFI_NCCL_TUNER_NET_LATENCY", default="20", low=0),
    _integer("OFI_NCCL_TUNER_NET_COMP_OVERHEAD", default="3", low=0),
)

VARIABLES = (*_LOGS, *_RAS, *_LAUNCH, *_TORCH, *_OFI)
