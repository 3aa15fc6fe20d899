"""How fast no placement can be beaten: a lower bound of the step's communication time on a fabric.

Each rank must send and receive its bytes through its NIC, but for those that a neighbour on the same host may take off
the network: with k ranks on a host, at best the k - 1 heaviest partners. A phase lasts at least as long as its busiest
rank needs on the fastest NIC of the fabric; phases follow one another as their `after` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.fabric import NodeKind

if TYPE_CHECKING:
    from topology.placement.problem import Problem
    from topology.traffic import Phase


def lower_bound_us(problem: Problem) -> float:
    """Microseconds.

    Raises:
        InputError: no NIC of a usable host has a known speed.
    """
    fabric = problem.routing.fabric
    is_nic = fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST
    usable = np.isin(fabric.ports.node, [fabric.node_row(host) for host in problem.hosts]) & is_nic
    fastest = fabric.ports.speed_gbps[usable].max(initial=0.0)
    if fastest <= 0:
        raise InputError("no NIC's speed is known, so there is no bound")
    ends: dict[str, float] = {}
    for phase in problem.traffic.phases:
        start = max((ends[name] for name in phase.after), default=0.0)
        ends[phase.name] = start + _busiest_bytes(phase, problem.ranks_per_host) * 8e-3 / fastest
    return max(ends.values(), default=0.0)


def _busiest_bytes(phase: Phase, ranks_per_host: int) -> float:
    busiest = 0.0
    for own, other in ((phase.src, phase.dst), (phase.dst, phase.src)):
        partners: dict[int, dict[int, float]] = {}
        for rank, partner, carried in zip(
            own.tolist(), other.tolist(), phase.edge_bytes.tolist(), strict=True
        ):
            table = partners.setdefault(rank, {})
            table[partner] = table.get(partner, 0.0) + carried
        for table in partners.values():
            spared = sorted(table.values(), reverse=True)[: ranks_per_host - 1]
            busiest = max(busiest, sum(table.values()) - sum(spared))
    return busiest
