"""`place`: a rank-to-host map by one method, with its predicted loads, the bound and the gap to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError
from topology.loads import predict
from topology.placement.bound import lower_bound_us
from topology.placement.mapping import Placement
from topology.placement.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.results import NetworkResult
    from topology.routing import Routing
    from topology.traffic import StepTraffic

METHODS = {
    "nettune": "topology.placement.methods.search",
    "depth-first": "topology.placement.methods.depth_first",
    "lexicographic": "topology.placement.methods.lexicographic",
    "random": "topology.placement.methods.random_order",
    "packed": "topology.placement.methods.packed",
}
OURS = "nettune"
AGAINST = "random"
BASELINES = ("lexicographic", AGAINST, "depth-first")


@dataclass(frozen=True)
class Placed:
    """A map and what it is predicted to do.

    Attributes:
        placement: the map.
        predicted: loads and times by method `max-link`.
        bound_us: lower bound of the step's communication time.
    """

    placement: Placement
    predicted: NetworkResult
    bound_us: float

    @property
    def cost_us(self) -> float:
        """p95 of the step's communication time over port draws: the objective."""
        return self.predicted.time_us[2]

    @property
    def gap(self) -> float:
        """How far the objective is above the bound, as a share of the bound; 0 when there is nothing to send."""
        return self.cost_us / self.bound_us - 1 if self.bound_us else 0.0

    def to_json(self, routing: Routing) -> dict[str, Any]:
        """Keys cost_us, bound_us, gap, max_link_load_bytes, placement, predicted."""
        return {
            "cost_us": self.cost_us,
            "bound_us": self.bound_us,
            "gap": self.gap,
            "max_link_load_bytes": float(self.predicted.link_bytes.max(initial=0.0)),
            "placement": self.placement.to_json(routing.fabric),
            "predicted": self.predicted.to_json(),
        }


def place(
    routing: Routing,
    traffic: StepTraffic,
    method: str = "nettune",
    *,
    excluded: Sequence[str] = (),
    ranks_per_host: int = 1,
    draws: int = 100,
    seed: int = 0,
) -> Placed:
    """Place a job on a fabric.

    Raises:
        InputError: an unknown method or host, too few hosts.
        UnknownPathError: two hosts have no route between them.
    """
    if method not in METHODS:
        raise InputError(f"placement method {method!r} is not known; known: {', '.join(METHODS)}")
    fabric = routing.fabric
    for host in excluded:
        fabric.node_row(host)
    hosts = tuple(host for host in fabric.hosts if host not in set(excluded))
    problem = Problem(routing, traffic, hosts, ranks_per_host, draws, seed)
    names: list[str] = import_module(METHODS[method]).order(problem)
    placement = replace(Placement.of_hosts(fabric, names, method), excluded=tuple(excluded))
    return Placed(
        placement, predict(routing, placement, traffic, draws=draws, seed=seed), lower_bound_us(problem)
    )
