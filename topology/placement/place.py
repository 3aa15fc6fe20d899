"""`place`: a rank-to-host map by one method, with its predicted loads, the bound and the gap to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.placement.bound import lower_bound_us
from topology.placement.mapping import Placement
from topology.placement.problem import Problem
from topology.placement.slots import derived_ranks_per_host
from topology.traffic import domain_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric
    from topology.results import NetworkResult
    from topology.routing import Routing
    from topology.traffic import StepTraffic

    Floats = NDArray[np.float64]

METHODS = {
    "nettune": "topology.placement.methods.search",
    "depth-first": "topology.placement.methods.depth_first",
    "slurm": "topology.placement.methods.slurm",
    "lexicographic": "topology.placement.methods.lexicographic",
    "random": "topology.placement.methods.random_order",
    "packed": "topology.placement.methods.packed",
    "exact": "topology.placement.methods.exact",
}
OURS = "nettune"
AGAINST = "random"
BASELINES = ("lexicographic", AGAINST, "depth-first")
GIVEN = "given"
"""Method of a map that was made elsewhere."""


@dataclass(frozen=True)
class Placed:
    """A map and what it is predicted to do.

    Attributes:
        placement: the map.
        predicted: loads and times by method `max-link`.
        bound_us: lower bound of the step's communication time.
        problem: what was asked; None where only results are at hand.
    """

    placement: Placement
    predicted: NetworkResult
    bound_us: float
    problem: Problem | None = None

    @property
    def cost_us(self) -> float:
        """p95 of the step's communication time over port draws: the objective."""
        return self.predicted.time_us[2]

    @property
    def gap(self) -> float:
        """How far the objective is above the bound, as a share of the bound; 0 when there is nothing to send."""
        return self.cost_us / self.bound_us - 1 if self.bound_us else 0.0

    def to_json(self, routing: Routing) -> dict[str, Any]:
        """Keys cost_us, bound_us, gap, max_link_load_bytes, moves, placement, predicted."""
        return {
            "cost_us": self.cost_us,
            "bound_us": self.bound_us,
            "gap": self.gap,
            "max_link_load_bytes": float(self.predicted.link_bytes.max(initial=0.0)),
            "moves": self.placement.moves,
            "placement": self.placement.to_json(routing.fabric),
            "predicted": self.predicted.to_json(),
        }


def problem_of(
    routing: Routing,
    traffic: StepTraffic,
    *,
    excluded: Sequence[str] = (),
    ranks_per_host: int | None = None,
    draws: int = 100,
    seed: int = 0,
    domain: int | None = None,
    pins: Mapping[int, str] | None = None,
    background: Floats | None = None,
    even_pods: bool = False,
) -> Problem:
    """A job on a fabric as methods take it; `solved` may be asked for several of them.

    Args:
        routing: forwarding state with its fabric.
        traffic: the step's communication.
        excluded: hosts that must stay empty.
        ranks_per_host: consecutive ranks on a host; left out, `topology.placement.slots.derived_ranks_per_host` decides.
        draws: port draws behind the percentiles.
        seed: of every random choice.
        domain: consecutive ranks whose traffic among each other is not in the traffic; left out, the traffic says it.
        pins: rank -> host that it, and with it its node, must be on.
        background: (2L,) bytes of other jobs on each directed link while one step lasts.
        even_pods: an even number of nodes in each pod, for NCCL_CROSS_NIC=2.

    Raises:
        InputError: an unknown host, sizes that do not fit each other, too few hosts that reach each other, pins that
            contradict each other.
    """
    fabric = routing.fabric
    for host in excluded:
        fabric.node_row(host)
    left_out = set(excluded)
    together = domain_of(traffic) if domain is None else domain
    per_host = ranks_per_host
    if per_host is None:
        per_host = derived_ranks_per_host(fabric, traffic.ranks, together)
    gpus = np.bincount(fabric.gpus.host, minlength=len(fabric.nodes.name))
    hosts = tuple(
        host
        for host in fabric.hosts
        if host not in left_out and (not len(fabric.gpus.host) or gpus[fabric.node_row(host)] >= per_host)
    )
    return Problem(
        routing, traffic, hosts, per_host, draws, seed, domain=together, pins=dict(pins or {}), background=background,
        even_pods=even_pods, excluded=tuple(excluded),
    )  # fmt: skip


