"""`Problem`: what a placement method is given: units of ranks that stay together, and slots that take one unit each.

Launchers give consecutive ranks to a host, so `ranks_per_host` consecutive ranks are one node, and a node goes to one host.
Where the traffic leaves out what stays inside an accelerator domain of several hosts, or where NCCL's alternating channels
need an even number of nodes in each pod, several consecutive nodes are one unit, and a slot is as many hosts. A map is the
slot of each unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.leafgroups import leaf_groups
from topology.loads import predict
from topology.placement.bound import lower_bound_us
from topology.placement.mapping import Placement, nic_table
from topology.placement.slots import hosts_in_a_unit, pinned_nodes, slots_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from topology.leafgroups import LeafGroups
    from topology.results import NetworkResult
    from topology.routing import Routing
    from topology.traffic import StepTraffic

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A job to be placed.

    Attributes:
        routing: forwarding state, with its fabric.
        traffic: the step's communication.
        hosts: hosts that may be used.
        ranks_per_host: consecutive ranks that share a host.
        draws: port draws behind each predicted percentile.
        seed: of every random choice.
        domain: consecutive ranks whose traffic among each other the traffic leaves out.
        pins: rank -> host that it, and with it its node, must be on.
        background: (2L,) bytes of other jobs while one step lasts; None where there are none.
        excluded: hosts of the fabric that must stay empty; none of them is in `hosts`.
        even_pods: keep the number of nodes in each pod even. With NCCL_CROSS_NIC=2 and an even number of channels odd
            nodes swap the channels of a pair (NCCL src/graph/connect.cc); an odd number in one pod turns the rails around
            in the next.

    Raises:
        InputError: a host that is unknown or twice, sizes that do not fit, more nodes than hosts that reach each
            other, pins that contradict each other.
    """

    routing: Routing
    traffic: StepTraffic
    hosts: tuple[str, ...]
    ranks_per_host: int = 1
    draws: int = 100
    seed: int = 0
    domain: int = 1
    pins: Mapping[int, str] = field(default_factory=dict)
    background: Floats | None = None
    even_pods: bool = False
    excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.ranks_per_host < 1 or self.domain < 1:
            raise InputError(
                f"placement: {self.ranks_per_host} ranks on a host and domains of {self.domain} ranks: both must be 1 or more"
            )
        if len(set(self.hosts)) < len(self.hosts):
            twice = next(host for host in self.hosts if self.hosts.count(host) > 1)
            raise InputError(f"placement: host {twice!r} is named twice")
        if not self.hosts:
            raise InputError("placement: no host is left; exclude fewer")
        if len(self.hosts) < self.nodes:
            raise InputError(
                f"{self.traffic.ranks} ranks need {self.nodes} hosts; {len(self.hosts)} are left after exclusions"
            )
        self.slots  # noqa: B018 - made here, so that what does not fit is refused here

    @property
    def nodes(self) -> int:
        """Hosts that the job needs."""
        return -(-self.traffic.ranks // self.ranks_per_host)

    @property
    def units(self) -> int:
        """Units of the job; the last may be smaller than the others."""
        return -(-self.nodes // self.hosts_in_a_unit)

    @property
    def ranks_in_a_unit(self) -> int:
        """Ranks of a whole unit."""
        return self.hosts_in_a_unit * self.ranks_per_host

    @cached_property
    def hosts_in_a_unit(self) -> int:
        """Consecutive nodes that move together."""
        return hosts_in_a_unit(self)

    @cached_property
    def tree(self) -> LeafGroups:
        """Leaf groups, pods and so on up."""
        return leaf_groups(self.routing.fabric)

    @cached_property
    def rows(self) -> Ints:
        """(H,) node row of each usable host."""
        return np.array([self.routing.fabric.node_row(host) for host in self.hosts], dtype=np.int64)

    @cached_property
    def clusters(self) -> Ints:
        """(H, levels) cluster of each usable host in each level of the tree, leaf groups first; -1 where it has no cable."""
        levels = max(len(self.tree.levels), 1)
        found = np.full((len(self.hosts), levels), -1, dtype=np.int64)
        paths = self.tree.paths
        for number, row in enumerate(self.rows.tolist()):
            found[number, : len(paths.get(row, ()))] = paths.get(row, ())
        return found

    @cached_property
    def depth_first(self) -> Ints:
        """(H,) usable hosts, as numbers in `hosts`, in the order of the tree: pods, leaf groups, natural order of names."""
        place = {
            host: index for index, host in enumerate(h for group in self.tree.groups for h in group.hosts)
        }
        last = len(place)
        return np.array(
            sorted(range(len(self.hosts)), key=lambda number: place.get(int(self.rows[number]), last)),
            dtype=np.int64,
        )

    @cached_property
    def slots(self) -> Ints:
        """(S, hosts in a unit) hosts of each slot, as numbers in `hosts`; slots in the order of the tree."""
        return slots_of(self)

    @cached_property
    def pinned(self) -> Ints:
        """(units,) slot that a unit must have; -1 where it is free."""
        found = np.full(self.units, -1, dtype=np.int64)
        slot_of_host = np.full(len(self.hosts), -1, dtype=np.int64)
        slot_of_host[self.slots] = np.arange(len(self.slots))[:, None]
        for node, host in pinned_nodes(self).items():
            found[node // self.hosts_in_a_unit] = slot_of_host[host]
        return found

    @cached_property
    def group_of_slot(self) -> Ints:
        """(S,) leaf group of each slot's first host."""
        found: Ints = self.clusters[self.slots[:, 0], 0]
        return found

    @cached_property
    def port_of_place(self) -> Ints:
        """(S, ranks in a unit) port row of the NIC that each rank of a unit uses in each slot."""
        table = nic_table(self.routing.fabric, self.rows, self.ranks_per_host)
        return table[self.slots].reshape(len(self.slots), -1)

    @cached_property
    def bound_us(self) -> float:
        """Lower bound of the step's communication time over all maps of the problem."""
        return lower_bound_us(self)

    @cached_property
    def results(self) -> dict[bytes, NetworkResult]:
        """Predictions that were made, by the bytes of the NIC column: at scale one takes seconds."""
        return {}

    def predicted(self, placement: Placement) -> NetworkResult:
        """Loads and times of a placement, kept.

        Raises:
            InputError: as `topology.loads.predict`.
            UnknownPathError: two hosts have no route between them.
        """
        key = placement.nic.tobytes()
        if key not in self.results:
            self.results[key] = predict(
                self.routing,
                placement,
                self.traffic,
                draws=self.draws,
                seed=self.seed,
                background=self.background,
            )
        return self.results[key]

    def fill(self, slots: Ints) -> Ints:
        """(units,) slot of each unit when the free ones take the slots in order, but for those that others are pinned to."""
        free = slots[~np.isin(slots, self.pinned[self.pinned >= 0])]
        found = self.pinned.copy()
        loose = found < 0
        found[loose] = free[: int(loose.sum())]
        return found

    def slots_under(self, host: Ints) -> Ints:
        """(units,) slot in which a map has each unit; -1 where no slot has just these hosts in this order.

        Args:
            host: (R,) node row of each rank; negative where the fabric has its host no more.
        """
        size = self.hosts_in_a_unit
        first = np.full(len(self.routing.fabric.nodes.name), -1, dtype=np.int64)
        first[self.rows[self.slots[:, 0]]] = np.arange(len(self.slots))
        nodes = host[:: self.ranks_per_host]
        found: Ints = np.where(nodes[::size] < 0, -1, first[nodes[::size]])
        there = self.rows[self.slots[found]].ravel()[: len(nodes)]
        whole = np.add.reduceat((there != nodes).astype(np.int64), np.arange(0, len(nodes), size)) == 0
        return np.where(whole, found, -1)

    def nics(self, slot_of_unit: Ints) -> Ints:
        """(R,) port row of each rank's NIC under a map."""
        found: Ints = self.port_of_place[slot_of_unit].ravel()[: self.traffic.ranks]
        return found

    def placement(self, slot_of_unit: Ints, method: str) -> Placement:
        """A map as ranks, hosts and NICs."""
        rows = self.rows[self.slots[slot_of_unit]].ravel()[: self.nodes]
        host = np.repeat(rows, self.ranks_per_host)[: self.traffic.ranks]
        gpu = np.tile(np.arange(self.ranks_per_host), self.nodes)[: self.traffic.ranks]
        pinned = tuple(sorted(self.pins))
        return Placement(host, gpu, self.nics(slot_of_unit), method, pinned, self.excluded)
