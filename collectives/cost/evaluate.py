"""`evaluate`: what a step does to a network, by the method that is asked for, always as a `NetworkResult`.

| method   | says                                                        | leaves out                          |
|----------|-------------------------------------------------------------|-------------------------------------|
| bound    | no routing moves these bytes faster under this placement    | collisions of paths, latency        |
| max-link | each phase lasts as long as its busiest link, over draws    | sharing between phases, latency     |
| max-min  | flows share links fairly, phases that overlap share as well | queues, congestion control, latency |

In each port draw bound <= max-link <= max-min, and one seed gives both the same draws.

Adding a method: a function with the signature of `Method` in a module of its own that returns a `NetworkResult` with
its name, that name in `topology.results.METHODS`, its line in `METHODS` below and in the table above. The tests in
tests/collectives/cost run over all of `METHODS`: same seed, same result; never below the bound.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from collectives.cost import maxmin
from nettune.errors import InputError
from topology.cuts import nic_parts
from topology.fabric import Fabric
from topology.hops import flows_of
from topology.loads import predict
from topology.placement.bound import cut_bound
from topology.placement.mapping import Placement
from topology.results import NetworkResult, PhaseResult
from topology.routing import Routing
from topology.traffic import StepTraffic, check_step, transfers


class Method(Protocol):
    """A way to predict a step."""

    def __call__(
        self, routing: Routing, placement: Placement, traffic: StepTraffic, *, draws: int, seed: int
    ) -> NetworkResult:
        """Predict; `draws` port draws from `seed` where the method draws any."""
        ...


def bound(
    routing: Routing, placement: Placement, traffic: StepTraffic, *, draws: int = 0, seed: int = 0
) -> NetworkResult:
    """Time that no routing beats under a placement; `link_bytes` holds only what every routing has: the NICs' cables.

    Raises:
        InputError: as `topology.traffic.check_step`, or no cable joins two parts that have traffic.
        UnknownPathError: a NIC with traffic has no cable that is up.
    """
    del draws, seed  # the same for all of them
    check_step(traffic, placement.ranks)
    fabric = routing.fabric
    parts = nic_parts(fabric)
    ends: dict[str, float] = {}
    results = []
    for phase in traffic.phases:
        moved = transfers(phase, placement.nic)
        duration = cut_bound(routing, moved, parts).time_us
        flows = flows_of(routing, moved)
        loads = np.zeros(fabric.directed_count)
        np.add.at(loads, flows.out, flows.bytes_)
        beyond = flows.out != flows.into  # else two NICs share one cable, whose bytes are there already
        np.add.at(loads, flows.into[beyond], flows.bytes_[beyond])
        start = max((ends[name] for name in phase.after), default=0.0)
        ends[phase.name] = start + max(duration, phase.compute_us)
        results.append(PhaseResult(phase.name, (duration,) * 3, loads))
    return NetworkResult("bound", tuple(results), (max(ends.values(), default=0.0),) * 3)


METHODS: dict[str, Method] = {"bound": bound, "max-link": predict, "max-min": maxmin.simulate}


def evaluate(
    fabric: Fabric,
    routing: Routing,
    placement: Placement,
    traffic: StepTraffic,
    method: str = "max-min",
    *,
    draws: int = 20,
    seed: int = 0,
) -> NetworkResult:
    """A step's communication on a fabric under a routing and a placement.

    Raises:
        InputError: an unknown method, a routing of another fabric, or what the method refuses.
        UnknownPathError: a transfer has no route.
    """
    if method not in METHODS:
        raise InputError(f"method {method!r} is not known; known: {', '.join(METHODS)}")
    if routing.fabric is not fabric:
        raise InputError("the routing belongs to another fabric; make it from this one")
    return METHODS[method](routing, placement, traffic, draws=draws, seed=seed)
