"""A scenario in the simulator's terms: its network, its messages, its settings. A moment is a message of 0 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from collectives.congestion.presets import ecn_curve
from collectives.fabric_sim.flows import Flow
from collectives.fabric_sim.network import Cable, Change, Network, SwitchSettings, Transport
from collectives.fabric_sim.options import Options
from collectives.fabric_sim.simulate import Simulation
from collectives.scenarios.workload import MOMENT
from nettune.errors import InputError
from topology.columns import NodeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from collectives.scenarios.build import Scenario
    from collectives.scenarios.workload import Workload
    from topology.fabric import Fabric

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_MOST_PATHS = 64
_WATCHED = 6


@dataclass(frozen=True)
class Layout:
    """What one seed of a scenario puts where, F flows.

    Attributes:
        workload: what is sent; its rows are the simulator's flows.
        path, back: (F, H) directed links of its flows forth and back, as `Scenario.paths`.
        watch_links: directed links out of switches, the busiest first, whose queues are sampled.
        watch_flows: rows of the workload whose rates are sampled: the largest that cross the first of the links.
    """

    workload: Workload
    path: Ints
    back: Ints
    watch_links: tuple[int, ...]
    watch_flows: tuple[int, ...]


def lay_out(scenario: Scenario, seed: int) -> Layout:
    """One seed of a scenario.

    Raises:
        InputError: nothing is sent, or too many messages.
        UnknownPathError: a flow has no route.
    """
    workload = scenario.workload(seed)
    path, back = scenario.paths(workload, seed)
    return Layout(workload, path, back, *_watched(scenario.routing.fabric, path, workload))


def simulation(scenario: Scenario, layout: Layout, *, sample_us: float | None = None) -> Simulation:
    """The simulator, ready to run; `sample_us` is the period of samples, None for none.

    Raises:
        InputError: what the simulator refuses: a rate, a buffer smaller than what its ports reserve, a cable that is not
            there.
    """
    fabric = scenario.routing.fabric
    nodes = _Nodes.of(fabric)
    ways = _all_paths(scenario, layout)
    options = Options(
        sample_us=sample_us,
        watch_links=layout.watch_links,
        watch_flows=layout.watch_flows,
        until_us=scenario.spec.run.limit_ms * 1e3,
    )
    return Simulation(
        _network(scenario, nodes),
        _messages(nodes, layout, ways),
        [scenario.control],
        transport=_transport(scenario),
        options=options,
    )


@dataclass(frozen=True)
class _Nodes:
    """Rows of the simulator's nodes: NICs, switches.

    Attributes:
        names: of all.
        nics: number of NICs.
        of_port: (P,) node of each port: its NIC or its switch; -1 for a NIC without a cable.
    """

    names: tuple[str, ...]
    nics: int
    of_port: Ints

    @classmethod
    def of(cls, fabric: Fabric) -> _Nodes:
        is_nic = (fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST) & (fabric.link_of_port >= 0)
        nics = np.flatnonzero(is_nic)
        switches = np.flatnonzero(fabric.nodes.kind == NodeKind.SWITCH)
        alone = np.bincount(fabric.ports.node[nics], minlength=len(fabric.nodes.name)) == 1
        names = [
            fabric.nodes.name[node] if alone[node] else f"{fabric.nodes.name[node]}:{fabric.ports.name[port]}"
            for port, node in zip(nics.tolist(), fabric.ports.node[nics].tolist(), strict=True)
        ]
        switch_row = np.full(len(fabric.nodes.name), -1)
        switch_row[switches] = len(names) + np.arange(len(switches))
        names += [fabric.nodes.name[row] for row in switches]
        of_port = switch_row[fabric.ports.node]
        of_port[nics] = np.arange(len(nics))
        return cls(tuple(names), len(nics), of_port)


def _network(scenario: Scenario, nodes: _Nodes) -> Network:
    """Cables keep their rows."""
    spec, fabric = scenario.spec, scenario.routing.fabric
    links = fabric.links
    speeds = np.minimum(fabric.ports.speed_gbps[links.port_a], fabric.ports.speed_gbps[links.port_b])
    ends = nodes.of_port[links.port_a].tolist(), nodes.of_port[links.port_b].tolist()
    loss = np.zeros(len(speeds))
    changes = []
    for number, table in enumerate(spec.cable):
        row = _cable_row(fabric, table.between, table.nth, number)
        speeds[row] = table.gbps or speeds[row]
        loss[row] = table.loss
        times = ((table.down_us, False), (table.up_us, True))
        changes += [Change(at, row, up) for at, up in times if at is not None]
    columns = (*ends, speeds.tolist(), links.delay_ns.tolist(), loss.tolist())
    cables = [Cable(*values) for values in zip(*columns, strict=True)]
    settings = SwitchSettings(
        **spec.switch.model_dump(), ecn=lambda gbps: ecn_curve(spec.ecn.preset, gbps, spec.ecn.model_extra)
    )
    return Network(nodes.names, nodes.nics, cables, settings, changes)


def _transport(scenario: Scenario) -> Transport:
    paths = scenario.spec.paths
    return Transport(
        **scenario.spec.transport.model_dump(),
        spray=paths.mode == "spray",
        flowlet_us=paths.flowlet_gap_us if paths.mode == "flowlet" else None,
    )


def _cable_row(fabric: Fabric, between: Sequence[str], nth: int, number: int) -> int:
    one, other = (fabric.node_row(name) for name in between)
    ends = fabric.ports.node[fabric.links.port_a], fabric.ports.node[fabric.links.port_b]
    found = np.flatnonzero(((ends[0] == one) & (ends[1] == other)) | ((ends[0] == other) & (ends[1] == one)))
    if nth >= len(found):
        raise InputError(
            f"[[cable]] {number}: {between[0]} and {between[1]} are joined by {len(found)} cables, so there is no nth {nth}"
        )
    return int(found[nth])


def _all_paths(scenario: Scenario, layout: Layout) -> list[tuple[tuple[int, ...], ...]]:
    """Paths of each flow: the one drawn, or all of its pair where packets or flowlets choose."""
    if scenario.spec.paths.mode == "ecmp":
        return [(tuple(link for link in row if link >= 0),) for row in layout.path.tolist()]
    rows, work = layout.workload.flows, layout.workload
    pairs = zip(work.src_port[rows].tolist(), work.dst_port[rows].tolist(), strict=True)
    alternatives = scenario.routing.alternatives
    return [tuple(links for _, links in alternatives(src, dst)[:_MOST_PATHS]) for src, dst in pairs]


def _messages(nodes: _Nodes, layout: Layout, ways: Sequence[tuple[tuple[int, ...], ...]]) -> list[Flow]:
    """Rows of the workload as messages, in their order; `ways` are the paths of each flow."""
    workload = layout.workload
    after = workload.after.tolist()
    chosen = iter(zip(ways, layout.back.tolist(), strict=True))
    columns = (workload.src_port, workload.dst_port, workload.bytes_, workload.start_us, workload.gap_us)
    numbers = (*columns, workload.priority, workload.connection)
    waits = pairwise(workload.after_first.tolist())
    flows = []
    for values, (begin, end) in zip(zip(*(one.tolist() for one in numbers), strict=True), waits, strict=True):
        src, dst, bytes_, start_us, gap_us, priority, connection = values
        waited = after[begin:end]
        if src == MOMENT:
            flows.append(Flow(0, 0, 0, (), (), start_us, waited, gap_us))
        else:
            forth, return_way = next(chosen)
            size = max(1, round(bytes_))
            ack = tuple(link for link in return_way if link >= 0)
            flows.append(
                Flow(
                    int(nodes.of_port[src]),
                    int(nodes.of_port[dst]),
                    size,
                    forth,
                    ack,
                    start_us,
                    waited,
                    gap_us,
                    priority,
                    connection=connection,
                )
            )
    return flows


def _watched(fabric: Fabric, path: Ints, workload: Workload) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The links out of switches that most is sent over in the time that they have, and the largest flows of the first."""
    rows, on = workload.flows, path >= 0
    loads = np.zeros(fabric.directed_count)
    loads += np.bincount(path[on], np.repeat(workload.bytes_[rows], on.sum(axis=1)), fabric.directed_count)
    speed = fabric.directed_gbps
    busy = np.divide(loads, speed, out=np.zeros_like(loads), where=speed > 0)
    busy *= fabric.nodes.kind[fabric.ports.node[fabric.directed_ports[:, 0]]] == NodeKind.SWITCH
    order = np.argsort(-busy, kind="stable")[:_WATCHED]
    links = tuple(int(link) for link in order if busy[link] > 0)
    flows = rows[(path == links[0]).any(axis=1)] if links else rows
    largest = flows[np.argsort(-workload.bytes_[flows], kind="stable")]
    return links, tuple(largest[:_WATCHED].tolist())
