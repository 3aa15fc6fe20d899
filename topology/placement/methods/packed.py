"""Units that talk most share a leaf group: greedy packing of the traffic graph, cluster by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from topology.placement.problem import Problem


def order(problem: Problem) -> NDArray[np.int64]:
    """(units,) slot of each unit.

    Leaf groups with the most slots are filled first. Each starts with the unit that talked most with those placed last, else
    the one that has most traffic left, then takes the unit that has most traffic with those already there; O(U^2)
    additions for U units.
    """
    both_ways = unit_bytes(problem)
    group = problem.group_of_slot
    left = np.ones(problem.units, dtype=np.bool_)
    found = problem.pinned.copy()
    left[found >= 0] = False
    open_ = np.ones(len(group), dtype=np.bool_)
    open_[found[found >= 0]] = False
    sizes = np.bincount(group[open_] + 1, minlength=1)
    last = np.zeros(problem.units)
    for leaf in sorted(np.unique(group[open_]).tolist(), key=lambda one: (-sizes[one + 1], one)):
        pull = np.zeros(problem.units)
        for unit in np.flatnonzero((found >= 0) & (group[found] == leaf)).tolist():
            _add(pull, both_ways, unit)
        total = both_ways @ left.astype(np.float64)
        here = last + pull
        for slot in np.flatnonzero(open_ & (group == leaf)).tolist():
            if not left.any():
                return found
            best = here if here[left].any() else total
            unit = int(np.argmax(np.where(left, best, -1.0)))  # the lowest unit among equals: stable
            left[unit] = False
            _add(pull, both_ways, unit)
            here = pull
            found[unit] = slot
        last = pull
    return found


def _add(pull: NDArray[np.float64], table: csr_array, unit: int) -> None:
    row = slice(table.indptr[unit], table.indptr[unit + 1])
    pull[table.indices[row]] += table.data[row]


def unit_bytes(problem: Problem) -> csr_array:
    """(U, U) sparse bytes of a step between each two units, both ways added up."""
    from scipy.sparse import coo_array

    size = problem.ranks_in_a_unit
    table = coo_array((problem.units,) * 2).tocsr()
    for phase in problem.traffic.phases:
        src, dst = phase.src // size, phase.dst // size
        apart = src != dst
        one = coo_array(
            (phase.edge_bytes[apart].astype(np.float64), (src[apart], dst[apart])), shape=table.shape
        ).tocsr()
        table = table + one
    return (table + table.T).tocsr()
