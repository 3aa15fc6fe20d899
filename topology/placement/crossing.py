"""How much a phase must put between pieces of a fabric that hold only so many nodes each, whichever nodes they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_MOST_EIGEN = 128
"""Nodes whose eigenvalues are worked out: some milliseconds."""


def sums(index: Ints, values: Floats, length: int) -> Floats:
    """(length,) sum of the values of each index."""
    total: Floats = np.bincount(index, values, minlength=length).astype(np.float64)
    return total


def least_bytes(own: Ints, other: Ints, carried: Floats, items: int, together: int) -> Floats:
    """(items,) bytes that each must move over the network even with its `together` - 1 heaviest partners beside it."""
    pairs, index = np.unique(own * items + other, return_inverse=True)
    table = sums(index, carried, len(pairs))
    item = pairs // items
    order = np.lexsort((-table, item))
    place = np.arange(len(order)) - np.searchsorted(item[order], item[order])
    kept = order[place >= together - 1]
    return sums(item[kept], table[kept], items)


def groups_of(src: Ints, dst: Ints, carried: Floats, items: int) -> list[tuple[int, float]]:
    """Nodes that talk to each other, directly or not, and the least that one direction of any cut through them carries.

    A cut through connected nodes crosses at least one edge of their heaviest spanning tree, and two edges where they form a
    cycle. Half of these bytes leave or enter.
    """
    found = _connected(src, dst, carried, items)
    # Equal groups give equal bounds: a job has thousands of them, of a few kinds.
    return sorted({(size, least / 2) for size, least in found})


def crossing_bytes(src: Ints, dst: Ints, carried: Floats, items: int, sizes: Ints) -> float:
    """Bytes that cross between pieces in all, at the least, when piece m holds up to sizes[m] nodes.

    The largest of three: no node has more partners beside it than the largest piece holds; connected nodes touch as many
    pieces as they need at least, and each piece's part is cut off by two ends of cut edges, shared by two pieces; and the
    eigenvalue bound on graph partitions (Donath, Hoffman 1973): half the sum of the sizes, largest first, times the
    Laplacian's eigenvalues, smallest first.
    """
    room = np.sort(sizes[sizes > 0])[::-1]
    if not len(room) or room[0] >= items:
        return 0.0
    spared = float(least_bytes(src, dst, carried, items, int(room[0])).sum())
    whole = np.cumsum(room)
    touched = 0.0
    for size, least in _connected(src, dst, carried, items):
        needed = int(np.searchsorted(whole, size)) + 1
        touched += least * needed / 2 if needed > 1 else 0.0
    return max(spared, touched, _eigenvalue_bound(src, dst, carried, items, room))


def _connected(src: Ints, dst: Ints, carried: Floats, items: int) -> list[tuple[int, float]]:
    """Size and least bytes, both ways, of a cut of each connected group of two or more."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    used = carried > 0
    low, high = np.minimum(src, dst)[used], np.maximum(src, dst)[used]
    graph = coo_array((carried[used], (low, high)), shape=(items, items)).tocsr()
    count, cluster = connected_components(graph, directed=False)
    if not graph.nnz:
        return []
    negative = graph.copy()
    negative.data = -graph.data
    tree = minimum_spanning_tree(negative).tocoo()
    least = np.full(count, np.inf)
    np.minimum.at(least, cluster[tree.row], -tree.data)
    sizes = np.bincount(cluster, minlength=count)
    kept = np.isfinite(least)
    # A cut through a cycle crosses it twice.
    pairs = graph.tocoo()
    partners = np.bincount(np.concatenate([pairs.row, pairs.col]), minlength=items)
    cycle = np.ones(count, dtype=np.bool_)
    cycle[cluster[partners != 2]] = False
    order = np.lexsort((pairs.data, cluster[pairs.row]))
    begin = np.searchsorted(cluster[pairs.row][order], np.flatnonzero(cycle))
    least[cycle] = pairs.data[order[begin]] + pairs.data[order[begin + 1]]
    return list(zip(sizes[kept].tolist(), least[kept].tolist(), strict=True))


def _eigenvalue_bound(src: Ints, dst: Ints, carried: Floats, items: int, room: Ints) -> float:
    from scipy.linalg import eigvalsh

    if items > _MOST_EIGEN:
        return 0.0
    weight = np.zeros((items, items))
    np.add.at(weight, (src, dst), carried)
    weight += weight.T
    values = np.maximum(eigvalsh(np.diag(weight.sum(axis=1)) - weight), 0.0)
    filled = np.minimum(np.cumsum(room), items)
    held = np.diff(filled, prepend=0)[: len(values)]
    # Rounding of the eigenvalues must not lift the bound.
    return float((held * values[: len(held)]).sum() / 2 * (1 - 1e-9))
