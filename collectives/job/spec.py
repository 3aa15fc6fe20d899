"""`JobSpec`: a job's parallelism, the bytes of one step and how they are sent.

`job.toml` has these keys; all but sizes and bytes have defaults.

name = "gpt"
framework = "megatron"      # or torchtitan, deepspeed: what it refuses, nettune refuses
tp = 8                      # tensor parallel ranks
cp = 1                      # context parallel ranks
ep = 1                      # expert parallel ranks, out of dp x cp (x tp where etp is 1)
etp = 8                     # tensor parallel ranks of an expert; tp where left out
pp = 8                      # pipeline stages
dp = 2                      # replicas of dense layers; `ranks = 128` may stand in place of it
dp_replicate = 1            # copies of the states that zero shards over dp (HSDP): 2 shards each over half of the replicas
order = "tp-cp-ep-dp-pp"    # leftmost varies fastest from rank to rank, as in Megatron-LM
sequence_parallel = false   # activations are split over tp between its blocks
virtual_stages = 1          # chunks of the model on each pipeline stage
zero = 0                    # 0 all-reduce, 1 and 2 reduce-scatter and all-gather, 3 gather twice a micro batch
micro_batches = 1           # of each replica in a step; with [model] global_batch says it
domain = 8                  # consecutive ranks that reach each other without the network: a host, an NVL72 rack
pxn = false                 # all-to-all leaves through the NIC of the receiver's place in its domain
backend = "nccl"            # whose rings: nccl sends to the next rank, gloo to the one before
overlap = ["dp"]            # kinds that run beside the rest of the step instead of after it
tp_bytes = "0"              # what each tensor-parallel group all-reduces in a step
cp_bytes = "0"              # what each rank passes on (ring) or sends in all (all-to-all) among its cp group in a step
ep_bytes = "0"              # what each rank sends to experts in a step, itself among them; as much comes back
pp_bytes = "1M"             # activations between two neighbouring stages in a step, each way, for each virtual stage
dp_bytes = "4M"             # gradients of a rank's dense layers
edp_bytes = "0"             # gradients of a rank's experts
expert_tokens = [3, 1]      # tokens of each expert, in any unit; the same for all where left out
[model]                     # in place of bytes: see collectives.job.model.ModelShape
[algorithm]                 # by kind: tp, cp, ep, dp, edp = "ring", "double_tree", ...; cp also "all_to_all"
[channels]                  # by kind: parallel rings or trees, up to 64; one for each member in a domain where left out
[connections]               # by kind: QPs or TCP connections of an edge, up to 128
[compute_us]                # by kind: computation in a step that runs beside its phases
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from collectives.job.layout import DEFAULT_ORDER, FRAMEWORKS, KINDS, Layout
from collectives.job.model import ModelShape, Volume, volumes
from collectives.schedules import BUILDERS, Op, needs_options
from nettune.errors import InputError

BACKENDS = ("gloo", "nccl")
SENDING = ("tp", "cp", "ep", "pp", "dp", "edp")
"""Kinds that have bytes, in the order of their phases."""
_DEFAULT_ALGORITHM = {"ep": "pairwise", "pp": "p2p"}
_OWN_ALGORITHMS = {"ep": ["pairwise"], "pp": ["p2p"], "cp": ["ring", "all_to_all"]}
_MAX_RANKS = 2**20
_MAX_BYTES = 2**60
_MAX_NAME = 100
_MOST = {"virtual_stages": 4096, "micro_batches": 2**20, "domain": _MAX_RANKS}
_LIMITS: dict[str, tuple[float, float]] = {
    "channels": (1, 64),
    "connections": (1, 128),
    "compute_us": (0, 1e15),
}
"""Channels: MAXCHANNELS of NCCL since 2.25. Connections: NCCL_IB_QPS_PER_CONNECTION is 1 to 128."""


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A job; the module's text says what each attribute means.

    Attributes:
        etp: 0 means tp.
        expert_tokens: empty means that all experts get the same.
        model: gives the bytes and the micro batches; None where bytes are given.
        algorithm, channels, connections, compute_us: by kind of `SENDING`.

    Raises:
        InputError: sizes, bytes, orders and names that do not fit, or that the framework refuses.
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 0
    pp: int = 1
    dp: int = 1
    dp_replicate: int = 1
    framework: str = "megatron"
    order: str = DEFAULT_ORDER
    sequence_parallel: bool = False
    virtual_stages: int = 1
    zero: int = 0
    micro_batches: int = 1
    domain: int = 1
    pxn: bool = False
    backend: str = "gloo"
    overlap: tuple[str, ...] = ()
    tp_bytes: int = 0
    cp_bytes: int = 0
    ep_bytes: int = 0
    pp_bytes: int = 0
    dp_bytes: int = 0
    edp_bytes: int = 0
    expert_tokens: tuple[float, ...] = ()
    model: ModelShape | None = None
    algorithm: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, int] = field(default_factory=dict)
    connections: Mapping[str, int] = field(default_factory=dict)
    compute_us: Mapping[str, float] = field(default_factory=dict)
    name: str = "job"

    def __post_init__(self) -> None:
        if not (0 < len(self.name) <= _MAX_NAME and self.name.isprintable()):
            raise InputError(
                f"job: name must be 1 to {_MAX_NAME} printable characters, not {self.name!r:.60}"
            )
        for key in (*KINDS, "dp_replicate", *_MOST):
            value = getattr(self, key)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"job: {key} must be a whole number of at least 1, not {value!r:.60}")
            if value > _MOST.get(key, value):
                raise InputError(f"job: {key} = {value} is more than {_MOST[key]}")
        if self.ranks > _MAX_RANKS:
            raise InputError(f"job: tp x cp x pp x dp = {self.ranks} ranks are more than {_MAX_RANKS}")
        for kind in SENDING:
            value = getattr(self, f"{kind}_bytes")
            if isinstance(value, int) and value < 0:
                raise InputError(f"job: {kind}_bytes is negative")
            if not isinstance(value, int) or not 0 <= value <= _MAX_BYTES:
                raise InputError(
                    f"job: {kind}_bytes must be a whole number from 0 to 2^60, not {value!r:.60}"
                )
            if self.model and value:
                raise InputError(f"job: {kind}_bytes and [model] are both given; the model gives the bytes")
        if self.model and self.micro_batches > 1:
            raise InputError("job: micro_batches and [model] are both given; [model] has global_batch for it")
        for key, known in (("framework", FRAMEWORKS), ("backend", BACKENDS), ("zero", (0, 1, 2, 3))):
            if getattr(self, key) not in known:
                words = ", ".join(map(str, known))
                raise InputError(f"job: {key} {getattr(self, key)!r} is not known; known: {words}")
        for key in ("algorithm", "channels", "connections", "compute_us", "overlap"):
            for kind in getattr(self, key):
                if kind not in SENDING:
                    raise InputError(f"job: {key} of {kind!r}: no such kind; known: {', '.join(SENDING)}")
        for key, (low, high) in _LIMITS.items():
            for kind, value in getattr(self, key).items():
                if not low <= value <= high:
                    raise InputError(f"job: {key} of {kind} must be {low:g} to {high:g}, not {value}")
        self._refuse_pipeline()
        self._refuse_experts()
        self._refuse_algorithms()
        self.layout, self.volumes  # noqa: B018 - made here, so that what does not fit is refused here

    def _refuse_pipeline(self) -> None:
        if self.virtual_stages > 1 and self.pp == 1:
            raise InputError(f"job: virtual_stages = {self.virtual_stages} needs pp of at least 2")
        if self.framework == "deepspeed" and self.pp > 1 and self.zero > 1:
            raise InputError("job: DeepSpeed has no zero 2 or 3 with pp above 1")
        if self.dp_replicate > 1 and not self.zero:
            raise InputError(
                f"job: dp_replicate = {self.dp_replicate} needs zero of 1 to 3: it counts copies of what zero shards"
            )

    def _refuse_algorithms(self) -> None:
        halves = (Op.REDUCE_SCATTER, Op.ALL_GATHER)
        copied: tuple[Op, ...] = (Op.ALL_REDUCE,) if self.dp_replicate > 1 or not self.zero else ()
        reduce = (*halves, *copied) if self.zero else copied
        needed = {"tp": halves if self.sequence_parallel else (Op.ALL_REDUCE,), "dp": reduce, "edp": reduce}
        for kind, name in self.algorithm.items():
            # A job has no options of schedules; domains are its only hierarchy.
            builders = [one for one, op in BUILDERS if not needs_options(one, op)]
            known = _OWN_ALGORITHMS.get(kind) or [
                one for one in dict.fromkeys(builders) if all((one, op) in BUILDERS for op in needed[kind])
            ]
            if name not in known:
                raise InputError(f"job: algorithm of {kind} is one of {', '.join(known)}, not {name!r}")

    def _refuse_experts(self) -> None:
        tokens = self.expert_tokens
        if tokens and (len(tokens) % self.ep or min(tokens) < 0 or not 0 < sum(tokens) < inf):
            raise InputError(
                f"job: expert_tokens needs a count of 0 or more for each expert, a multiple of ep = {self.ep} of them"
            )
        experts = self.model.experts if self.model else 0
        if tokens and experts and len(tokens) != experts:
            raise InputError(f"job: expert_tokens has {len(tokens)} entries for {experts} experts")
        if self.model and not experts and (tokens or self.ep > 1):
            raise InputError(
                f"job: ep = {self.ep} and expert_tokens are for experts; give model experts or leave them out"
            )
        if experts % self.ep:
            raise InputError(f"job: model experts = {experts} is no multiple of ep = {self.ep}")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def expert_tp(self) -> int:
        """Tensor parallel ranks of an expert."""
        return self.etp or self.tp

    @cached_property
    def layout(self) -> Layout:
        """Who is in a group with whom."""
        sizes = {kind: self.size(kind) for kind in KINDS}
        return Layout.of(self.framework, self.order, sizes, self.expert_tp, self.dp_replicate)

    def size(self, kind: str) -> int:
        """Ranks in each group of one of `KINDS`."""
        return int(getattr(self, kind))

    def bytes_of(self, kind: str) -> int:
        """Bytes that were given for a kind of `SENDING`."""
        return int(getattr(self, f"{kind}_bytes"))

    def algorithm_of(self, kind: str) -> str:
        """Algorithm of a kind."""
        return self.algorithm.get(kind, _DEFAULT_ALGORITHM.get(kind, "ring"))

    @cached_property
    def volumes(self) -> dict[str, Volume]:
        """Bytes of a step by kind, from the model or as given; see `collectives.job.model.volumes` for the keys."""
        if self.model:
            return volumes(self, self.model)
        given = {kind: Volume.alike(self.bytes_of(kind), self.pp) for kind in SENDING}
        own = {"tp gathers": given["tp"], "dp params": given["dp"], "edp params": given["edp"]}
        return {**given, **own, "etp": Volume.alike(0, self.pp), "embedding": Volume.alike(0, self.pp)}

    @property
    def batches(self) -> int:
        """Micro batches of each replica in a step."""
        return self.model.micro_batches(self.dp) if self.model else self.micro_batches

    def groups(self, kind: str) -> list[list[int]]:
        """Rank lists of all groups of a kind, each ascending.

        Raises:
            InputError: no such kind.
        """
        groups: list[list[int]] = self.layout.groups(kind).tolist()
        return groups

    def to_json(self) -> dict[str, Any]:
        """The table that `make_job` reads; bytes as whole numbers."""
        table = {
            key: dict(value)
            if isinstance(value, Mapping)
            else list(value)
            if isinstance(value, tuple)
            else value
            for key, value in vars(self).items()
            if key in self.__dataclass_fields__
        }
        return table | {"model": None if self.model is None else dict(vars(self.model))}
