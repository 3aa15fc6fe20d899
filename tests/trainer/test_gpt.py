"""The reference model: causality, determinism, grouped queries, learning."""

from __future__ import annotations

import math

import torch

from nettune.trainer.config import GPTConfig
from nettune.trainer.model import build_model, rotary_table, rotate

SMALL = GPTConfig.from_depth(2, seq_len=32)
GROUPED = GPTConfig(layers=1, dim=64, heads=4, kv_heads=2, ffn_dim=64, seq_len=32)


def tokens(batch: int = 2, length: int = 32) -> torch.Tensor:
    return torch.randint(256, (batch, length), generator=torch.Generator().manual_seed(1))


def test_a_later_byte_never_changes_an_earlier_prediction() -> None:
    """Attention is causal, also with grouped queries."""
    for config in (SMALL, GROUPED):
        model = build_model(config, seed=0)
        before = tokens()
        after = before.clone()
        after[:, 20:] = (after[:, 20:] + 1) % 256
        with torch.no_grad():
            first, second = model.logits(before), model.logits(after)
        torch.testing.assert_close(first[:, :20], second[:, :20])
        assert not torch.allclose(first[:, 20:], second[:, 20:])


def test_seed_decides_the_weights_and_nothing_else_changes() -> None:
    """The same seed gives the same weights whatever was drawn before, and the global random state is kept."""
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first = build_model(SMALL, seed=3)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(5)
    second, other = build_model(SMALL, seed=3), build_model(SMALL, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.head.weight, other.head.weight)


def test_an_untrained_model_knows_nothing() -> None:
    """The first loss is that of a uniform guess, ln 256 nats."""
    model = build_model(SMALL, seed=0)
    data = tokens(8)
    assert abs(model(data[:, :-1], data[:, 1:]).item() - math.log(256)) < 0.1


def test_rotation_keeps_length_and_sees_only_distance() -> None:
    """RoPE keeps norms, and a score depends on how far apart two positions are, not on where they are."""
    table = rotary_table(64, 32)
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(32, generator=generator), torch.randn(32, generator=generator)
    queries = rotate(query.expand(1, 1, 64, 32), table)[0, 0]
    keys = rotate(key.expand(1, 1, 64, 32), table)[0, 0]
    torch.testing.assert_close(queries.norm(dim=-1), query.norm().expand(64))
    scores = queries @ keys.T
    torch.testing.assert_close(scores[10, 3], scores[50, 43], rtol=1e-4, atol=1e-4)
    assert not torch.isclose(scores[10, 3], scores[10, 4])
