"""Blocks of units that change places together: the part of an expert, data-parallel or pipeline group that is in one cluster.

From a map where no swap of two units gains, moving a whole part of a group often does: halfway it would cost more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.cutedges import CutEdges

    Ints = NDArray[np.int64]


def group_labels(edges: CutEdges, units: int, slots: int) -> list[Ints]:
    """For each kind of group (slots,) the number of each unit's group; empty units are one group more.

    Units that a phase joins, directly or not, are a group; phases with the same groups give one kind.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    found: dict[bytes, Ints] = {}
    for phase in np.unique(edges.phase).tolist():
        some = edges.phase == phase
        joined = (np.ones(int(some.sum())), (edges.src[some], edges.dst[some]))
        count, group = connected_components(coo_array(joined, shape=(units, units)), directed=False)
        if 1 < count < units:
            label = np.concatenate([group.astype(np.int64), np.full(slots - units, count)])
            found[label.tobytes()] = label
    return list(found.values())


def block_swaps(
    generator: np.random.Generator, label: Ints, at: Ints, movable: NDArray[np.bool_], most: int
) -> tuple[Ints, Ints, Ints]:
    """Random trials for `Estimate.swapped`: the parts of two groups in two clusters change places, as many units of each.

    Args:
        generator: of the random choices.
        label: (S,) group of each unit.
        at: (S,) cluster in which each unit is.
        movable: (S,) units that may move.
        most: about so many units move in all trials together.

    Returns:
        (M,) units, the units that they change places with, and ascending numbers of trials.
    """
    units = np.flatnonzero(movable)
    empty = np.empty(0, dtype=np.int64)
    if not len(units):
        return empty, empty, empty
    units = units[np.lexsort((units, at[units], label[units]))]
    first = np.flatnonzero((np.diff(label[units], prepend=-1) != 0) | (np.diff(at[units], prepend=-1) != 0))
    size = np.diff(first, append=len(units))
    tried = max(int(most / max(size.mean(), 1.0)), 1)
    one, other = generator.integers(0, len(first), (2, tried))
    apart = at[units[first[one]]] != at[units[first[other]]]
    one, other = one[apart], other[apart]
    both = np.minimum(size[one], size[other])
    skipped = [
        (generator.random(len(part)) * (size[part] - both + 1)).astype(np.int64) for part in (one, other)
    ]
    trial = np.repeat(np.arange(len(one)), both)
    inside = np.arange(len(trial)) - np.repeat(np.cumsum(both) - both, both)
    ends = [
        units[np.repeat(first[part] + skip, both) + inside]
        for part, skip in zip((one, other), skipped, strict=True)
    ]
    return ends[0], ends[1], trial