def solved(problem: Problem, method: str = OURS) -> Placed:
    """A map of a problem by one of `METHODS`.

    Raises:
        InputError: an unknown method; as `topology.loads.predict`.
        UnknownPathError: two hosts have no route between them.
    """
    if method not in METHODS:
        raise InputError(f"placement method {method!r} is not known; known: {', '.join(METHODS)}")
    slots = import_module(METHODS[method]).order(problem)
    return priced(problem, problem.placement(slots, method))


def place(routing: Routing, traffic: StepTraffic, method: str = OURS, **options: Any) -> Placed:
    """Place a job on a fabric by one method.

    Args:
        routing: forwarding state with its fabric.
        traffic: the step's communication.
        method: one of `METHODS`.
        **options: as `problem_of` takes them.

    Raises:
        InputError: as `problem_of` and `solved`.
        UnknownPathError: two hosts have no route between them.
    """
    return solved(problem_of(routing, traffic, **options), method)


def priced(problem: Problem, placement: Placement) -> Placed:
    """A map of a problem with its price and the bound.

    Raises:
        InputError: as `topology.loads.predict`.
        UnknownPathError: two hosts have no route between them.
    """
    return Placed(placement, problem.predicted(placement), problem.bound_us, problem)


def evaluate(
    routing: Routing,
    traffic: StepTraffic,
    hosts: Sequence[str] | Placement,
    *,
    draws: int = 100,
    seed: int = 0,
    background: Floats | None = None,
    domain: int | None = None,
) -> Placed:
    """Price a map that was made elsewhere.

    Args:
        routing: forwarding state with its fabric.
        traffic: the step's communication.
        hosts: host of each rank; or of each node where there are fewer, each for equally many consecutive ranks; or a map
            that also says accelerators and NICs.
        draws: port draws behind the percentiles.
        seed: of the draws.
        background: (2L,) bytes of other jobs, as in `place`.
        domain: consecutive ranks whose traffic among each other is not in the traffic, as in `place`.

    Raises:
        InputError: unknown hosts, a number of hosts that does not divide the ranks, a node twice, ranks of a domain
            apart.
        UnknownPathError: two hosts have no route between them.
    """
    fabric = routing.fabric
    placement = hosts if isinstance(hosts, Placement) else _of_hosts(fabric, traffic.ranks, hosts)
    if placement.ranks != traffic.ranks:
        raise InputError(f"the map has {placement.ranks} ranks, the job {traffic.ranks}")
    together = domain_of(traffic) if domain is None else domain
    _refuse_split(routing, placement, together)
    size = int(np.unique(placement.host, return_counts=True)[1].max())
    # The bound is that of nodes of consecutive ranks with the NICs that nettune would give them, unless the map scatters them.
    blocks = placement.host == placement.host[np.arange(placement.ranks) // size * size]
    given = Placement.of_hosts(fabric, placement.hosts(fabric)).nic
    problem = Problem(routing, traffic, fabric.hosts, size, draws, seed, background=background)
    scattered = not blocks.all() or bool((placement.nic != given).any())
    bound_us = lower_bound_us(problem, scattered=scattered)
    return Placed(replace(placement, method=GIVEN), problem.predicted(placement), bound_us, problem)


def _of_hosts(fabric: Fabric, ranks: int, hosts: Sequence[str]) -> Placement:
    for host in hosts:
        fabric.node_row(host)
    per_host, rest = divmod(ranks, len(hosts)) if hosts else (0, 1)
    if rest or not per_host:
        raise InputError(
            f"the map has {len(hosts)} hosts for {ranks} ranks; give one for each rank or one for each node"
        )
    if per_host > 1 and len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if list(hosts).count(host) > 1)
        raise InputError(f"the map names host {twice!r} for two nodes; give one host for each rank instead")
    return Placement.of_hosts(fabric, [host for host in hosts for _ in range(per_host)])


def _refuse_split(routing: Routing, placement: Placement, domain: int) -> None:
    """Refuse a map under which traffic that was left out would use the network.

    Raises:
        InputError: ranks of one domain that are neither on one host nor in one accelerator domain.
    """
    nvl = routing.fabric.nodes.nvl_domain
    where = np.where(nvl[placement.host] >= 0, -1 - nvl[placement.host], placement.host)
    first = np.arange(placement.ranks) // domain * domain
    apart = np.flatnonzero(where != where[first])
    if len(apart):
        begin = int(first[apart[0]])
        raise InputError(
            f"the map splits ranks {begin} to {min(begin + domain, placement.ranks) - 1}, whose traffic among each other "
            f"(domain = {domain}) is not in the job's: put them on one host or in one accelerator domain"
        )
