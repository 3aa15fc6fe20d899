"""`explain`: why a rank is where it is: whom its node talks to, over which links, and what the next best host would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.hops import flows_of, spread_all, walk_forced
from topology.loads import US_PER_BYTE_AT_1_GBPS
from topology.placement.classes import class_of_slot
from topology.placement.cutedges import cut_edges
from topology.placement.estimate import Estimate
from topology.placement.pricing import predicted_price
from topology.traffic import transfers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.place import Placed
    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_PRICED = 4
"""Other hosts whose price is worked out, the best by the estimate."""


@dataclass(frozen=True)
class Explanation:
    """What one rank's place means.

    Attributes:
        rank, host, nic: the rank and where it is.
        node_ranks: ranks that share its host.
        leaf: leaf group of the host.
        talks: for each phase in which the rank sends or receives: name, bytes sent and received, hosts of the partners in
            the order of bytes, how many of them are under the same leaf group.
        links: directed links that carry the rank's bytes, most loaded first: name, bytes of this rank, bytes of all, and
            microseconds that all need.
        next_host: the host that would be the next best for its node; empty where there is none.
        next_cost_us: p95 of the step's time then, the two nodes having changed places.
        cost_us: p95 of the step's time now.
    """

    rank: int
    host: str
    nic: str
    node_ranks: tuple[int, ...]
    leaf: str
    talks: tuple[dict[str, Any], ...]
    links: tuple[dict[str, Any], ...]
    next_host: str
    next_cost_us: float
    cost_us: float

    def lines(self) -> list[str]:
        """Text, one fact a line."""
        first, last = self.node_ranks[0], self.node_ranks[-1]
        found = [
            f"rank {self.rank}: host {self.host} ({self.leaf}), NIC {self.nic}, with ranks {first} to {last}"
        ]
        for talk in self.talks:
            shown = ", ".join(talk["hosts"][:4]) + (" and more" if len(talk["hosts"]) > 4 else "")
            found.append(
                f"{talk['phase']}: sends {talk['sent_bytes']:.4g} bytes, receives {talk['received_bytes']:.4g}; "
                f"with {shown}; {talk['near']} of {len(talk['hosts'])} under its leaf group"
            )
        if self.links:
            top = self.links[0]
            found.append(
                f"its most loaded link: {top['link']}, {top['total_bytes']:.4g} bytes in a step, {top['own_bytes']:.4g} of "
                f"them its own; {top['time_us']:.4g} us"
            )
        if self.next_host:
            change = self.next_cost_us / self.cost_us - 1 if self.cost_us else 0.0
            found.append(
                f"next best host: {self.next_host}, {self.next_cost_us:.4g} us a step ({change:+.1%})"
            )
        return found


def explain(placed: Placed, rank: int) -> Explanation:
    """Explain a rank of a placed job.

    Raises:
        InputError: no such rank, or a result that was read back without its problem.
    """
    problem, placement = placed.problem, placed.placement
    if problem is None:
        raise InputError("a placement that was read back cannot be explained; place the job again")
    if not 0 <= rank < placement.ranks:
        raise InputError(f"rank {rank}: the job has ranks 0 to {placement.ranks - 1}")
    fabric = problem.routing.fabric
    row = int(placement.host[rank])
    groups = {host: group.name for group in problem.tree.groups for host in group.hosts}
    host, cost_us = _next_best(problem, placed, rank)
    return Explanation(
        rank=rank,
        host=fabric.nodes.name[row],
        nic=fabric.ports.name[int(placement.nic[rank])],
        node_ranks=tuple(np.flatnonzero(placement.host == row).tolist()),
        leaf=groups.get(row, "no leaf"),
        talks=_talks(problem, placed, rank, groups),
        links=_links(problem, placed, rank),
        next_host=host,
        next_cost_us=cost_us,
        cost_us=placed.cost_us,
    )


def _talks(problem: Problem, placed: Placed, rank: int, groups: dict[int, str]) -> tuple[dict[str, Any], ...]:
    host, names = placed.placement.host, problem.routing.fabric.nodes.name
    found = []
    for phase in problem.traffic.phases:
        sent, received = phase.src == rank, phase.dst == rank
        partners = np.concatenate([phase.dst[sent], phase.src[received]])
        if not len(partners):
            continue
        carried = np.concatenate([phase.edge_bytes[sent], phase.edge_bytes[received]])
        rows, index = np.unique(host[partners], return_inverse=True)
        rows = rows[np.argsort(-np.bincount(index, carried), kind="stable")]
        own = groups.get(int(host[rank]))
        found.append(
            {
                "phase": phase.name,
                "sent_bytes": float(phase.edge_bytes[sent].sum()),
                "received_bytes": float(phase.edge_bytes[received].sum()),
                "hosts": [names[int(row)] for row in rows],
                "near": sum(groups.get(int(row)) == own for row in rows),
            }
        )
    return tuple(found)


def _links(problem: Problem, placed: Placed, rank: int) -> tuple[dict[str, Any], ...]:
    routing, fabric = problem.routing, problem.routing.fabric
    own = np.zeros(fabric.directed_count)
    for phase in problem.traffic.phases:
        edges = np.flatnonzero((phase.src == rank) | (phase.dst == rank))
        moved = transfers(phase, placed.placement.nic, edges)
        forced, flows = walk_forced(routing, moved, flows_of(routing, moved))
        own += forced + spread_all(routing, moved, flows)
    total, speed = placed.predicted.link_bytes if problem.traffic.phases else own, fabric.directed_gbps
    time_us = np.divide(total * US_PER_BYTE_AT_1_GBPS, speed, out=np.zeros_like(total), where=speed > 0)
    used = np.flatnonzero(own > 0)
    return tuple(
        {
            "link": fabric.directed_name(link),
            "own_bytes": float(own[link]),
            "total_bytes": float(total[link]),
            "time_us": float(time_us[link]),
        }
        for link in used[np.argsort(-time_us[used], kind="stable")].tolist()
    )


def _next_best(problem: Problem, placed: Placed, rank: int) -> tuple[str, float]:
    """Host that the rank's unit would cost least on if it changed places with what is there, and the price."""
    slots = problem.slots_under(placed.placement.host)
    if (slots < 0).any() or len(np.unique(slots)) < len(slots):
        return "", 0.0
    unit = rank // problem.ranks_in_a_unit
    whole = np.concatenate([slots, np.setdiff1d(np.arange(len(problem.slots)), slots)])
    classes = class_of_slot(problem)
    others = np.flatnonzero(classes[whole] != classes[whole[unit]])
    others = others[~np.isin(others, np.flatnonzero(problem.pinned >= 0))]
    if not len(others) or problem.pinned[unit] >= 0:
        return "", 0.0
    estimate = Estimate(cut_edges(problem), problem.traffic.phases, len(whole))
    estimate.set(whole)
    costs = estimate.swapped(np.full(len(others), unit), others)
    found = []
    for other in others[np.argsort(costs, kind="stable")[:_PRICED]].tolist():
        trial = whole.copy()
        trial[[unit, other]] = trial[[other, unit]]
        node = rank % problem.ranks_in_a_unit // problem.ranks_per_host
        host = problem.hosts[int(problem.slots[whole[other], node])]
        found.append((predicted_price(problem, trial[: problem.units]).time_us, host))
    cost_us, host = min(found)
    return host, cost_us
