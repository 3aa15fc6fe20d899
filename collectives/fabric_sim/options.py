"""What a run records, and when it ends at the latest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is recorded, and when a run ends at the latest.

    Attributes:
        sample_us: period of samples of queues and rates; None: none.
        watch_links: directed links whose queue is sampled.
        watch_flows: flows whose rate is sampled.
        until_us: end even if flows are left; None: when all have finished.
        window_bytes: each flow has at most so much in flight; HPCC needs it: None gives it the bandwidth-delay product
            of the longest path, as the GLOBAL_T of its simulator.
        base_rtt_us: of all flows, for controls that need one; None: of each flow's own path.
        window_follows_rate: DCQCN shrinks its window with the rate (`VAR_WIN` of HPCC's simulator).
        memory_bytes: what queues may take; None: half of what is available.
    """

    sample_us: float | None = None
    watch_links: Sequence[int] = ()
    watch_flows: Sequence[int] = ()
    until_us: float | None = None
    window_bytes: int | None = None
    base_rtt_us: float | None = None
    window_follows_rate: bool = False
    memory_bytes: int | None = None
