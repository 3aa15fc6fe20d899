"""The best map of a small problem: all maps where they can be priced, else the least mean load by integer programming.

All maps: `topology.placement.classes`, the least p95 over port draws. Beyond that, units are assigned to clusters of slots that
look alike so that the step is shortest when every cut's bytes are spread evenly over its cables (scipy.optimize.milp,
HiGHS); of that map and nettune's the cheaper by price is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.loads import US_PER_BYTE_AT_1_GBPS
from topology.placement.classes import best_of_all
from topology.placement.cutedges import cut_edges
from topology.placement.methods import depth_first, search
from topology.placement.pricing import predicted_price
from topology.placement.swapping import clusters_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from topology.placement.cutedges import CutEdges
    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST_MAPS = 400_000
"""Maps that are priced one and all: 9 nodes on 9 different hosts, about a minute."""
MOST_ROWS = 2000
"""Rows of an integer program."""
_NODES = 20_000
"""Branches that are looked at; more than that and the best map so far is taken."""


def order(problem: Problem) -> Ints:
    """(units,) slot of each unit.

    Raises:
        InputError: too many maps, and too large for an integer program.
    """
    if not any(len(phase.src) for phase in problem.traffic.phases):
        return depth_first.order(problem)
    found = best_of_all(problem, MOST_MAPS)
    if found is not None:
        return found
    edges = cut_edges(problem)
    rows = 2 * len(edges.src) * sum(len(np.unique(part)) for part in edges.part)
    if rows > MOST_ROWS:
        raise InputError(
            f"{problem.units} nodes on {len(problem.slots)} hosts are too many for the exact method; use nettune"
        )
    maps = [search.order(problem)]
    solved = _solved(problem, edges)
    if solved is not None:
        maps.append(solved)
    return min(maps, key=lambda slots: predicted_price(problem, slots))


def _solved(problem: Problem, edges: CutEdges) -> Ints | None:
    """(units,) slots of the least mean load; None where no map was found in time.

    Columns: one for each unit and cluster (1 where the unit is there), one for each edge and cut direction (at least 1
    where the edge crosses it), one for each phase's time and one for its end, and the step.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    cluster = clusters_of(edges, problem)
    count, units = int(cluster.max()) + 1, problem.units
    example = np.array([int(np.argmax(cluster == number)) for number in range(count)])
    crossing = [
        (edge, level, way, cut)
        for edge in range(len(edges.src))
        for level in range(len(edges.part))
        for way in (0, 1)
        for cut in np.unique(edges.part[level]).tolist()
    ]
    phases = problem.traffic.phases
    first_time = units * count + len(crossing)
    first_end = first_time + len(phases)
    columns = first_end + len(phases) + 1
    table = _Rows(columns)
    for unit in range(units):
        table.add({unit * count + number: 1.0 for number in range(count)}, 1.0, 1.0)
        if problem.pinned[unit] >= 0:
            table.add({unit * count + int(cluster[problem.pinned[unit]]): 1.0}, 1.0, 1.0)
    for number, room in enumerate(np.bincount(cluster, minlength=count).tolist()):
        table.add({unit * count + number: 1.0 for unit in range(units)}, 0.0, float(room))
    carried: dict[tuple[int, int], dict[int, float]] = {}
    unit_us = (
        US_PER_BYTE_AT_1_GBPS * float(edges.bytes_.max()) / float(edges.gbps[np.isfinite(edges.gbps)].max())
    )
    for place, (edge, level, way, cut) in enumerate(crossing):
        ends = [(edges.src[edge], edges.src_column[edge]), (edges.dst[edge], edges.dst_column[edge])]
        (own, own_column), (far, far_column) = ends[::-1] if way else ends
        # Inside with one end and not with the other: x(own inside) - x(far inside) <= crosses.
        row = {units * count + place: -1.0}
        for number in range(count):
            slot = example[number]
            for unit, column, sign in ((own, own_column, 1.0), (far, far_column, -1.0)):
                if edges.part[level, slot, column] == cut:
                    key = int(unit) * count + number
                    row[key] = row.get(key, 0.0) + sign
        table.add(row, -np.inf, 0.0)
        direction = cut + way * edges.inward
        time = edges.bytes_[edge] * US_PER_BYTE_AT_1_GBPS / edges.gbps[direction] / unit_us
        carried.setdefault((int(edges.phase[edge]), direction), {})[units * count + place] = float(time)
    for (of, _), row in carried.items():
        table.add({**row, first_time + of: -1.0}, -np.inf, 0.0)
    number_of = {phase.name: number for number, phase in enumerate(phases)}
    for number, phase in enumerate(phases):
        least = max(float(edges.floor_us[number]), phase.compute_us) / unit_us
        table.add({first_time + number: 1.0}, least, np.inf)
        table.add({first_end + number: 1.0, first_time + number: -1.0}, 0.0, np.inf)
        for name in phase.after:
            row = {first_end + number: 1.0, first_time + number: -1.0, first_end + number_of[name]: -1.0}
            table.add(row, 0.0, np.inf)
        table.add({columns - 1: 1.0, first_end + number: -1.0}, 0.0, np.inf)
    goal = np.zeros(columns)
    goal[-1] = 1.0
    whole = np.zeros(columns, dtype=np.int64)
    whole[: units * count] = 1
    upper = np.full(columns, np.inf)
    upper[: units * count + len(crossing)] = 1.0
    matrix, low, high = table.columns()
    solution = milp(
        goal,
        integrality=whole,
        bounds=Bounds(np.zeros(columns), upper),
        constraints=LinearConstraint(matrix, low, high),
        options={"node_limit": _NODES, "mip_rel_gap": 1e-3},
    )
    if solution.x is None:
        return None
    chosen = np.asarray(solution.x)[: units * count].reshape(units, count).argmax(axis=1)
    return _in_slots(problem, cluster, chosen)


def _in_slots(problem: Problem, cluster: Ints, chosen: Ints) -> Ints:
    from topology.placement.classes import slots_of_classes

    return slots_of_classes(problem, cluster, chosen)


class _Rows:
    """Rows of a sparse matrix with their bounds."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[dict[int, float]] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def add(self, row: dict[int, float], low: float, high: float) -> None:
        """One row."""
        self._rows.append(row)
        self._low.append(low)
        self._high.append(high)

    def columns(self) -> tuple[csr_array, list[float], list[float]]:
        """Matrix, lower and upper bounds."""
        from scipy.sparse import csr_array

        first = np.cumsum([0, *map(len, self._rows)])
        values = np.array([value for row in self._rows for value in row.values()])
        keys = np.array([key for row in self._rows for key in row], dtype=np.int64)
        return csr_array((values, keys, first), shape=(len(self._rows), self._columns)), self._low, self._high
