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
order = "tp-cp-ep-dp-pp"    # leftmost varies fastest from rank to rank, as in Megatron-LM
sequence_parallel = false   # activations are split over tp between its blocks
virtual_stages = 1          # chunks of the model on each pipeline stage
zero = 0                    # 0 all-reduce, 1 and 2 reduce-scatter and all-gather, 3 gather twice a micro batch
micro_batches = 1           # of each replica in a step; with [model] they follow from global_batch
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
[channels]                  # by kind: parallel rings or trees; one for each member in a domain where left out
[connections]               # by kind: QPs or TCP connections of an edge
[compute_us]                # by kind: computation in a step that runs beside its phases
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from collectives.job.layout import DEFAULT_ORDER, FRAMEWORKS, KINDS, Layout
from collectives.job.model import ModelShape, Volume, volumes
from collectives.schedules import BUILDERS, Op
from nettune.errors import InputError

BACKENDS = ("gloo", "nccl")
SENDING = ("tp", "cp", "ep", "pp", "dp", "edp")
"""Kinds that have bytes, in the order of their phases."""
_DEFAULT_ALGORITHM = {"ep": "pairwise", "pp": "p2p"}
_OWN_ALGORITHMS = {"ep": ["pairwise"], "pp": ["p2p"], "cp": ["ring", "all_to_all"]}
_MAX_RANKS = 2**20


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
        for key in (*KINDS, "virtual_stages", "micro_batches", "domain"):
            if getattr(self, key) < 1:
                raise InputError(f"job: {key} must be a whole number of at least 1, not {getattr(self, key)}")
        for kind in SENDING:
            if self.bytes_of(kind) < 0:
                raise InputError(f"job: {kind}_bytes is negative")
            if self.model and self.bytes_of(kind):
                raise InputError(f"job: {kind}_bytes and [model] are both given; the model gives the bytes")
        if self.ranks > _MAX_RANKS:
            raise InputError(f"job: tp x cp x pp x dp = {self.ranks} ranks are more than {_MAX_RANKS}")
        for key, known in (("framework", FRAMEWORKS), ("backend", BACKENDS), ("zero", (0, 1, 2, 3))):
            if getattr(self, key) not in known:
                words = ", ".join(map(str, known))
                raise InputError(f"job: {key} {getattr(self, key)!r} is not known; known: {words}")
        for key in ("algorithm", "channels", "connections", "compute_us", "overlap"):
            for kind in getattr(self, key):
                if kind not in SENDING:
                    raise InputError(f"job: {key} of {kind!r}: no such kind; known: {', '.join(SENDING)}")
        for key, least in (("channels", 1), ("connections", 1), ("compute_us", 0)):
            for kind, value in getattr(self, key).items():
                if value < least:
                    raise InputError(f"job: {key} of {kind} must be at least {least}, not {value}")
        self._refuse_pipeline()
        self._refuse_experts()
        self._refuse_algorithms()
        self.layout, self.volumes  # noqa: B018 - made here, so that what does not fit is refused here

    def _refuse_pipeline(self) -> None:
        if self.virtual_stages > 1 and self.pp == 1:
            raise InputError(f"job: virtual_stages = {self.virtual_stages} needs pp of at least 2")
        if self.framework == "deepspeed" and self.pp > 1 and self.zero > 1:
            raise InputError("job: DeepSpeed has no zero 2 or 3 with pp above 1")

    def _refuse_algorithms(self) -> None:
        halves = (Op.REDUCE_SCATTER, Op.ALL_GATHER)
        reduce = halves if self.zero else (Op.ALL_REDUCE,)
        needed = {"tp": halves if self.sequence_parallel else (Op.ALL_REDUCE,), "dp": reduce, "edp": reduce}
        for kind, name in self.algorithm.items():
            # Domains are the only hierarchy here, and the rest of these needs options that a job does not have.
            builders = [algorithm for algorithm, _ in BUILDERS if algorithm not in {"hierarchical", "hybrid"}]
            known = _OWN_ALGORITHMS.get(kind) or [
                one for one in dict.fromkeys(builders) if all((one, op) in BUILDERS for op in needed[kind])
            ]
            if name not in known:
                raise InputError(f"job: algorithm of {kind} is one of {', '.join(known)}, not {name!r}")

    def _refuse_experts(self) -> None:
        tokens = self.expert_tokens
        if tokens and (len(tokens) % self.ep or min(tokens) < 0 or not sum(tokens)):
            raise InputError(
                f"job: expert_tokens needs a count of 0 or more for each expert, a multiple of ep = {self.ep} of them"
            )
        experts = self.model.experts if self.model else 0
        if tokens and experts and len(tokens) != experts:
            raise InputError(f"job: expert_tokens has {len(tokens)} entries for {experts} experts")
        if self.model and experts % self.ep:
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
        return Layout.of(self.framework, self.order, sizes, self.expert_tp)

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
        return {**given, "tp gathers": given["tp"], "dp params": given["dp"], "edp params": given["edp"]}

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
