"""Schedules of collectives: who sends which chunk to whom; no hosts, no times.

Adding an algorithm: one module that says how data spreads (`compose` has the reverse, the all-reduce, channels and
chunks), one entry per operation in `registry.BUILDERS`. The tests of `check` and of mutants run over all entries.
"""

from __future__ import annotations

from collectives.schedules.compose import combine, over_channels, pipelined
from collectives.schedules.edges import Edges
from collectives.schedules.hybrid import hybrid
from collectives.schedules.p2p import p2p
from collectives.schedules.registry import BUILDERS, build, needs_options
from collectives.schedules.schedule import Op, Round, Schedule, ScheduleError

__all__ = [
    "BUILDERS",
    "Edges",
    "Op",
    "Round",
    "Schedule",
    "ScheduleError",
    "build",
    "combine",
    "hybrid",
    "needs_options",
    "over_channels",
    "p2p",
    "pipelined",
]
