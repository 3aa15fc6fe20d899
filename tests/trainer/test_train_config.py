"""Settings of a training job: what is accepted, what is refused, and how."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.trainer.config import DEMO_CONFIG, GPTConfig, TrainConfig
from nettune.trainer.model import build_model

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MODEL_KEYS = ["depth", "layers", "dim", "heads", "kv_heads", "ffn_dim", "vocab", "seq_len", "deth"]
KEYS = ["model", "batch_per_rank", "lr", "seed", "bucket_cap_mib", "bucket"]
SIZES = st.integers(-1, 300) | JSON
MODELS = st.dictionaries(st.sampled_from(MODEL_KEYS), SIZES, max_size=7) | JSON


def assert_one_line(message: str) -> None:
    assert message
    assert "\n" not in message


@given(st.fixed_dictionaries({}, optional={key: MODELS if key == "model" else SIZES for key in KEYS}) | JSON)
def test_any_settings_are_taken_or_refused_in_one_line(data: Any) -> None:
    """Whatever JSON comes in: a valid config that survives a round trip, or one line of InputError."""
    try:
        config = TrainConfig.from_json(data)
    except InputError as error:
        assert_one_line(str(error))
        return
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@given(st.integers(1, 200))
def test_depth_gives_consistent_sizes(depth: int) -> None:
    """Every depth of the dial is a valid model that grows with it."""
    config = GPTConfig.from_depth(depth)
    assert config.head_dim == 32
    assert config.params > (GPTConfig.from_depth(depth - 1).params if depth > 1 else 0)
    assert TrainConfig.from_json({"model": {"depth": depth}}).model == config


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"modle": {}}, "unknown key 'modle'"),
        ({"model": {"depth": 2, "wide": 3}}, "unknown key 'wide'"),
        ({"model": {"depth": 2, "dim": 64}}, "not both"),
        ({"model": {"layers": 2, "dim": 64}}, "ffn_dim, heads, kv_heads missing"),
        ({"model": {"depth": 0}}, "depth must be"),
        ({"model": {"layers": 1, "dim": 60, "heads": 4, "kv_heads": 4, "ffn_dim": 8}}, "even multiple"),
        (
            {"model": {"layers": 1, "dim": 64, "heads": 4, "kv_heads": 3, "ffn_dim": 8}},
            "multiple of kv_heads",
        ),
        ({"batch_per_rank": True}, "batch_per_rank must be a whole number"),
        ({"batch_per_rank": 1.5}, "batch_per_rank must be a whole number"),
        ({"lr": float("nan")}, "lr must be"),
        ({"bucket_cap_mib": 0}, "bucket_cap_mib must be"),
        ({"seed": -1}, "seed must be"),
        ("depth=4", "expected a table"),
    ],
)
def test_refusals_say_what_is_wrong(data: Any, message: str) -> None:
    """Each kind of mistake is named."""
    with pytest.raises(InputError, match=message):
        TrainConfig.from_json(data)


@pytest.mark.parametrize(
    "config",
    [
        GPTConfig.from_depth(2),
        GPTConfig(layers=2, dim=48, heads=4, kv_heads=2, ffn_dim=40, vocab=100, seq_len=16),
    ],
)
def test_parameter_counts_are_those_of_the_model(config: GPTConfig) -> None:
    """The closed forms equal what torch counts."""
    model = build_model(config, seed=0)
    assert config.params == sum(weight.numel() for weight in model.parameters())
    assert config.matmul_params == sum(
        weight.numel()
        for name, weight in model.named_parameters()
        if weight.dim() == 2 and "embedding" not in name
    )


def test_demo_gradients_are_of_the_planned_size() -> None:
    """The demo all-reduces between 3 and 5 MiB a step, in more than one bucket."""
    gradient_mib = DEMO_CONFIG.model.gradient_bytes / 2**20
    assert 3 < gradient_mib < 5
    assert DEMO_CONFIG.bucket_cap_mib < gradient_mib / 2
