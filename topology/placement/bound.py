"""How fast a step's traffic cannot be beaten: by any routing under a placement, and by any placement at all.

Under a placement: what leaves a part of the fabric (`topology.cuts`), over the speed of all cables that leave it.

Without one, four facts hold whatever the map: each node sends and receives its bytes through its NICs, but for those that
a neighbour in the same accelerator domain may take off the network, and the busiest can at best have the fastest NIC, the next
the next; all together have no more than as many NICs, each once; nodes that talk to each other but are too many for one piece
of the fabric (a leaf, a pod) must cross out of a piece at least once; and what must cross in all (`topology.placement.crossing`)
has no more than the cables of all pieces. Phases follow one another as their `after` says, and last as long as the computation
beside them at least. The bytes are those of the traffic as it is given: another algorithm may need fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.cuts import host_parts
from topology.hops import flows_of
from topology.loads import US_PER_BYTE_AT_1_GBPS
from topology.placement.crossing import crossing_bytes, groups_of, least_bytes, sums
from topology.placement.mapping import nic_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.cuts import Parts
    from topology.fabric import Fabric
    from topology.placement.problem import Problem
    from topology.routing import Routing
    from topology.traffic import Phase, Transfers

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

NOTHING = "nothing crosses the network"


@dataclass(frozen=True)
class Bound:
    """A time that cannot be beaten.

    Attributes:
        time_us: microseconds.
        where: what binds, for tables: `out of host/h3/nic/eth0`.
    """

    time_us: float
    where: str = NOTHING


def cut_bound(routing: Routing, moved: Transfers, parts: list[Parts]) -> Bound:
    """Bound of transfers that all run at once, over all cuts of `topology.cuts.nic_parts`.

    Raises:
        InputError: bytes must leave or enter a part that no cable joins to the rest.
        UnknownPathError: a NIC with traffic has no cable that is up.
    """
    best = Bound(0.0)
    rows = flows_of(routing, moved).row
    carried_by = moved.bytes_[rows]
    for family in parts:
        src, dst = family.of_port[moved.src_port[rows]], family.of_port[moved.dst_port[rows]]
        crosses = src != dst
        for side, speed, way in ((src, family.out_gbps, "out of"), (dst, family.in_gbps, "into")):
            carried = sums(side[crosses], carried_by[crosses], len(speed))
            best = max(best, cut_time(carried, speed, family.names, way), key=lambda found: found.time_us)
    return best


def cut_time(carried: Floats, speed_gbps: Floats, names: tuple[str, ...], way: str) -> Bound:
    """The slowest of (M,) cuts that carry bytes at their speeds.

    Raises:
        InputError: a cut carries bytes but has no cable that is up.
    """
    stuck = (carried > 0) & (speed_gbps == 0)
    if stuck.any():
        raise InputError(f"traffic goes {way} {names[int(np.argmax(stuck))]}, which has no cable that is up")
    times = np.divide(
        carried * US_PER_BYTE_AT_1_GBPS, speed_gbps, out=np.zeros_like(carried), where=carried > 0
    )
    worst = int(np.argmax(times)) if len(times) else -1
    return (
        Bound(float(times[worst]), f"{way} {names[worst]}") if len(times) and times[worst] > 0 else Bound(0.0)
    )


def lower_bound_us(problem: Problem, *, scattered: bool = False) -> float:
    """Microseconds that no placement of the problem beats.

    Args:
        problem: the problem.
        scattered: ranks of a node may be on different hosts and use any NIC there, as in maps made elsewhere; else
            consecutive ranks share one.

    Raises:
        InputError: no NIC of a usable host has a known speed.
    """
    fabric = problem.routing.fabric
    size = 1 if scattered else problem.ranks_per_host
    nics = _nics(problem, scattered=scattered)
    pieces = _pieces(fabric, problem, problem.ranks_per_host // size)
    together = problem.ranks_per_host // size * _hosts_in_a_domain(fabric, problem.hosts)
    kept: dict[bytes, float] = {}
    ends: dict[str, float] = {}
    for phase in problem.traffic.phases:
        start = max((ends[name] for name in phase.after), default=0.0)
        key = phase.src.tobytes() + phase.dst.tobytes() + phase.edge_bytes.tobytes()
        if key not in kept:
            kept[key] = _phase_us(phase, problem, size, nics, pieces, together)
        ends[phase.name] = start + max(kept[key], phase.compute_us)
    return max(ends.values(), default=0.0)


@dataclass(frozen=True)
class _Nics:
    """What the NICs of the usable hosts can carry.

    Attributes:
        kind: (ranks on a host,) kind of NIC that each rank of a node uses; all 0 where it may be any.
        behind: for each kind (slots,) the speed behind each slot, fastest first.
        alone: for each kind the speeds of NICs that a slot can have to itself, fastest first.
    """

    kind: Ints
    behind: list[Floats]
    alone: list[Floats]


def _phase_us(
    phase: Phase,
    problem: Problem,
    size: int,
    nics: _Nics,
    pieces: list[tuple[Ints, Floats]],
    together: int,
) -> float:
    src, dst = phase.src // size, phase.dst // size
    apart = src != dst
    if not apart.any():
        return 0.0
    src, dst, carried = src[apart], dst[apart], phase.edge_bytes[apart].astype(np.float64)
    items = -(-problem.traffic.ranks // size)
    best = 0.0
    for own, other, rank in ((src, dst, phase.src[apart]), (dst, src, phase.dst[apart])):
        kind = nics.kind[rank % len(nics.kind)]
        for number, (behind, alone) in enumerate(zip(nics.behind, nics.alone, strict=True)):
            some = kind == number
            busy = np.sort(least_bytes(own[some], other[some], carried[some], items, together))[::-1]
            busy = busy[: min(int(np.count_nonzero(busy)), len(behind))]
            if len(busy):
                best = max(best, float((busy / behind[: len(busy)]).max()))
                best = max(best, float(busy.sum() / alone[: len(busy)].sum()))
    linked = groups_of(src, dst, carried, items)
    for sizes, speeds in pieces:
        best = max([best, *(least / _crossing_gbps(count, sizes, speeds) for count, least in linked)])
        # What crosses in all leaves one piece and enters another: the cables of all pieces share it.
        crossing = crossing_bytes(src, dst, carried, items, sizes)
        whole = float(speeds[sizes > 0].sum())
        best = max(best, crossing / whole if whole else 0.0)
    return best * US_PER_BYTE_AT_1_GBPS


def _nics(problem: Problem, *, scattered: bool) -> _Nics:
    """Speeds by kind of NIC where every host has the same kinds in the same places, else of hosts as a whole.

    Raises:
        InputError: no NIC's speed is known.
    """
    fabric = problem.routing.fabric
    # A NIC of unknown speed may be as fast as one likes.
    speed = np.where(fabric.ports.speed_gbps > 0, fabric.ports.speed_gbps, np.inf)
    table = nic_table(fabric, problem.rows, problem.ranks_per_host)
    if not np.isfinite(speed[table]).any():
        raise InputError("no NIC's speed is known, so there is no bound")
    first = (table[:, :, None] == table[:, None, :]).argmax(axis=2)
    if scattered:
        nics = np.flatnonzero(np.isin(fabric.ports.node, problem.rows))
        fastest = np.zeros(len(fabric.nodes.name))
        np.maximum.at(fastest, fabric.ports.node[nics], speed[nics])
        behind, alone = np.repeat(fastest[problem.rows], problem.ranks_per_host), speed[nics]
        return _Nics(np.zeros(1, dtype=np.int64), [np.sort(behind)[::-1]], [np.sort(alone)[::-1]])
    if (first == first[0]).all():
        kinds, kind = np.unique(first[0], return_inverse=True)
        columns = [np.sort(speed[table[:, place]])[::-1] for place in kinds]
        return _Nics(kind, columns, columns)
    own = np.where(first == np.arange(table.shape[1]), speed[table], 0.0).sum(axis=1)
    whole = [np.sort(own)[::-1]]
    return _Nics(np.zeros(problem.ranks_per_host, dtype=np.int64), whole, whole)


def _hosts_in_a_domain(fabric: Fabric, hosts: tuple[str, ...]) -> int:
    domains = fabric.nodes.nvl_domain[[fabric.node_row(host) for host in hosts]]
    return max(int(np.bincount(domains[domains >= 0], minlength=1).max()), 1)


def _pieces(fabric: Fabric, problem: Problem, slots: int) -> list[tuple[Ints, Floats]]:
    """For each tier (M,) slots in each piece, and the faster of its two directions."""
    found = []
    for family in host_parts(fabric)[1:]:
        sizes = np.bincount(family.of_node[problem.rows], minlength=len(family.names)) * slots
        found.append((sizes, np.maximum(family.out_gbps, family.in_gbps)))
    return found


def _crossing_gbps(items: int, sizes: Ints, speeds: Floats) -> float:
    """Speed of the slowest piece that so many must at best leave; infinite where one piece holds them all."""
    needed = int(np.searchsorted(np.cumsum(np.sort(sizes)[::-1]), items)) + 1
    if needed == 1:
        return np.inf
    usable = np.sort(speeds[sizes > 0])[::-1]
    return float(usable[needed - 1]) if needed <= len(usable) and usable[needed - 1] > 0 else np.inf
