"""What a job is made of: parallel sizes, the order of ranks, bytes of each kind; `job.toml` and back to groups.

name = "gpt"
tp = 1                      # tensor parallel ranks
pp = 4                      # pipeline stages
dp = 2                      # replicas; `ranks = 8` may stand in place of it
order = "tp-dp-pp"          # leftmost varies fastest from rank to rank, as in Megatron-LM
dp_bytes = "4M"             # gradients that each data-parallel group all-reduces in a step
pp_bytes = "1M"             # activations between two neighbouring stages in a step, each way
tp_bytes = "0"              # what each tensor-parallel group all-reduces in a step
backend = "gloo"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nettune.errors import InputError
from nettune.tables import explain, line_named, line_of, read_toml
from nettune.units import parse_size

KINDS = ("tp", "dp", "pp")
BACKENDS = ("gloo", "nccl")
DEFAULT_ORDER = "tp-dp-pp"
_MAX_RANKS = 2**20


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A job's parallelism and the bytes of one step.

    Attributes:
        tp, pp, dp: sizes; their product is the number of ranks.
        order: the three kinds, leftmost fastest.
        dp_bytes: gradients that each data-parallel group all-reduces per step.
        pp_bytes: bytes between each rank and its neighbour in the next stage, forward and the same backward.
        tp_bytes: bytes that each tensor-parallel group all-reduces per step.
        backend: whose rings are meant: `gloo` or `nccl`.
        name: for tables.

    Raises:
        InputError: a size below 1, negative bytes, an order that is not the three kinds, an unknown backend.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    order: str = DEFAULT_ORDER
    dp_bytes: int = 0
    pp_bytes: int = 0
    tp_bytes: int = 0
    backend: str = "gloo"
    name: str = "job"

    def __post_init__(self) -> None:
        for kind in KINDS:
            if self.size(kind) < 1:
                raise InputError(f"job: {kind} must be a whole number of at least 1, not {self.size(kind)}")
            if self.bytes_of(kind) < 0:
                raise InputError(f"job: {kind}_bytes is negative")
        if self.ranks > _MAX_RANKS:
            raise InputError(f"job: tp x pp x dp = {self.ranks} ranks are more than {_MAX_RANKS}")
        if sorted(self.order.split("-")) != sorted(KINDS):
            raise InputError(
                f"job: order {self.order!r} must hold each of {', '.join(KINDS)} once, like {DEFAULT_ORDER}"
            )
        if self.backend not in BACKENDS:
            raise InputError(f"job: backend {self.backend!r} is not known; known: {', '.join(BACKENDS)}")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.tp * self.pp * self.dp

    def size(self, kind: str) -> int:
        """Ranks in each group of a kind."""
        return int(getattr(self, kind))

    def bytes_of(self, kind: str) -> int:
        """Bytes per step of each group of a kind."""
        return int(getattr(self, f"{kind}_bytes"))

    def groups(self, kind: str) -> list[list[int]]:
        """Rank lists of all groups of a kind, each ascending.

        Mixed radix as in Megatron-LM (megatron/core/parallel_state.py, generate_masked_orthogonal_rank_groups): the
        leftmost kind of `order` varies fastest. Equal to torch's DeviceMesh with the kinds in reversed order.

        Raises:
            InputError: no such kind.
        """
        if kind not in KINDS:
            raise InputError(f"job: {kind!r} is no kind of group; known: {', '.join(KINDS)}")
        slowest_first = self.order.split("-")[::-1]
        mesh = np.arange(self.ranks).reshape([self.size(name) for name in slowest_first])
        table = np.moveaxis(mesh, slowest_first.index(kind), -1).reshape(-1, self.size(kind))
        groups: list[list[int]] = table.tolist()
        return groups

    def to_json(self) -> dict[str, Any]:
        """The table that `make_job` reads; bytes as whole numbers."""
        return dict(vars(self))


def make_job(values: Mapping[str, Any], file: Path | str | None = None, text: str = "") -> JobSpec:
    """A job from plain values; `file` and `text` say where they came from.

    Raises:
        InputError: an unknown key, a wrong type or size, sizes that contradict `ranks`; with the line if known.
    """
    from pydantic import BaseModel, ConfigDict, Field, ValidationError

    class JobFile(BaseModel):
        """The table of `job.toml`."""

        model_config = ConfigDict(extra="forbid", strict=True)

        name: str = "job"
        ranks: int | None = Field(default=None, ge=1)
        tp: int = Field(default=1, ge=1)
        pp: int = Field(default=1, ge=1)
        dp: int | None = Field(default=None, ge=1)
        order: str = DEFAULT_ORDER
        dp_bytes: str | int = 0
        pp_bytes: str | int = 0
        tp_bytes: str | int = 0
        backend: str = "gloo"

    try:
        read = JobFile.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        line = line_of(str(first["loc"][0]), text)
        raise InputError(explain(first, JobFile.model_fields), file, line) from None
    try:
        return JobSpec(
            tp=read.tp,
            pp=read.pp,
            dp=_replicas(read.ranks, read.tp * read.pp, read.dp),
            order=read.order,
            dp_bytes=_size("dp_bytes", read.dp_bytes),
            pp_bytes=_size("pp_bytes", read.pp_bytes),
            tp_bytes=_size("tp_bytes", read.tp_bytes),
            backend=read.backend,
            name=read.name,
        )
    except InputError as error:
        keys = ("tp_bytes", "pp_bytes", "dp_bytes", "order", "backend", "ranks")
        raise InputError(str(error), file, line_named(str(error), keys, text)) from None


def load_job(path: Path | str) -> JobSpec:
    """Read `job.toml`.

    Raises:
        InputError: `FILE:LINE: what is wrong` (the line where it can be found).
    """
    values, text = read_toml(path)
    return make_job(values, path, text)


def _replicas(ranks: int | None, per_replica: int, dp: int | None) -> int:
    if ranks is None:
        return 1 if dp is None else dp
    if ranks % per_replica or (dp is not None and ranks != per_replica * dp):
        sizes = f"tp x pp = {per_replica}" if dp is None else f"tp x pp x dp = {per_replica * dp}"
        raise InputError(f"job: ranks = {ranks} does not fit {sizes}")
    return ranks // per_replica


def _size(key: str, value: str | int) -> int:
    if isinstance(value, int):
        return value
    try:
        return 0 if value.strip() == "0" else parse_size(value)
    except InputError as error:
        raise InputError(f"job: {key}: {error}") from None
