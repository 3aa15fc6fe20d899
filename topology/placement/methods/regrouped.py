"""Depth-first fills of the ranks in other orders: the grid of ranks cut into tiles that fit a leaf group.

A job's ranks are a mixed-radix grid (Megatron-LM's `order`), and its kinds of groups run along its axes. A leaf group that
holds a tile of two axes keeps parts of both kinds of groups inside, where a fill in rank order keeps only the fastest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]

_MOST = 120
"""Orders that are tried; the number of factorisations grows with the logarithm's square."""


def orders(problem: Problem) -> Iterator[Ints]:
    """(units,) slot of each unit, for every tile a x (b) x c of the unit numbers that differs from their order."""
    units = problem.units
    group = problem.group_of_slot
    widest = int(np.bincount(group + 1).max())
    made = 0
    for tile_columns in _divisors(units):  # neighbours that stay together
        if tile_columns > widest:
            continue
        for rows in _divisors(units // tile_columns):  # how many strides of the grid meet in a tile
            between = units // tile_columns // rows
            if rows == 1 or between == 1 or made >= _MOST:
                continue
            made += 1
            regrouped = np.arange(units).reshape(rows, between, tile_columns).transpose(1, 0, 2).ravel()
            yield _filled(problem, regrouped, group, min(rows * tile_columns, widest), tile_columns)


def blocks(problem: Problem) -> Iterator[Ints]:
    """(units,) slot of each unit in their own order, in blocks that no leaf group's end cuts through."""
    group = problem.group_of_slot
    widest = int(np.bincount(group + 1).max())
    for size in _divisors(problem.units):
        if 1 < size <= widest:
            yield _filled(problem, np.arange(problem.units), group, size, size)


def _filled(problem: Problem, order: Ints, group: Ints, tile: int, least: int) -> Ints:
    """Slots for units in this order: leaf groups, largest first, take whole tiles, then whole rows of tiles, then the rest."""
    free = np.setdiff1d(np.arange(len(group)), problem.pinned[problem.pinned >= 0])
    waiting = order[problem.pinned[order] < 0]
    found = problem.pinned.copy()
    begin = 0
    for size in dict.fromkeys((tile, least, 1)):
        sizes = np.bincount(group[free] + 1, minlength=1)
        used = np.zeros(len(group), dtype=np.bool_)
        for leaf in sorted(np.unique(group[free]).tolist(), key=lambda one: (-sizes[one + 1], one)):
            slots = free[group[free] == leaf]
            count = min(len(slots), len(waiting) - begin) // size * size
            found[waiting[begin : begin + count]] = slots[:count]
            used[slots[:count]] = True
            begin += count
        free = free[~used[free]]
    return found


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
