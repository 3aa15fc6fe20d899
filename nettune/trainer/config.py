"""What is trained: the sizes of the reference GPT and of its batch, checked before anything starts.

No torch here: placement, projection and reports ask for parameters, gradient bytes and FLOPs without loading it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

FP32_BYTES = 4
_MAX_WHOLE = 2**31
_MAX_REAL = 1e6


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Sizes of a decoder-only transformer: RMSNorm before each block, RoPE, causal attention, SwiGLU, no biases.

    The embedding and the output head are untied: two matrices of (vocab, dim).

    Attributes:
        layers: number of blocks (L).
        dim: width of the residual stream.
        heads: query heads (H); the head size Q is dim / heads and must be even for RoPE.
        kv_heads: key and value heads; fewer than `heads` is grouped-query attention.
        ffn_dim: width of each of the three SwiGLU matrices.
        vocab: number of tokens; 256 is one token a byte.
        seq_len: tokens of one sequence (T).
    """

    layers: int
    dim: int
    heads: int
    kv_heads: int
    ffn_dim: int
    vocab: int = 256
    seq_len: int = 128

    def __post_init__(self) -> None:
        _require_whole_positive(self)
        if self.dim % self.heads or (self.dim // self.heads) % 2:
            raise InputError(
                f"model: dim {self.dim} must be an even multiple of heads {self.heads} (RoPE rotates pairs)"
            )
        if self.heads % self.kv_heads:
            raise InputError(f"model: heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")

    @classmethod
    def from_depth(cls, depth: int, *, vocab: int = 256, seq_len: int = 128) -> GPTConfig:
        """The family behind the one dial `depth`: dim = 32 depth, heads of 32, SwiGLU of 8/3 dim, full multi-head.

        Raises:
            InputError: depth, or a size that follows from it, is out of range.
        """
        if not _is_whole(depth) or not 1 <= depth < _MAX_WHOLE:
            raise InputError(f"model: depth must be a whole number from 1 to 2^31 - 1, not {depth!r}")
        dim = 32 * depth
        # The next multiple of 64 keeps the matrix kernels on full vector registers.
        ffn_dim = 64 * math.ceil(8 * dim / 3 / 64)
        return cls(
            layers=depth, dim=dim, heads=depth, kv_heads=depth, ffn_dim=ffn_dim, vocab=vocab, seq_len=seq_len
        )

    @property
    def head_dim(self) -> int:
        """Size of one attention head (Q)."""
        return self.dim // self.heads

    @property
    def matmul_params(self) -> int:
        """Parameters that a token is multiplied with: projections, SwiGLU and the output head."""
        attention = 2 * self.dim * self.dim + 2 * self.dim * self.kv_heads * self.head_dim
        return self.layers * (attention + 3 * self.dim * self.ffn_dim) + self.vocab * self.dim

    @property
    def embedding_params(self) -> int:
        """Parameters of the input embedding, which is looked up and not multiplied."""
        return self.vocab * self.dim

    @property
    def norm_params(self) -> int:
        """Gains of the two norms of each block and of the last one."""
        return (2 * self.layers + 1) * self.dim

    @property
    def params(self) -> int:
        """All parameters (N)."""
        return self.matmul_params + self.embedding_params + self.norm_params

    @property
    def gradient_bytes(self) -> int:
        """Bytes that one all-reduce of the fp32 gradients moves into the network layer of each rank."""
        return FP32_BYTES * self.params


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training job: the model, the batch of each rank, the optimiser, DDP's bucket size.

    Attributes:
        model: sizes of the model.
        batch_per_rank: sequences that one rank computes in one step.
        lr: AdamW's learning rate, constant.
        seed: seeds the weights and the data; the same seed gives the same run.
        bucket_cap_mib: DDP cuts the gradients into buckets of about this many MiB; each is one all-reduce.
    """

    model: GPTConfig = field(default_factory=lambda: GPTConfig.from_depth(4))
    batch_per_rank: int = 4
    lr: float = 3e-3
    seed: int = 0
    bucket_cap_mib: float = 1.0

    def __post_init__(self) -> None:
        _require_whole_positive(self, "seed")
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise InputError(f"train: seed must be a whole number from 0 to 2^63 - 1, not {self.seed!r}")
        for name in ("lr", "bucket_cap_mib"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MAX_REAL:
                raise InputError(f"train: {name} must be a number above 0 and below 1e6, not {value!r}")

    @property
    def tokens_per_rank(self) -> int:
        """Tokens that one rank computes in one step."""
        return self.batch_per_rank * self.model.seq_len

    def with_changes(self, **changes: Any) -> TrainConfig:
        """A copy with some fields replaced, checked again."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The JSON form that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrainConfig:
        """Build from a table of a file or a message; `model` holds explicit sizes, or `depth` in place of them.

        Raises:
            InputError: an unknown key, a missing size, or a value out of range.
        """
        known = {item.name for item in fields(cls)}
        values = dict(_checked_table(data, known, "train"))
        if "model" in values and not isinstance(values["model"], GPTConfig):
            values["model"] = _model_from_json(values["model"])
        return cls(**values)


def _model_from_json(data: Any) -> GPTConfig:
    names = {item.name for item in fields(GPTConfig)}
    table = _checked_table(data, names | {"depth"}, "model")
    if "depth" in table:
        clash = sorted(set(table) & {"layers", "dim", "heads", "kv_heads", "ffn_dim"})
        if clash:
            raise InputError(
                f"model: depth sets {', '.join(clash)} already; give depth or the sizes, not both"
            )
        return GPTConfig.from_depth(**table)
    missing = sorted({"layers", "dim", "heads", "kv_heads", "ffn_dim"} - set(table))
    if missing:
        raise InputError(f"model: {', '.join(missing)} missing; give them or depth")
    return GPTConfig(**table)


def _checked_table(data: Any, known: set[str], where: str) -> dict[str, Any]:
    if not hasattr(data, "keys"):
        raise InputError(f"{where}: expected a table of settings, not {data!r}")
    table = {str(key): data[key] for key in data}
    unknown = sorted(set(table) - known)
    if unknown:
        raise InputError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
    return table


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require_whole_positive(config: GPTConfig | TrainConfig, *exempt: str) -> None:
    where = "model" if isinstance(config, GPTConfig) else "train"
    for item in fields(config):
        # Annotations are strings here (PEP 563), so the declared type is compared by its name.
        if item.type != "int" or item.name in exempt:
            continue
        value = getattr(config, item.name)
        if not _is_whole(value) or not 1 <= value < _MAX_WHOLE:
            raise InputError(f"{where}: {item.name} must be a whole number from 1 to 2^31 - 1, not {value!r}")


DEMO_CONFIG = TrainConfig()
"""The demo's job: 0.92 M parameters, 3.5 MiB of gradients, one thread a rank."""
