"""Schedules of collectives: who sends which chunk to whom; no hosts, no times.

Adding an algorithm: one module with a builder per operation, one entry per operation in `BUILDERS`.
"""

from __future__ import annotations

from collections.abc import Callable

from collectives.schedules.p2p import p2p
from collectives.schedules.ring import ring_all_gather, ring_all_reduce, ring_broadcast, ring_reduce_scatter
from collectives.schedules.schedule import Edges, Op, Round, Schedule, ScheduleError
from nettune.errors import InputError

__all__ = ["BUILDERS", "Edges", "Op", "Round", "Schedule", "ScheduleError", "build", "p2p"]

BUILDERS: dict[tuple[str, Op], Callable[..., Schedule]] = {
    ("ring", Op.ALL_REDUCE): ring_all_reduce,
    ("ring", Op.REDUCE_SCATTER): ring_reduce_scatter,
    ("ring", Op.ALL_GATHER): ring_all_gather,
    ("ring", Op.BROADCAST): ring_broadcast,
}


def build(algorithm: str, op: Op | str, ranks: int, **options: int) -> Schedule:
    """The schedule of a named algorithm; `options` are the builder's own, such as `direction`.

    Raises:
        InputError: no builder of that name for that operation, or what the builder refuses.
    """
    builder = BUILDERS.get((algorithm, Op(op))) if op in set(Op) else None
    if builder is None:
        known = ", ".join(f"{name} {known_op}" for name, known_op in BUILDERS)
        raise InputError(f"no schedule {algorithm!r} for {str(op)!r}; known: {known}")
    return builder(ranks, **options)
