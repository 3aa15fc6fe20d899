"""The cut bound of a collective: a time that no algorithm, no routing and (if asked) no choice of hosts can beat.

Unlike `topology.placement.bound`, which takes the bytes of the traffic as given, this asks what the operation itself
must move. For a part of the fabric that holds a share f of a group's ranks (and not all of them), of a message of S
bytes, at least this must leave and enter it:

| operation      | out                          | in                           | all parts together, m of them |
|----------------|------------------------------|------------------------------|-------------------------------|
| all_reduce     | S                            | S                            | 2 (m - 1) S                   |
| reduce_scatter | (1 - f) S                    | f S                          | (m - 1) S                     |
| all_gather     | f S                          | (1 - f) S                    | (m - 1) S                     |
| broadcast      | S out of the root's part     | S into every other           | (m - 1) S                     |
| reduce         | S out of every other         | S into the root's part       | (m - 1) S                     |
| all_to_all     | f (1 - f) n S                | f (1 - f) n S                | sum of f (1 - f) n S          |

The last column of all_reduce: before any part holds the whole sum of an element, m - 1 others must have sent it on, and
after that m - 1 others must still receive it (the argument of Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009;
from memory). It is over what all parts together can send. What beats this, and is left out: reduction or multicast
inside switches (SHARP), and ranks outside the group that help (a parameter server). Compression is another message
size. Latency is left out. Hosts of one accelerator domain are one part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nettune.errors import InputError
from topology.cuts import Parts, host_parts
from topology.fabric import Fabric
from topology.loads import US_PER_BYTE_AT_1_GBPS
from topology.placement.bound import Bound, cut_time
from topology.placement.mapping import Placement

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Demand:
    """One operation that several groups of ranks carry out at once.

    Attributes:
        op: a name of `OPERATIONS`.
        size_bytes: message size, the largest buffer of a rank as in nccl-tests.
        groups: ranks of each group, equally many; the first is the root of a rooted operation.

    Raises:
        InputError: an unknown operation, a negative size, no group, groups of different lengths, a rank twice in one.
    """

    op: str
    size_bytes: float
    groups: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if self.op not in OPERATIONS:
            raise InputError(f"no bound for {self.op!r}; known: {', '.join(OPERATIONS)}")
        if not 0 <= self.size_bytes < np.inf or not self.groups or not len(self.groups[0]):
            raise InputError(f"{self.op}: the size is negative or no number, or there is no group of ranks")
        if any(len(set(group)) != len(self.groups[0]) for group in self.groups):
            raise InputError(f"{self.op}: groups differ in length, or hold a rank twice")


@dataclass(frozen=True)
class _Operation:
    """Least bytes in units of the message, of parts with share f of n ranks; `root` says whether it is in the part."""

    out: Callable[[Floats, Floats, int], Floats]
    into: Callable[[Floats, Floats, int], Floats]
    per_extra_part: float  # all parts together, for each part beyond the first; 0 where `out` says it all


OPERATIONS: dict[str, _Operation] = {
    "all_reduce": _Operation(lambda f, _r, _n: np.ones_like(f), lambda f, _r, _n: np.ones_like(f), 2.0),
    "reduce_scatter": _Operation(lambda f, _r, _n: 1 - f, lambda f, _r, _n: f, 1.0),
    "all_gather": _Operation(lambda f, _r, _n: f, lambda f, _r, _n: 1 - f, 1.0),
    "broadcast": _Operation(lambda _f, r, _n: r, lambda _f, r, _n: 1 - r, 1.0),
    "reduce": _Operation(lambda _f, r, _n: 1 - r, lambda _f, r, _n: r, 1.0),
    "all_to_all": _Operation(lambda f, _r, n: f * (1 - f) * n, lambda f, _r, n: f * (1 - f) * n, 0.0),
}


def collective_bound(fabric: Fabric, placement: Placement, demands: Sequence[Demand]) -> Bound:
    """Bound of operations that all run at once under a placement.

    Raises:
        InputError: a rank that the placement has not, or a part that must be left and has no cable.
    """
    best = Bound(0.0)
    if not demands:
        return best
    for parts in host_parts(fabric):
        part_of_rank = parts.of_node[placement.host]
        count = len(parts.names)
        out, into = np.zeros(count), np.zeros(count)
        held = []  # for each demand (G, n) part of each rank
        for demand in demands:
            table = np.array(demand.groups, dtype=np.int64)
            if table.min() < 0 or table.max() >= placement.ranks:
                raise InputError(f"{demand.op}: a rank is not one of the placement's {placement.ranks}")
            held.append(part_of_rank[table])
            _add(demand, held[-1], out, into)
        for carried, speed, way in ((out, parts.out_gbps, "out of"), (into, parts.in_gbps, "into")):
            best = max(best, cut_time(carried, speed, parts.names, way), key=lambda found: found.time_us)
        best = max(best, _together(parts, demands, held), key=lambda found: found.time_us)
    return best


def _add(demand: Demand, held: Ints, out: Floats, into: Floats) -> None:
    """Add what each part must send and receive for the groups of one demand."""
    groups, ranks = held.shape
    cells, index, times = np.unique(
        np.arange(groups)[:, None] * len(out) + held, return_inverse=True, return_counts=True
    )
    share = times / ranks
    split = share < 1
    root = np.zeros(len(cells))
    root[index.reshape(held.shape)[:, 0]] = 1.0
    part = cells % len(out)
    operation = OPERATIONS[demand.op]
    for total, least in ((out, operation.out), (into, operation.into)):
        np.add.at(total, part[split], demand.size_bytes * least(share, root, ranks)[split])


def _together(parts: Parts, demands: Sequence[Demand], held: Sequence[Ints]) -> Bound:
    """What the k slowest parts and the rest as one part must exchange, over all that they can; the worst k.

    Whatever crosses leaves one of the k parts, or leaves the rest into one of them.
    """
    used = np.unique(np.concatenate([table.ravel() for table in held]))
    order = used[np.argsort(parts.out_gbps[used], kind="stable")]
    place = np.full(len(parts.names), len(order))
    place[order] = np.arange(len(order))
    crossings = np.zeros(len(order))  # for k = 0, 1, ... the bytes that cross at least
    for demand, table in zip(demands, held, strict=True):
        extra = OPERATIONS[demand.op].per_extra_part * demand.size_bytes
        if not extra:
            continue
        # Place of each part that a group has, once; the part at the last place is the group's "rest" for every k below.
        ranked = np.sort(place[table], axis=1)
        fresh = np.diff(ranked, axis=1) > 0
        # Going from k to k + 1 parts a group gains one part when the part at place k is its own and not its last.
        np.add.at(crossings, ranked[:, :-1][fresh] + 1, extra)
    crossings = np.cumsum(crossings)
    out, into = parts.out_gbps[order], parts.in_gbps[order]
    rest = np.append(np.cumsum(out[::-1])[::-1][1:], 0.0)
    speed = np.cumsum(out) + np.minimum(rest, np.cumsum(into))
    usable = (speed[:-1] > 0) & np.isfinite(speed[:-1])
    times = crossings[1:][usable] / speed[:-1][usable] * US_PER_BYTE_AT_1_GBPS
    if not times.max(initial=0.0) > 0:
        return Bound(0.0)
    number = int(np.flatnonzero(usable)[np.argmax(times)]) + 1
    return Bound(float(times.max()), f"the {number} slowest parts at level {parts.level} together")


def best_hosts_bound(
    fabric: Fabric,
    op: str,
    size_bytes: float,
    ranks: int,
    *,
    ranks_per_host: int = 1,
    hosts: Sequence[str] | None = None,
) -> Bound:
    """Bound of one group of `ranks` over any of `hosts` (all by default): no choice of hosts or rank order beats it.

    With m parts in use the slowest of them is at best the m-th fastest, and all of them at best the m fastest; m is at
    least the number that the ranks need.

    Raises:
        InputError: no such operation, or too few hosts, or too few that are joined.
    """
    demand = Demand(op, size_bytes, [range(ranks)])
    rows = [fabric.node_row(host) for host in (fabric.hosts if hosts is None else dict.fromkeys(hosts))]
    best = Bound(0.0)
    for parts in host_parts(fabric):
        slots = np.bincount(parts.of_node[rows], minlength=len(parts.names)) * ranks_per_host
        if slots.sum() < ranks:
            raise InputError(f"{ranks} ranks need more than the {slots.sum()} slots of these hosts")
        needed = int(np.searchsorted(np.cumsum(np.sort(slots)[::-1]), ranks)) + 1
        if needed == 1:
            continue
        usable = slots > 0
        out, into = np.sort(parts.out_gbps[usable])[::-1], np.sort(parts.in_gbps[usable])[::-1]
        both = np.sort(np.minimum(parts.out_gbps, parts.in_gbps)[usable])[::-1]
        either = np.sort(np.maximum(parts.out_gbps, parts.in_gbps)[usable])[::-1]
        most = min(int(slots.max()), ranks)
        least = min(
            max(
                _over(_all_bytes(op, ranks, most, m), out[:m].sum()),
                _slowest(op, most / ranks, m, out, into, both, either),
            )
            for m in range(needed, min(len(out), ranks) + 1)
        )
        if not np.isfinite(least):
            raise InputError(
                f"{ranks} ranks need {needed} parts at level {parts.level}; fewer are joined by cables"
            )
        time_us = float(least) * demand.size_bytes * US_PER_BYTE_AT_1_GBPS
        if time_us > best.time_us:
            best = Bound(time_us, f"at least {needed} parts at level {parts.level}")
    return best


def _all_bytes(op: str, ranks: int, most: int, parts: int) -> float:
    """Message sizes that `parts` parts of at most `most` ranks exchange; the sum of f^2 is at most the largest f."""
    return float(ranks - most) if op == "all_to_all" else OPERATIONS[op].per_extra_part * (parts - 1)


def _slowest(
    op: str, most: float, parts: int, out: Floats, into: Floats, both: Floats, either: Floats
) -> float:
    """Message sizes per Gbit/s that the slowest of `parts` parts needs, when a part holds at most a share `most`."""
    if op == "all_reduce":
        return _over(1.0, both[parts - 1])
    if op == "all_gather":
        return _over(1 - most, into[parts - 1])
    if op == "reduce_scatter":
        return _over(1 - most, out[parts - 1])
    if op in {"broadcast", "reduce"}:
        # One way or the other: the root's part has the message in the direction that the others have not.
        return _over(1.0, either[parts - 1])
    return 0.0


def _over(carried: float, speed: float) -> float:
    if carried <= 0:
        return 0.0
    return carried / speed if speed > 0 else np.inf
