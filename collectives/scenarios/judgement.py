"""What can be said of a scenario's settings without sending a packet: the fluid model at its busiest link, thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from collectives.congestion.buffers import SharedBuffer, headroom_bytes
from collectives.congestion.fluid import Bottleneck, FixedPoint, fixed_point
from collectives.congestion.parameters import Dcqcn, Hybrid
from collectives.congestion.presets import ecn_curve
from collectives.congestion.stability import Settling, settling
from nettune.errors import InputError
from topology.columns import NodeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from collectives.scenarios.build import Scenario
    from collectives.scenarios.translate import Layout

    Floats = NDArray[np.float64]

_MAP_FLOWS = (2, 8, 32, 128)
_MAP_DELAYS = (0.5, 1.0, 2.0, 4.0)
"""Times the delay of the link."""


@dataclass(frozen=True)
class FluidJudgement:
    """DCQCN at the link that is busiest.

    Attributes:
        link: its directed row.
        model: flows, delay and rate there.
        point: where the flows meet.
        settling: whether they come to rest.
        map_flows, map_delays_us: (M,), (D,) other numbers of flows and delays, the delay of the link among them.
        map_per_ms: (M, D) growth of the queue's swings there; NaN where there is no fixed point.
    """

    link: int
    model: Bottleneck
    point: FixedPoint
    settling: Settling
    map_flows: tuple[int, ...]
    map_delays_us: tuple[float, ...]
    map_per_ms: Floats


@dataclass(frozen=True)
class EcnBound:
    """Where ECN marks before PFC pauses.

    Attributes:
        switch: node row of the switch with the least bound.
        bound_bytes: Kmin below it marks first, however many ports feed a queue.
        kmin_bytes: of its slowest port.
    """

    switch: int
    bound_bytes: float
    kmin_bytes: float


def fluid_judgement(scenario: Scenario, layout: Layout) -> FluidJudgement | None:
    """The fluid model with the connections that cross the busiest link, as if all sent at once.

    The feedback delay is the round trip of the longest path among them through empty queues.

    Returns:
        None where it says nothing: another algorithm, no queue that is shared, parameters without a fixed point.
    """
    if not isinstance(scenario.control, Dcqcn) or not layout.watch_links:
        return None
    link, fabric = layout.watch_links[0], scenario.routing.fabric
    crossing = np.flatnonzero((layout.path == link).any(axis=1))
    connections = np.unique(layout.workload.connection[layout.workload.flows[crossing]])
    if len(connections) < 2:
        return None
    gbps = float(fabric.directed_gbps[link])
    transport = scenario.spec.transport
    packet = transport.mtu_bytes + transport.header_bytes
    steps = fabric.links.delay_ns[layout.path[crossing] // 2] / 1e3 + packet / (gbps * 125)
    delay = 2 * float((steps * (layout.path[crossing] >= 0)).sum(axis=1).max())
    curve = ecn_curve(scenario.spec.ecn.preset, gbps, scenario.spec.ecn.model_extra)
    try:
        model = Bottleneck(scenario.control, curve, gbps, len(connections), delay, transport.mtu_bytes)
        point, found = fixed_point(model), settling(model)
    except InputError:
        return None
    delays = tuple(delay * factor for factor in _MAP_DELAYS)
    growth = np.array(
        [[_growth(replace(model, flows=many, delay_us=one)) for one in delays] for many in _MAP_FLOWS]
    )
    return FluidJudgement(link, model, point, found, _MAP_FLOWS, delays, growth)


def _growth(model: Bottleneck) -> float:
    try:
        return settling(model).queue_per_ms
    except InputError:
        return nan


def ecn_bound(scenario: Scenario) -> EcnBound | None:
    """The bound of DCQCN's paper for the switch where it is lowest; None without PFC, or where senders ignore ECN."""
    spec, fabric = scenario.spec, scenario.routing.fabric
    if not spec.switch.pfc or not isinstance(scenario.control, Dcqcn | Hybrid):
        return None
    packet = spec.transport.mtu_bytes + spec.transport.header_bytes
    priorities = len({job.table.priority for job in scenario.jobs})
    found = []
    for row in np.flatnonzero(fabric.nodes.kind == NodeKind.SWITCH).tolist():
        ports = np.flatnonzero((fabric.ports.node == row) & (fabric.link_of_port >= 0))
        if not len(ports):
            continue
        links = fabric.link_of_port[ports]
        speeds, delays = fabric.directed_gbps[2 * links], fabric.links.delay_ns[links] / 1e3
        kept = [
            headroom_bytes(gbps, delay, packet)
            if spec.switch.headroom_bytes is None
            else spec.switch.headroom_bytes
            for gbps, delay in zip(speeds.tolist(), delays.tolist(), strict=True)
            if gbps > 0
        ]
        if not kept:
            continue
        buffer = SharedBuffer(spec.switch.buffer_bytes, len(kept), float(np.mean(kept)), priorities)
        slowest = float(speeds[speeds > 0].min())
        kmin = ecn_curve(spec.ecn.preset, slowest, spec.ecn.model_extra).kmin_bytes
        found.append(EcnBound(row, buffer.dynamic_ecn_bytes(spec.switch.alpha * priorities), kmin))
    return min(found, key=lambda one: one.bound_bytes, default=None)
