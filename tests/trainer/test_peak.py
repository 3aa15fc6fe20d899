"""The denominator of MFU: quoted for known GPUs, else measured with all ranks."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from nettune.trainer.peak import cluster_peak, device_peak, measure_peak


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("AMD Instinct MI300X", 1307.4),
    ],
)
def test_known_gpus_are_quoted_with_their_source(name: str, tflops: float) -> None:
    """A device name finds its own variant's dense bf16 peak, times the number of devices."""
    peak = device_peak(name, devices=3)
    assert peak is not None
    assert peak.flops_per_s == pytest.approx(3 * tflops * 1e12)
    assert "datasheet" in peak.reason
    assert not peak.measured


@pytest.mark.parametrize(
    "name", ["", "NVIDIA GH200 480GB", "NVIDIA H200 NVL", "NVIDIA A100X", "NVIDIA A10", "CPU"]
)
def test_unknown_devices_are_never_guessed(name: str) -> None:
    """No figure rather than the figure of something with a similar name."""
    assert device_peak(name) is None


def one_rank(rank: int, rates: list[float]) -> dict[str, object]:
    return {"rank": rank, "threads": 1, "shapes": [{"m": 8, "k": 8, "n": 8, "flops_per_s": rates}]}


def test_ranks_add_up_window_by_window() -> None:
    """The peak is the best sum of one window: bests of different windows never happened at once."""
    peak = cluster_peak([one_rank(0, [10.0, 1.0]), one_rank(1, [1.0, 7.0])])
    assert peak.flops_per_s == 11.0
    assert peak.measured
    assert peak.reason.startswith("measured: 2 ranks at once, 1 thread each, fp32 matmul 8x8x8")


def test_ranks_that_measured_differently_are_refused() -> None:
    """Different shapes or numbers of windows do not add up; no rank is no peak."""
    with pytest.raises(InputError, match="same"):
        cluster_peak([one_rank(0, [1.0]), one_rank(1, [1.0, 2.0])])
    with pytest.raises(InputError, match="at least one rank"):
        cluster_peak([])
    with pytest.raises(InputError, match="window"):
        measure_peak(seconds=0)


def test_one_process_measures_itself() -> None:
    """Without a group a rank measures alone: the square shape and the model's."""
    result = measure_peak(config={"model": {"depth": 2, "seq_len": 32}}, seconds=0.02, windows=2)
    assert [(s["m"], s["k"], s["n"]) for s in result["shapes"]] == [(512, 512, 512), (128, 64, 192)]
    assert all(rate > 1e6 for shape in result["shapes"] for rate in shape["flops_per_s"])
    assert cluster_peak([result]).flops_per_s == max(max(shape["flops_per_s"]) for shape in result["shapes"])
