"""Groups of ranks, as nodes or leaves: equal in size, so that the ranks of one place in every group form a rail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectives.schedules.schedule import Ints
from nettune.errors import InputError

Groups = int | Sequence[Sequence[int]]
"""Lists of ranks, or the size of groups of consecutive ranks."""


def group_table(name: str, ranks: int, groups: Groups) -> Ints:
    """(G, g) ranks of each group; a column is a rail.

    Raises:
        InputError: groups of unequal size, or that do not name every rank once.
    """
    if isinstance(groups, int):
        if groups < 1 or ranks % groups:
            raise InputError(f"{name}: {ranks} ranks do not divide into groups of {groups}")
        return np.arange(ranks).reshape(-1, groups)
    sizes = sorted({len(group) for group in groups})
    if len(sizes) != 1 or not sizes[0]:
        raise InputError(
            f"{name}: groups of {', '.join(map(str, sizes)) or 'no'} ranks; a rail takes one rank of each, so that they "
            "must be equal: leave ranks out or use another algorithm"
        )
    if sorted(rank for group in groups for rank in group) != list(range(ranks)):
        raise InputError(f"{name}: groups do not name each of 0..{ranks - 1} once")
    return np.array(groups, np.int64)
