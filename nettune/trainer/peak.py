"""The peak FLOP/s that MFU divides by, always with the reason for the number.

On CPUs it is measured here and now, with all ranks running at once: ranks that share cores share the peak, and the
figure of one process alone would make MFU look bad by the number of ranks a core. On GPUs it is the vendor's dense
bf16 figure by device name; a device that the table does not know has no figure here, never a guessed one.
`measure_peak` measures the CPU, which is where this trainer runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nettune.errors import InputError
from nettune.trainer.config import TrainConfig

# The shape at which a library's kernels run best; the model's own shapes are measured beside it.
_SQUARE = (512, 512, 512)
_CALLS_BETWEEN_CLOCKS = 8


@dataclass(frozen=True)
class Peak:
    """A peak and where it is from.

    Attributes:
        flops_per_s: FLOP/s of the whole job.
        reason: measured how, or quoted from where.
        measured: whether this machine was measured.
    """

    flops_per_s: float
    reason: str
    measured: bool

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {"flops_per_s": self.flops_per_s, "reason": self.reason, "measured": self.measured}


# Dense bf16 TFLOP/s of one device. A row matches when all its words occur in the device name; the first match wins,
# so variants stand before the plain name. Vendors print the figure with sparsity, twice these.
_DEVICES: tuple[tuple[tuple[str, ...], float, str], ...] = (
    (("A100",), 312.0, "NVIDIA A100 datasheet"),
    (("H100", "NVL"), 835.0, "NVIDIA H100 datasheet, NVL"),
    (("H100", "PCIe"), 756.0, "NVIDIA H100 datasheet, PCIe"),
    (("H100",), 989.0, "NVIDIA H100 datasheet, SXM"),
    (("H200",), 989.0, "NVIDIA H200 datasheet, SXM"),
    (("L40S",), 362.0, "NVIDIA L40S datasheet"),
    (("MI300X",), 1307.4, "AMD Instinct MI300X datasheet"),
    (("MI250X",), 191.5, "AMD Instinct MI250X datasheet, one of two dies"),
)
# Variants whose name holds a row's words and whose peak is another: they are unknown, not that row.
_NOT_THESE = ("A100X", "H100 CNX", "GH200", "H200 NVL", "MIG")


def device_peak(device_name: str, devices: int = 1) -> Peak | None:
    """The quoted peak of `devices` GPUs of this name; None when the table does not know the name: then measure."""
    name = device_name.lower()
    if any(other.lower() in name for other in _NOT_THESE):
        return None
    for words, tflops, source in _DEVICES:
        if all(word.lower() in name for word in words):
            return Peak(
                devices * tflops * 1e12,
                f"{devices} x {tflops:g} TFLOP/s dense bf16: {source}",
                measured=False,
            )
    return None


def measure_peak(
    *, config: Mapping[str, Any] | None = None, seconds: float = 0.25, windows: int = 3
) -> dict[str, Any]:
    """Achieved fp32 matmul FLOP/s of this rank while every other rank does the same; runs in a rank.

    Each window starts behind a barrier (when a process group is up) and lasts a fixed time, so that all ranks
    compute during all of it.

    Args:
        config: JSON form of a TrainConfig; its SwiGLU shape is one of the shapes.
        seconds: length of one window.
        windows: windows of each shape.

    Returns:
        rank, threads, and shapes: [{m, k, n, flops_per_s: [one value a window]}].

    Raises:
        InputError: no window, or one without length.
    """
    import torch
    from torch import distributed as dist

    if seconds <= 0 or windows < 1:
        raise InputError("a peak needs at least one window of more than 0 s")
    job = TrainConfig.from_json(config or {})
    together = dist.is_available() and dist.is_initialized()
    shapes = []
    for m, k, n in (_SQUARE, (job.tokens_per_rank, job.model.dim, job.model.ffn_dim)):
        left, right, out = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
        torch.mm(left, right, out=out)
        rates = []
        for _ in range(windows):
            if together:
                dist.barrier()
            calls, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < seconds:
                for _ in range(_CALLS_BETWEEN_CLOCKS):
                    torch.mm(left, right, out=out)
                calls += _CALLS_BETWEEN_CLOCKS
            rates.append(calls * 2 * m * k * n / elapsed)
        shapes.append({"m": m, "k": k, "n": n, "flops_per_s": rates})
    return {"rank": dist.get_rank() if together else 0, "threads": torch.get_num_threads(), "shapes": shapes}


def cluster_peak(per_rank: Sequence[Mapping[str, Any]]) -> Peak:
    """The peak of all ranks together: rates of the same window add up, and the best window of the best shape counts.

    Args:
        per_rank: what `measure_peak` returned in each rank.

    Raises:
        InputError: no rank, or ranks that measured different shapes.
    """
    if not per_rank:
        raise InputError("a peak needs the measurement of at least one rank")
    sums: dict[tuple[int, int, int], list[float]] = {}
    for shape in per_rank[0]["shapes"]:
        key = (shape["m"], shape["k"], shape["n"])
        rows = [s["flops_per_s"] for r in per_rank for s in r["shapes"] if (s["m"], s["k"], s["n"]) == key]
        if len(rows) != len(per_rank) or len({len(row) for row in rows}) != 1:
            raise InputError(
                "the ranks measured their peak with different shapes or windows; give all the same"
            )
        sums[key] = [sum(window) for window in zip(*rows, strict=True)]
    best = max(sums, key=lambda key: max(sums[key]))
    threads = per_rank[0]["threads"]
    reason = (
        f"measured: {len(per_rank)} ranks at once, {threads} thread{'s' * (threads != 1)} each, "
        f"fp32 matmul {best[0]}x{best[1]}x{best[2]}, sum over ranks, best of {len(sums[best])} windows"
    )
    return Peak(max(sums[best]), reason, measured=True)
