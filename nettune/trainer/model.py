"""The reference GPT in plain PyTorch: bytes in, logits of the next byte out.

Shapes in comments and docstrings: B sequences, T tokens, D = dim, H query heads, K key/value heads, Q = head_dim,
F = ffn_dim, V = vocab.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name that PyTorch code reads
from torch import Tensor, nn

from nettune.trainer.config import GPTConfig

_ROPE_BASE = 10_000.0
_INIT_STD = 0.02


class Attention(nn.Module):
    """Causal self-attention with rotary positions and, where kv_heads < heads, grouped queries."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        kv_width = config.kv_heads * config.head_dim
        self.to_query = nn.Linear(config.dim, config.dim, bias=False)
        self.to_key = nn.Linear(config.dim, kv_width, bias=False)
        self.to_value = nn.Linear(config.dim, kv_width, bias=False)
        self.to_output = nn.Linear(config.dim, config.dim, bias=False)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """(B, T, D) and the cosines and sines of (T, Q/2) to (B, T, D)."""
        batch, length, width = x.shape
        query = (
            self.to_query(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        )  # (B, H, T, Q)
        key = self.to_key(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)  # (B, K, T, Q)
        value = self.to_value(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(
            rotate(query, rotation),
            rotate(key, rotation),
            value,
            is_causal=True,
            enable_gqa=self.kv_heads != self.heads,
        )
        out: Tensor = self.to_output(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)): three matrices of D x F."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.up = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.down = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class Block(nn.Module):
    """One layer: each half normalises its input and adds to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.dim)
        self.attention = Attention(config)
        self.ffn_norm = nn.RMSNorm(config.dim)
        self.ffn = SwiGLU(config)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        x = x + self.attention(self.attention_norm(x), rotation)
        out: Tensor = x + self.ffn(self.ffn_norm(x))
        return out


class GPT(nn.Module):
    """The whole model; embedding and head are untied."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Tokens and targets, int64 (B, T), to the mean cross-entropy in nats a token, a scalar."""
        logits = self.logits(tokens)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def logits(self, tokens: Tensor) -> Tensor:
        """Tokens (B, T) to (B, T, V)."""
        rotation = rotary_table(tokens.shape[1], self.config.head_dim)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, rotation)
        out: Tensor = self.head(self.norm(x))
        return out


def rotary_table(length: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of RoPE, each (T, Q/2) (Su et al., arXiv 2104.09864, eq. 15)."""
    frequencies = _ROPE_BASE ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the pairs (i, i + Q/2) of each head by its position's angles: (B, H, T, Q) to the same shape."""
    cosines, sines = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, first * sines + second * cosines), dim=-1)


def build_model(config: GPTConfig, seed: int) -> GPT:
    """A model whose weights follow from `seed` alone: N(0, 0.02) matrices, unit gains.

    Every rank of a job builds the same weights from the same seed, so nothing has to be broadcast. The global
    random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(config)
        for weight in model.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=_INIT_STD)
    return model
