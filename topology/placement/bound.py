"""How fast a step's traffic cannot be beaten: by any routing under a placement, and by any placement at all.

Under a placement: what leaves a part of the fabric (`topology.cuts`), over the speed of all cables that leave it.

Without one, three facts hold whatever the map: each rank sends and receives its bytes through a NIC, but for those that
a neighbour in the same host (or accelerator domain) may take off the network, and the busiest rank can at best have the
fastest NIC, the next the next; all ranks together have no more than as many NICs, each once; and ranks that talk to each other
but are too many for one piece of the fabric must cross out of a piece at least once. Phases follow one another as their
`after` says, and last as long as the computation beside them at least. The bytes are those of the traffic as it is given: another algorithm may need fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.cuts import host_parts
from topology.hops import flows_of
from topology.loads import US_PER_BYTE_AT_1_GBPS

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


def sums(index: Ints, values: Floats, length: int) -> Floats:
    """(length,) sum of the values of each index."""
    total: Floats = np.bincount(index, values, minlength=length).astype(np.float64)
    return total


def lower_bound_us(problem: Problem) -> float:
    """Microseconds that no placement of the problem beats.

    Raises:
        InputError: no NIC of a usable host has a known speed.
    """
    fabric = problem.routing.fabric
    slots, nics = _nic_gbps(fabric, problem)
    pieces = _pieces(fabric, problem)
    together = problem.ranks_per_host * _hosts_in_a_domain(fabric, problem.hosts)
    ends: dict[str, float] = {}
    for phase in problem.traffic.phases:
        start = max((ends[name] for name in phase.after), default=0.0)
        least = _phase_us(phase, problem.traffic.ranks, slots, nics, pieces, together)
        ends[phase.name] = start + max(least, phase.compute_us)
    return max(ends.values(), default=0.0)


def _phase_us(
    phase: Phase, ranks: int, slots: Floats, nics: Floats, pieces: list[tuple[Ints, Floats]], together: int
) -> float:
    if not len(phase.src):
        return 0.0
    best = 0.0
    for own, other in ((phase.src, phase.dst), (phase.dst, phase.src)):
        busy = np.sort(_least_bytes(own, other, phase.edge_bytes, ranks, together))[::-1]
        busy = busy[: min(int(np.count_nonzero(busy)), len(slots))]
        best = max(best, float((busy / slots[: len(busy)]).max(initial=0.0)))
        best = max(best, float(busy.sum() / nics[: len(busy)].sum()) if len(busy) else 0.0)
    clusters = _clusters(phase, ranks)
    for sizes, speeds in pieces:
        best = max([best, *(least / _crossing_gbps(count, sizes, speeds) for count, least in clusters)])
    return best * US_PER_BYTE_AT_1_GBPS


def _least_bytes(own: Ints, other: Ints, carried: Floats, ranks: int, together: int) -> Floats:
    """(R,) bytes that each rank must move over a NIC even with its `together` - 1 heaviest partners beside it."""
    pairs, index = np.unique(own * ranks + other, return_inverse=True)
    table = sums(index, carried, len(pairs))
    rank = pairs // ranks
    order = np.lexsort((-table, rank))
    place = np.arange(len(order)) - np.searchsorted(rank[order], rank[order])
    kept = order[place >= together - 1]
    return sums(rank[kept], table[kept], ranks)


def _nic_gbps(fabric: Fabric, problem: Problem) -> tuple[Floats, Floats]:
    """Fastest NIC behind each slot of the usable hosts, and each NIC that a slot can have to itself; fastest first."""
    slots: list[float] = []
    nics: list[float] = []
    for host in problem.hosts:
        speeds = fabric.ports.speed_gbps[fabric.nics(host)]
        # A NIC of unknown speed may be as fast as one likes.
        ordered = np.sort(np.where(speeds > 0, speeds, np.inf))[::-1][: problem.ranks_per_host].tolist()
        slots += ordered[:1] * problem.ranks_per_host
        nics += ordered
    known = np.isfinite(nics)
    if not known.any():
        raise InputError("no NIC's speed is known, so there is no bound")
    return np.sort(slots)[::-1], np.sort(nics)[::-1]


def _hosts_in_a_domain(fabric: Fabric, hosts: tuple[str, ...]) -> int:
    domains = fabric.nodes.nvl_domain[[fabric.node_row(host) for host in hosts]]
    return max(int(np.bincount(domains[domains >= 0], minlength=1).max()), 1)


def _pieces(fabric: Fabric, problem: Problem) -> list[tuple[Ints, Floats]]:
    """For each tier (M,) slots in each piece, and the faster of its two directions."""
    rows = [fabric.node_row(host) for host in problem.hosts]
    found = []
    for family in host_parts(fabric)[1:]:
        sizes = np.bincount(family.of_node[rows], minlength=len(family.names)) * problem.ranks_per_host
        found.append((sizes, np.maximum(family.out_gbps, family.in_gbps)))
    return found


def _crossing_gbps(ranks: int, sizes: Ints, speeds: Floats) -> float:
    """Speed of the slowest piece that `ranks` ranks must at best leave; infinite where one piece holds them all."""
    needed = int(np.searchsorted(np.cumsum(np.sort(sizes)[::-1]), ranks)) + 1
    if needed == 1:
        return np.inf
    usable = np.sort(speeds[sizes > 0])[::-1]
    return float(usable[needed - 1]) if needed <= len(usable) and usable[needed - 1] > 0 else np.inf


def _clusters(phase: Phase, ranks: int) -> list[tuple[int, float]]:
    """Ranks that talk to each other, directly or not, and the least that one direction of any cut through them carries.

    A cut through connected ranks crosses at least one edge of their heaviest spanning tree. Its bytes, or half of them
    where both directions of the pair were added up, leave or enter.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    used = phase.edge_bytes > 0
    low, high = np.minimum(phase.src, phase.dst)[used], np.maximum(phase.src, phase.dst)[used]
    graph = coo_array((phase.edge_bytes[used], (low, high)), shape=(ranks, ranks)).tocsr()
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
    # Equal clusters give equal bounds: a job has thousands of them, of a few kinds.
    return sorted(set(zip(sizes[kept].tolist(), (least[kept] / 2).tolist(), strict=True)))
