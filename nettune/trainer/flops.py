"""Model FLOPs of one training token, by a named convention.

Tools differ in what they count, by up to 27% at 8k tokens and 2.3 times at 131k for the same run, so a FLOP count
here always carries the name and the formula of its convention. A multiply-add is 2 FLOPs; forward plus backward is
three times the forward; recomputed activations are never counted (that would be HFU, not MFU).

Symbols: N all parameters, N_mm those of matrix multiplications (with the output head), N_emb the input embedding,
L layers, H heads, Q head size, T sequence length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nettune.errors import InputError
from nettune.trainer.config import GPTConfig


@dataclass(frozen=True)
class Convention:
    """A way to count.

    Attributes:
        name: key in `CONVENTIONS`.
        formula: the formula in the symbols of this module.
        source: where it is from.
        per_token: FLOPs of one token, forward and backward.
    """

    name: str
    formula: str
    source: str
    per_token: Callable[[GPTConfig], int]


@dataclass(frozen=True)
class Flops:
    """FLOPs with the convention that they were counted by.

    Attributes:
        convention: name of the convention.
        formula: its formula.
        per_token: FLOPs of one token.
        tokens_per_step: tokens of one step of the whole job.
    """

    convention: str
    formula: str
    per_token: int
    tokens_per_step: int

    @property
    def per_step(self) -> int:
        """FLOPs of one step of the whole job."""
        return self.per_token * self.tokens_per_step

    def to_json(self) -> dict[str, Any]:
        """The JSON form; units are FLOPs."""
        return {
            "convention": self.convention,
            "formula": self.formula,
            "flops_per_token": self.per_token,
            "tokens_per_step": self.tokens_per_step,
            "flops_per_step": self.per_step,
        }


def _attention_core(config: GPTConfig) -> int:
    """12 L H Q T: the scores and their product with the values, each 2 H Q T a token, times 3; no causal saving."""
    return 12 * config.layers * config.heads * config.head_dim * config.seq_len


_ALL = (
    Convention(
        "megatron",
        "6 N_mm + 6 L H Q T (causal attention halved, output head included)",
        "Megatron-LM, megatron/training/training.py, num_floating_point_operations",
        lambda c: 6 * c.matmul_params + _attention_core(c) // 2,
    ),
    Convention(
        "megascale",
        "6 N_mm + 12 L H Q T (full attention, output head included)",
        "72 L h^2 (1 + s/6h + V/12Lh): MegaScale, NSDI 2024, table 2; Narayanan et al., arXiv 2104.04473, without recompute",
        lambda c: 6 * c.matmul_params + _attention_core(c),
    ),
    Convention(
        "torchtitan",
        "6 (N - N_emb) + 12 L H Q T (full attention)",
        "torchtitan, torchtitan/models/utils.py",
        lambda c: 6 * (c.params - c.embedding_params) + _attention_core(c),
    ),
    Convention(
        "palm",
        "6 N + 12 L H Q T (full attention, embedding included)",
        "PaLM, arXiv 2204.02311, appendix B; nanoGPT, model.py, estimate_mfu",
        lambda c: 6 * c.params + _attention_core(c),
    ),
    Convention(
        "6n",
        "6 N (no attention core)",
        "Kaplan et al., arXiv 2001.08361, section 2.1",
        lambda c: 6 * c.params,
    ),
)
CONVENTIONS = {convention.name: convention for convention in _ALL}
DEFAULT_CONVENTION = "megatron"


def count_flops(config: GPTConfig, tokens_per_step: int, convention: str = DEFAULT_CONVENTION) -> Flops:
    """FLOPs of a step over `tokens_per_step` tokens of the whole job.

    Raises:
        InputError: no such convention, or fewer than one token.
    """
    if convention not in CONVENTIONS:
        raise InputError(f"FLOP convention {convention!r} is unknown; choose one of {', '.join(CONVENTIONS)}")
    if tokens_per_step < 1:
        raise InputError(f"a step needs at least one token, not {tokens_per_step}")
    chosen = CONVENTIONS[convention]
    return Flops(chosen.name, chosen.formula, chosen.per_token(config), tokens_per_step)
