"""A job's traffic and a fabric's cuts as columns for a search: which unit sends what to which, and what each slot lies behind.

A cut is a part of the fabric that cables leave: a leaf of one rail, a pod, a plane (`topology.cuts`). What a unit puts on
a cut depends on the slot alone, so a swap of two units changes the sums of few cuts. Nothing is kept for pairs of ranks:
edges are added up by unit and rail, and rails that look alike are looked at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.cuts import tier_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CutEdges:
    """E edges between units over S slots with C columns (kinds of NICs of a unit), L levels of cuts, J cut directions.

    Attributes:
        phase, src, src_column, dst, dst_column: (E,) each.
        bytes_: (E,) bytes of a step.
        squares: (E,) sum of the squares of what each connection carries: how uneven ECMP makes links.
        part: (L, S, C) the cut that a slot's column is behind, as the number of its outward direction.
        inward: what is added to that number for the inward direction.
        domain: (S, C) accelerator domain; -1 none.
        gbps, cables: (J,) speed of all cables of a cut in that direction, and their number.
        background: (J,) bytes of other jobs while one step lasts.
        floor_us: (phases,) time of the busiest NIC where it is the same for every map; 0 where NICs are cuts.
    """

    phase: Ints
    src: Ints
    src_column: Ints
    dst: Ints
    dst_column: Ints
    bytes_: Floats
    squares: Floats
    part: Ints
    inward: int
    domain: Ints
    gbps: Floats
    cables: Ints
    background: Floats
    floor_us: Floats


def cut_edges(problem: Problem) -> CutEdges:
    """The columns of a problem.

    Raises:
        InputError: as `Problem.port_of_place`.
    """
    fabric = problem.routing.fabric
    ports = problem.port_of_place
    speed = fabric.ports.speed_gbps[ports]
    domain = np.repeat(fabric.nodes.nvl_domain[problem.rows[problem.slots]], problem.ranks_per_host, axis=1)
    own = bool((domain >= 0).any() or (speed != speed[:1]).any() or problem.background is not None)
    part, gbps, cables, background = _cuts(problem, ports, own=own)
    # Ranks of a unit whose NICs are behind the same cuts in every slot are one column.
    looks = np.concatenate([*part, domain], axis=0)
    _, first, column = np.unique(looks, axis=1, return_index=True, return_inverse=True)
    column = column.ravel()
    rows = _added(problem, column, len(first))
    floor = np.zeros(len(problem.traffic.phases)) if own else _nic_floor(problem, speed)
    part, domain = part[:, :, first], domain[:, first]
    if _rails_are_alike(rows, part, gbps, cables):
        rows = rows.take(rows.src_column == 0)
        part, domain = part[:, :, :1], domain[:, :1]
    return CutEdges(
        **vars(rows), part=part, inward=len(gbps) // 2, domain=domain, gbps=gbps, cables=cables,
        background=background, floor_us=floor,
    )  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    """The edges of `CutEdges`, before they know any cut."""

    phase: Ints
    src: Ints
    src_column: Ints
    dst: Ints
    dst_column: Ints
    bytes_: Floats
    squares: Floats

    def take(self, which: NDArray[np.generic]) -> _Rows:
        """The chosen rows."""
        return _Rows(*(column[which] for column in vars(self).values()))


def _cuts(problem: Problem, ports: Ints, *, own: bool) -> tuple[Ints, Floats, Ints, Floats]:
    """(L, S, places) cut of every NIC, and the columns of the cuts; with `own`, every NIC is a cut of its own first."""
    fabric = problem.routing.fabric
    others = problem.background if problem.background is not None else np.zeros(fabric.directed_count)
    sender, receiver = fabric.directed_ports.T
    parts, columns, count = [], [], 0
    if own:
        used, place = np.unique(ports, return_inverse=True)
        speed = np.where(fabric.ports.speed_gbps[used] > 0, fabric.ports.speed_gbps[used], np.inf)
        parts.append(place.reshape(ports.shape))
        one = np.ones(len(used), dtype=np.int64)
        wire = fabric.out_of_port[used]
        met = [np.where(wire >= 0, others[wire], 0.0), np.where(wire >= 0, others[wire ^ 1], 0.0)]
        columns.append((speed, speed, one, one, met[0], met[1]))
        count = len(used)
    for family in tier_parts(fabric):
        parts.append(family.of_port[ports] + count)
        count += len(family.names)
        ends = [family.inside[side] for side in (sender, receiver)]
        crossing = ends[0] != ends[1]
        met = [
            np.bincount(
                side[crossing & (side >= 0)], others[crossing & (side >= 0)], minlength=len(family.names)
            )
            for side in ends
        ]
        columns.append((family.out_gbps, family.in_gbps, family.out_cables, family.in_cables, met[0], met[1]))
    if not parts:
        empty = np.empty(0)
        return np.empty((0, *ports.shape), np.int64), empty, empty.astype(np.int64), empty
    gbps, cables, met_all = (
        np.concatenate([*(one[key] for one in columns), *(one[key + 1] for one in columns)])
        for key in (0, 2, 4)
    )
    return np.stack(parts), np.maximum(gbps, 1e-9), np.maximum(cables, 1).astype(np.int64), met_all


def _added(problem: Problem, column: Ints, columns: int) -> _Rows:
    """Edges between hosts, added up by unit and column."""
    size, many = problem.ranks_in_a_unit, problem.units * columns
    found = [(np.empty(0, np.int64),) * 5 + (np.empty(0),) * 2]
    for number, phase in enumerate(problem.traffic.phases):
        apart = phase.src // problem.ranks_per_host != phase.dst // problem.ranks_per_host
        src, dst, carried = phase.src[apart], phase.dst[apart], phase.edge_bytes[apart].astype(np.float64)
        keys = (src // size * columns + column[src % size]) * many
        pairs, index = np.unique(keys + dst // size * columns + column[dst % size], return_inverse=True)
        one, other = pairs // many, pairs % many
        ends = (one // columns, one % columns, other // columns, other % columns)
        bytes_ = np.bincount(index, carried, minlength=len(pairs)).astype(np.float64)
        squares = np.bincount(index, carried**2 / phase.connections, minlength=len(pairs)).astype(np.float64)
        found.append((np.full(len(pairs), number, dtype=np.int64), *ends, bytes_, squares))
    return _Rows(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _rails_are_alike(rows: _Rows, part: Ints, gbps: Floats, cables: Ints) -> bool:
    """Whether all columns carry the same edges, never cross, and are behind cuts of their own that look alike."""
    columns = part.shape[2]
    if columns == 1 or not len(part) or (rows.src_column != rows.dst_column).any():
        return False
    first, *others = (rows.take(rows.src_column == column) for column in range(columns))
    for other in others:
        if len(other.src) != len(first.src):
            return False
        if any((getattr(other, end) != getattr(first, end)).any() for end in ("phase", "src", "dst")):
            return False
        if not all(np.allclose(getattr(other, what), getattr(first, what)) for what in ("bytes_", "squares")):
            return False
    half = len(gbps) // 2
    for level in part:
        seen = np.full(half, -1, dtype=np.int64)
        for column in range(columns):
            mine = level[:, column]
            twin = np.full(half, -1, dtype=np.int64)
            twin[mine] = level[:, 0]
            if (seen[mine] >= 0).any() or (twin[mine] != level[:, 0]).any():
                return False
            if len(np.unique(mine)) != len(np.unique(level[:, 0])):
                return False
            for way in (0, half):
                alike = (gbps[mine + way] == gbps[level[:, 0] + way]) & (
                    cables[mine + way] == cables[level[:, 0] + way]
                )
                if not alike.all():
                    return False
            seen[mine] = column
    return True


def _nic_floor(problem: Problem, speed: Floats) -> Floats:
    """(phases,) time of the busiest NIC; every slot has the same NICs, and all edges between hosts use them."""
    from topology.loads import US_PER_BYTE_AT_1_GBPS

    size, first = problem.ranks_in_a_unit, problem.port_of_place[0]
    _, nic = np.unique(first, return_inverse=True)
    per_byte = np.divide(US_PER_BYTE_AT_1_GBPS, speed[0], out=np.zeros(len(first)), where=speed[0] > 0)
    count = int(nic.max(initial=0)) + 1
    floor = []
    for phase in problem.traffic.phases:
        apart = phase.src // problem.ranks_per_host != phase.dst // problem.ranks_per_host
        worst = 0.0
        for rank in (phase.src[apart], phase.dst[apart]):
            key = rank // size * count + nic[rank % size]
            total = np.bincount(key, phase.edge_bytes[apart] * per_byte[rank % size], minlength=1)
            worst = max(worst, float(total.max()))
        floor.append(worst)
    return np.array(floor)
