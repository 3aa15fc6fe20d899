"""When each gradient bucket was on the network, and how long the rank had nothing to do but wait for it.

DDP calls a hook with every bucket as soon as its last gradient is ready, while backward goes on. The hook stamps the
clock and starts the all-reduce; the completion stamps it again, in gloo's thread. The last bucket holds the last
gradient, so its launch is where backward's compute ends: what is in flight after it is exposed.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor
from torch import distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel


class BucketTimeline:
    """The body of a DDP communication hook (mean all-reduce) that remembers the buckets of the current step.

    Attributes:
        sizes_bytes: bytes of each bucket, in launch order.
    """

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._launched: list[float] = []
        self._done: list[float] = []
        self.sizes_bytes: list[int] = []

    def begin_step(self) -> None:
        """Forget the last step."""
        self._launched, self._done, self.sizes_bytes = [], [], []

    def all_reduce(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Start the all-reduce of one bucket; DDP waits for the future at the end of backward."""
        gradients = bucket.buffer().div_(self._world_size)
        self.sizes_bytes.append(gradients.numel() * gradients.element_size())
        done = self._done
        self._launched.append(time.perf_counter())
        work = dist.all_reduce(gradients, async_op=True)
        assert work is not None  # async_op

        def finished(future: torch.futures.Future[list[Tensor]]) -> Tensor:
            value = future.value()[0]
            done.append(time.perf_counter())
            return value

        reduced: torch.futures.Future[Tensor] = work.get_future().then(finished)
        return reduced

    def times(self) -> tuple[float, float]:
        """Seconds with at least one all-reduce in flight, and the part of them after backward's compute ended.

        A rank that computed faster than the others waits inside its all-reduce for them: that wait is part of both.
        """
        spans = list(zip(self._launched, sorted(self._done), strict=True))
        if not spans:
            return 0.0, 0.0
        # Launches are in order and completions sorted: pairing them so leaves the union of the spans unchanged.
        in_flight, edge = 0.0, spans[0][0]
        for launched, done in spans:
            in_flight += max(0.0, done - max(edge, launched))
            edge = max(edge, done)
        return in_flight, max(0.0, edge - spans[-1][0])


def ddp_logging(ddp: DistributedDataParallel) -> dict[str, float] | None:
    """DDP's own figures {backward_s, backward_comm_s, overlap_s} of its last sampled step; None without one.

    It samples its first ten steps and then every hundredth. A second opinion on `BucketTimeline`.
    """
    raw = ddp._get_ddp_logging_data()  # type: ignore[no-untyped-call]  # noqa: SLF001 - the only way to these figures
    names = {
        "backward_s": "avg_backward_compute_time",
        "backward_comm_s": "avg_backward_comm_time",
        "overlap_s": "avg_backward_compute_comm_overlap_time",
    }
    if not all(raw.get(key) for key in names.values()):
        return None
    return {name: float(raw[key]) / 1e9 for name, key in names.items()}
