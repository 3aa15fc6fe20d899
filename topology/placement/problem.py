"""`Problem`: what a placement method is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.naming import natural_key
from topology.traffic import transfers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.placement.mapping import Placement
    from topology.routing import Routing
    from topology.traffic import StepTraffic

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A job to be placed.

    Attributes:
        routing: forwarding state, with its fabric.
        traffic: the step's communication.
        hosts: hosts that may be used, in the order in which the fabric lists them.
        ranks_per_host: slots of each host.
        draws: port draws behind each predicted percentile.
        seed: of every random choice.

    Raises:
        InputError: no host, fewer slots than ranks.
    """

    routing: Routing
    traffic: StepTraffic
    hosts: tuple[str, ...]
    ranks_per_host: int = 1
    draws: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        slots = len(self.hosts) * self.ranks_per_host
        if slots < self.traffic.ranks:
            raise InputError(
                f"{self.traffic.ranks} ranks need {-(-self.traffic.ranks // max(self.ranks_per_host, 1))} hosts; "
                f"{len(self.hosts)} are left after exclusions"
            )

    @cached_property
    def leaf_order(self) -> dict[str, tuple[object, ...]]:
        """Sort key of each host that lists the fabric depth first: by leaf, then by host, numbers as numbers."""
        fabric = self.routing.fabric
        keys: dict[str, tuple[object, ...]] = {}
        for host in self.hosts:
            nics = fabric.nics(host)
            leaf = fabric.leaf_of(nics[0]) if nics else None
            leaf_name = "" if leaf is None else fabric.nodes.name[leaf]
            keys[host] = (natural_key(leaf_name), natural_key(host))
        return keys

    @cached_property
    def rank_bytes(self) -> Floats:
        """(R, R) bytes per step from rank to rank, sparse in practice; for packing small jobs into leaves."""
        matrix = np.zeros((self.traffic.ranks, self.traffic.ranks))
        for phase in self.traffic.phases:
            np.add.at(matrix, (phase.src, phase.dst), phase.edge_bytes)
        return matrix

    def slots(self, hosts: Sequence[str]) -> list[str]:
        """Every slot of `hosts` in order, a host once for each rank that it can take."""
        return [host for host in hosts for _ in range(self.ranks_per_host)]

    def fill(self, hosts: Sequence[str]) -> list[str]:
        """Host of each rank when the slots of `hosts` are taken in order."""
        return self.slots(hosts)[: self.traffic.ranks]

    def hop_bytes(self, placement: Placement) -> float:
        """Bytes times links crossed in a step: the tie-breaker between maps of equal time."""
        total = 0.0
        for phase in self.traffic.phases:
            moved = transfers(phase, placement.nic)
            columns = (moved.src_port, moved.dst_port, moved.bytes_)
            for src, dst, carried in zip(*(column.tolist() for column in columns), strict=True):
                total += carried * sum(p * len(links) for p, links in self.routing.alternatives(src, dst))
        return total
