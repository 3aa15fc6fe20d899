"""`Problem`: what a placement method is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.naming import natural_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from topology.routing import Routing
    from topology.traffic import StepTraffic

    Ints = NDArray[np.int64]


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
    def nic_table(self) -> tuple[Ints, Ints]:
        """(H, most) port rows of each usable host's NICs in order of rail, -1 after its last; (H,) how many it has.

        Raises:
            InputError: a host without a NIC.
        """
        fabric = self.routing.fabric
        nics = [fabric.nics(host) for host in self.hosts]
        for host, found in zip(self.hosts, nics, strict=True):
            if not found:
                raise InputError(f"placement: host {host!r} has no NIC on the fabric")
        counts = np.array([len(found) for found in nics], dtype=np.int64)
        table = np.full((len(nics), int(counts.max())), -1, dtype=np.int64)
        for row, found in zip(table, nics, strict=True):
            row[: len(found)] = found
        return table, counts

    @cached_property
    def rank_bytes(self) -> csr_array:
        """(R, R) sparse bytes per step from rank to rank."""
        from scipy.sparse import coo_array

        shape = (self.traffic.ranks,) * 2
        phases = self.traffic.phases
        src, dst, bytes_ = (
            np.concatenate([np.empty(0), *(getattr(phase, column) for phase in phases)])
            for column in ("src", "dst", "edge_bytes")
        )
        return coo_array((bytes_, (src.astype(np.int64), dst.astype(np.int64))), shape=shape).tocsr()

    def slots(self, hosts: Sequence[str]) -> list[str]:
        """Every slot of `hosts` in order, a host once for each rank that it can take."""
        return [host for host in hosts for _ in range(self.ranks_per_host)]

    def fill(self, hosts: Sequence[str]) -> list[str]:
        """Host of each rank when the slots of `hosts` are taken in order."""
        return self.slots(hosts)[: self.traffic.ranks]
