"""Hierarchical collectives: inside groups (nodes, leaves), along rails between them, and back.

A rail is the ranks of one place in every group. all_reduce is a reduce-scatter inside the groups, an all-reduce of
each rank's part along its rail, and an all-gather inside the groups; between groups go 2(N-1)/N of S/g for each rank
instead of 2(n-1)/n of S for some. Source: Cho et al., BlueConnect, MLSys 2019, and the hierarchical all-reduce of
microsoft/msccl-tools.
"""

from __future__ import annotations

import numpy as np

from collectives.schedules.compose import combine, lifted, reverse, sequence
from collectives.schedules.groups import Groups, group_table
from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError


def hierarchical(op: Op, ranks: int, groups: Groups, inner: Schedule, outer: Schedule) -> Schedule:
    """One collective over two levels.

    Args:
        op: all_reduce, all_gather or reduce_scatter.
        ranks: number of ranks.
        groups: equal groups, or their size.
        inner: all-gather over the ranks of a group.
        outer: all-reduce over the groups (op all_reduce), else an all-gather over them.

    Raises:
        InputError: groups of unequal size, or that do not name every rank once; schedules that do not fit them.
    """
    levels = _levels(op, ranks, groups, inner, outer)
    return sequence(op, levels, home=levels[0].home)


def overlapped(
    op: Op, ranks: int, groups: Groups, inner: Schedule, outer: Schedule, *, chunks: int
) -> Schedule:
    """`hierarchical` over `chunks` parts of the message, so that one part is inside groups while another is between.

    No two parts are at the same level in the same round. A part starts every max(rounds inside, rounds between); in an
    all-reduce the way back into the groups waits for the level to be free, one period after the part went out of them.

    Raises:
        InputError: as `hierarchical`; less than one chunk.
    """
    if chunks < 1:
        raise InputError(f"hierarchical: {chunks} chunks; use 1 or more")
    levels = _levels(op, ranks, groups, inner, outer)
    counts = [level.count for level in levels]
    if op is Op.ALL_REDUCE:
        period = max(counts[0] + counts[2], counts[1])
        starts = [0, counts[0], counts[0] + (period if counts[1] else 0)]
    else:
        period = max(counts)
        starts = [0, counts[0]]
    part = sequence(op, levels, home=levels[0].home, starts=starts)
    same = [np.arange(part.channels)] * chunks
    begin = [period * place for place in range(chunks)]
    name = f"{part.name}, {chunks} chunks overlapped"
    return combine([part] * chunks, starts=begin, channels=same, name=name)


def _levels(op: Op, ranks: int, groups: Groups, inner: Schedule, outer: Schedule) -> list[Schedule]:
    """Phases over the chunks (place, chunk of `outer`), each a schedule over all ranks."""
    table = group_table("hierarchical", ranks, groups)
    nodes, size = table.shape
    wanted = Op.ALL_REDUCE if op is Op.ALL_REDUCE else Op.ALL_GATHER
    if op not in {Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER}:
        raise InputError(f"hierarchical: {op} is not built; all_reduce, all_gather and reduce_scatter are")
    if (inner.op, inner.ranks, inner.chunks) != (Op.ALL_GATHER, size, size) or (outer.op, outer.ranks) != (
        wanted,
        nodes,
    ):
        raise InputError(
            f"hierarchical: it takes an all_gather of {size} chunks over {size} ranks and an {wanted} over {nodes}"
        )
    chunk = np.arange(size * outer.chunks).reshape(size, outer.chunks)
    share = np.repeat(inner.share, outer.chunks) * np.tile(outer.share, size)
    place = np.argsort(inner.home)
    # (g,) chunk of `inner` that belongs to each place; its parts are that place's chunks.
    inside = np.empty_like(chunk)
    inside[place] = chunk
    home: Ints | int = -1
    if op is not Op.ALL_REDUCE:
        home = table.T[:, outer.home].ravel()
    name = f"hierarchical: {inner.name}, {outer.name}"

    def phase(level: Schedule, ranks_of: Ints, chunks_of: Ints) -> Schedule:
        def make(number: int) -> Round:
            return lifted(level.make(number), ranks_of, chunks_of)

        what = op if op is Op.ALL_REDUCE else level.op
        return Schedule.of(
            what, ranks, level.count, make, share=share, home=home, channels=level.channels, name=name
        )

    gather = (table, np.broadcast_to(inside, (nodes, *inside.shape)))
    across = (table.T, chunk[:, :, None])
    if op is Op.ALL_REDUCE:
        return [phase(reverse(inner), *gather), phase(outer, *across), phase(inner, *gather)]
    if op is Op.ALL_GATHER:
        return [phase(outer, *across), phase(inner, *gather)]
    return [phase(reverse(inner), *gather), phase(reverse(outer), *across)]
