"""One training step, timed in parts, and what keeps its times clean.

No communication is started here: DDP does that inside `backward`, and only where the model is wrapped in it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch._dynamo  # the first optimizer imports it, 3 s in each rank; here, ranks forked later share it
from torch import Tensor, nn

from nettune.trainer.config import TrainConfig
from nettune.trainer.data import Batches


@dataclass
class Clock:
    """Splits a step into consecutive parts: every moment of it belongs to exactly one."""

    start: float = field(default_factory=time.perf_counter)
    parts: dict[str, float] = field(default_factory=dict)

    def lap(self, name: str) -> None:
        """End the part that began with the last lap."""
        now = time.perf_counter()
        self.parts[name] = now - self.start - sum(self.parts.values())


def make_optimizer(model: nn.Module, settings: TrainConfig) -> torch.optim.Optimizer:
    """AdamW with a constant rate and no weight decay; the fused kernel is one call a step."""
    return torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True
    )


def timed_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, step: int
) -> tuple[Clock, Tensor]:
    """Forward, backward and update on the batch of one step: its parts {data_s, ... optimizer_s} and the loss."""
    clock = Clock()
    tokens, targets = batches(step)
    clock.lap("data_s")
    loss: Tensor = model(tokens, targets)
    clock.lap("forward_s")
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    clock.lap("backward_s")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    clock.lap("optimizer_s")
    return clock, loss.detach()


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep Python's garbage collector out of the steps: its pauses fall on one rank and make all others wait."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def freeze_imports() -> None:
    """Take what was imported, which is never garbage, out of the collector's sight, once in a process.

    Collections between runs then take no time, and pages that forked ranks share stay shared. It must come before
    anything is made that a collection has to find later.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
