"""Every schedule by the name of its algorithm and its operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from collectives.schedules.alltoall import pairwise, two_step
from collectives.schedules.bruck import bruck, pat
from collectives.schedules.compose import over_channels, pipelined
from collectives.schedules.groups import Groups, group_table
from collectives.schedules.halving import halving_doubling
from collectives.schedules.hierarchy import hierarchical, overlapped
from collectives.schedules.hybrid import hybrid
from collectives.schedules.ring import (
    ring_all_gather,
    ring_all_reduce,
    ring_broadcast,
    ring_reduce,
    ring_reduce_scatter,
)
from collectives.schedules.schedule import Op, Schedule
from collectives.schedules.tree import binomial, double_tree
from nettune.errors import InputError


def hierarchical_by_name(
    op: Op,
    ranks: int,
    *,
    groups: Groups,
    inner: str = "ring",
    outer: str = "ring",
    outer_options: dict[str, Any] | None = None,
    overlap: int = 0,
) -> Schedule:
    """`hierarchy.hierarchical` with the algorithms of both levels by name.

    Args:
        op: all_reduce, all_gather or reduce_scatter.
        ranks: number of ranks.
        groups: equal groups of ranks, or the size of groups of consecutive ranks.
        inner: algorithm inside groups, one that has an all_gather.
        outer: algorithm between groups.
        outer_options: options of `outer`.
        overlap: number of parts that follow each other through the levels; see `hierarchy.overlapped`. 0: none.
    """
    table = group_table("hierarchical", ranks, groups)
    across = Op.ALL_REDUCE if op is Op.ALL_REDUCE else Op.ALL_GATHER
    levels = (
        build(inner, Op.ALL_GATHER, table.shape[1]),
        build(outer, across, table.shape[0], **(outer_options or {})),
    )
    if overlap:
        return overlapped(op, ranks, groups, *levels, chunks=overlap)
    return hierarchical(op, ranks, groups, *levels)


_MOST = 2**20
"""Ranks, channels or chunks: more are a mistake, and their columns would not fit into memory."""

BUILDERS: dict[tuple[str, Op], Callable[..., Schedule]] = {
    ("ring", Op.ALL_REDUCE): ring_all_reduce,
    ("ring", Op.REDUCE_SCATTER): ring_reduce_scatter,
    ("ring", Op.ALL_GATHER): ring_all_gather,
    ("ring", Op.BROADCAST): ring_broadcast,
    ("ring", Op.REDUCE): ring_reduce,
    **{
        (name, op): partial(builder, op)
        for name, builder, ops in (
            ("double_tree", double_tree, (Op.ALL_REDUCE, Op.BROADCAST, Op.REDUCE)),
            ("binomial", binomial, (Op.ALL_REDUCE, Op.BROADCAST, Op.REDUCE)),
            ("halving_doubling", halving_doubling, (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER)),
            ("hierarchical", hierarchical_by_name, (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER)),
            ("bruck", bruck, (Op.REDUCE_SCATTER, Op.ALL_GATHER)),
            ("pat", pat, (Op.REDUCE_SCATTER, Op.ALL_GATHER)),
        )
        for op in ops
    },
    ("hybrid", Op.ALL_REDUCE): hybrid,
    ("pairwise", Op.ALL_TO_ALL): pairwise,
    ("two_step", Op.ALL_TO_ALL): two_step,
}


def needs_options(algorithm: str, op: Op) -> bool:
    """Whether a schedule of `BUILDERS` cannot be built from a number of ranks alone."""
    parameters = list(inspect.signature(BUILDERS[algorithm, op]).parameters.values())[1:]
    return any(parameter.default is inspect.Parameter.empty for parameter in parameters)


def build(
    algorithm: str,
    op: Op | str,
    ranks: int,
    *,
    channels: int = 1,
    chunks: int = 1,
    every: int = 1,
    **options: Any,
) -> Schedule:
    """The schedule of a named algorithm.

    Args:
        algorithm: its name.
        op: what it shall achieve.
        ranks: number of ranks.
        channels: equal parts of the message that go at once, each on its own copy of the algorithm's channels.
        chunks: equal parts of each channel's message that follow each other.
        every: rounds between the starts of two chunks.
        options: the builder's own, such as `direction` or `groups`.

    Raises:
        InputError: no builder of that name for that operation, an option that it does not have or needs, or what it
            refuses.
    """
    builder = BUILDERS.get((algorithm, Op(op))) if op in set(Op) else None
    if builder is None:
        known = ", ".join(f"{name} {known_op}" for name, known_op in BUILDERS)
        raise InputError(f"no schedule {algorithm!r} for {str(op)!r}; known: {known}")
    sizes: dict[str, Any] = {"ranks": ranks, "channels": channels, "chunks": chunks, "every": every}
    for name, value in sizes.items():
        if not isinstance(value, int) or value > _MOST:
            raise InputError(
                f"{algorithm}: {name} must be a whole number of at most {_MOST}, not {value!r:.60}"
            )
    if min(channels, chunks, every) < 1:
        raise InputError(
            f"{algorithm}: {channels} channels, {chunks} chunks, every {every} rounds; use 1 or more"
        )
    try:
        inspect.signature(builder).bind(ranks, **options)
    except TypeError as error:
        raise InputError(f"{algorithm} {op}: {error}") from error
    try:
        made = builder(ranks, **options)
    except TypeError as error:
        raise InputError(f"{algorithm} {op}: an option is of a wrong type: {error}") from error
    return pipelined(over_channels(made, channels), chunks, every=every)
