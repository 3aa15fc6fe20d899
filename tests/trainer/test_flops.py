"""FLOPs of a token against torch's counter, the published ratios, and published runs."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nettune.errors import InputError
from nettune.trainer.config import GPTConfig
from nettune.trainer.flops import CONVENTIONS, count_flops
from nettune.trainer.mfu import mfu
from nettune.trainer.model import build_model
from nettune.trainer.peak import Peak

VOCAB = 128256
LLAMA_8B = GPTConfig(layers=32, dim=4096, heads=32, kv_heads=8, ffn_dim=14336, vocab=VOCAB, seq_len=8192)
LLAMA_70B = GPTConfig(layers=80, dim=8192, heads=64, kv_heads=8, ffn_dim=28672, vocab=VOCAB, seq_len=8192)
LLAMA_405B = GPTConfig(layers=126, dim=16384, heads=128, kv_heads=8, ffn_dim=53248, vocab=VOCAB, seq_len=8192)
# Its MLP of two h x 4h matrices has as many multiplications as three of h x 8h/3.
GPT_175B = GPTConfig(layers=96, dim=12288, heads=96, kv_heads=96, ffn_dim=32768, vocab=64000, seq_len=2048)


@pytest.mark.parametrize(
    "config",
    [
        GPTConfig.from_depth(2, seq_len=48),
        GPTConfig(layers=3, dim=96, heads=6, kv_heads=2, ffn_dim=80, vocab=200, seq_len=32),
    ],
)
def test_torch_counts_the_same(config: GPTConfig) -> None:
    """Forward and backward of the real model, counted by torch, are the full-attention conventions exactly."""
    model = build_model(config, seed=0)
    batch = torch.zeros(2, config.seq_len, dtype=torch.int64)
    # The math kernel does the whole square of scores, masked half and all, as the full conventions count.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(batch, batch).backward()
    counted = counter.get_total_flops()
    tokens = batch.numel()
    assert count_flops(config, tokens, "megascale").per_step == counted
    assert count_flops(config, tokens, "torchtitan").per_step - 6 * config.norm_params * tokens == counted
    halved = 6 * config.layers * config.dim * config.seq_len * tokens
    assert count_flops(config, tokens, "megatron").per_step == counted - halved


@pytest.mark.parametrize(
    ("convention", "config", "ratio"),
    [
        ("6n", LLAMA_8B, 0.936),
        ("torchtitan", LLAMA_8B, 1.125),
        ("palm", LLAMA_8B, 1.186),
        ("6n", LLAMA_405B, 0.965),
        ("torchtitan", LLAMA_405B, 1.040),
        ("palm", LLAMA_405B, 1.045),
        ("megascale", GPT_175B, 1.014),
    ],
)
def test_conventions_differ_by_the_known_ratios(convention: str, config: GPTConfig, ratio: float) -> None:
    """The same run counts this much more or less than by Megatron-LM's formula."""
    other = count_flops(config, 1, convention).per_token / count_flops(config, 1, "megatron").per_token
    assert other == pytest.approx(ratio, abs=1.5e-3)


def test_llama_8b_by_torchtitan() -> None:
    """57.91 GFLOP a token: with 5762 and 6667 tokens/s on a peak of 989 TFLOP/s the published 33.7 and 39.0%."""
    per_token = count_flops(LLAMA_8B, 1, "torchtitan").per_token
    assert per_token / 1e9 == pytest.approx(57.91, abs=0.01)
    assert 100 * 5762 * per_token / 989e12 == pytest.approx(33.7, abs=0.05)
    assert 100 * 6667 * per_token / 989e12 == pytest.approx(39.0, abs=0.05)


def test_convention_travels_with_the_number() -> None:
    """A count names its convention and formula, and an unknown convention is refused with the known ones."""
    flops = count_flops(LLAMA_8B, 100, "palm")
    assert flops.to_json() == {
        "convention": "palm",
        "formula": CONVENTIONS["palm"].formula,
        "flops_per_token": flops.per_token,
        "tokens_per_step": 100,
        "flops_per_step": 100 * flops.per_token,
    }
    with pytest.raises(InputError, match="choose one of megatron"):
        count_flops(LLAMA_8B, 100, "mega")
    with pytest.raises(InputError, match="at least one token"):
        count_flops(LLAMA_8B, 0)


def oracle(shared: Path) -> list[dict[str, str]]:
    path = shared / "oracles" / "mfu_oracles.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_megascale_table_2(shared: Path) -> None:
    """All eight Megatron-LM rows of MegaScale's table 2 follow from the step time within 0.25 points."""
    rows = [row for row in oracle(shared) if row["source"] == "MegaScale NSDI24 Table 2 (Megatron-LM)"]
    assert len(rows) == 8
    for row in rows:
        flops = count_flops(GPT_175B, int(row["global_batch"]) * int(row["seq_len"]), "megascale")
        gpus = int(row["n_gpus"])
        peak = Peak(gpus * float(row["peak_tflops"]) * 1e12, "A100", measured=False)
        assert 100 * mfu(float(row["iter_time_s"]), flops, peak) == pytest.approx(
            float(row["mfu_pct"]), abs=0.25
        )


@pytest.mark.parametrize(
    ("model", "config"), [("LLAMA3_8B", LLAMA_8B), ("LLAMA3_70B", LLAMA_70B), ("LLAMA3.1_405B", LLAMA_405B)]
)
def test_megatron_bridge_tables(shared: Path, model: str, config: GPTConfig) -> None:
    """TFLOP/s over tokens/s in NVIDIA's tables is our Megatron count a token, to 0.2% in the median row."""
    rows = [
        row
        for row in oracle(shared)
        if "Megatron-Bridge" in row["source"] and row["model"] == model and row["seq_len"] == "8192"
    ]
    assert rows
    published = median(
        float(row["tflops_per_gpu"]) * 1e12 / float(row["tokens_per_s_per_gpu"]) for row in rows
    )
    assert count_flops(config, 1, "megatron").per_token == pytest.approx(published, rel=2e-3)
