"""What `topology.ecmp.lint` says of running connections: whether switches can tell them apart, and which links they share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status, held, unknown
from nettune.elements import ElementId
from nettune.wording import counted
from topology.ecmp.choices import is_roce
from topology.ecmp.connections import us_per_byte
from topology.ecmp.lint_scope import GOOD_EFFICIENCY, WARN_LOSS, severity, switches
from topology.ecmp.polarization import ideal_like, with_hashes
from topology.ecmp.roce import SPORT_FIRST, SPORT_LAST
from topology.ecmp.steer import ROCE_PORTS, bound_us, steer
from topology.ecmp.walk import FlowColumns, paths, walked_loads
from topology.routing import UnknownPathError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.routing import Routing

    Floats = NDArray[np.float64]

_EPHEMERAL = range(32768, 61000)
"""Linux' default ip_local_port_range."""
_MOST_LISTED = 4096
_MOST_STEERED, _MOST_TRIED = 4096, 1 << 18
"""Flows whose ports are chosen, and ports that are looked at in all: a second or two."""


def of_flows(
    routing: Routing, flows: FlowColumns | None, flow_bytes: Floats | None, draws: int, seed: int
) -> list[Finding]:
    """Both rules; UNKNOWN without flows."""
    if flows is None or not len(flows):
        what = "no flows of running connections were given: neither their source ports nor their paths are looked at"
        fix = "give them: --flows flows.csv with the columns src, dst, sport"
        return [replace(unknown("ecmp-source-ports", ElementId.fabric(), what), fix=fix)]
    return [
        *source_ports(routing, flows, flow_bytes, draws, seed),
        *shared_links(routing, flows, flow_bytes, seed),
    ]


def shared_links(
    routing: Routing, flows: FlowColumns, flow_bytes: Floats | None = None, seed: int = 0
) -> list[Finding]:
    """The link that these flows load most, by their exact paths, and what chosen source ports would give."""
    check, fabric = "ecmp-flows", routing.fabric
    bytes_ = np.ones(len(flows)) if flow_bytes is None else flow_bytes
    try:
        taken = paths(routing, flows)
    except UnknownPathError as error:
        return [unknown(check, ElementId.fabric(), f"which links these flows take is not known: {error}")]
    flow, hop = np.nonzero(taken >= 0)
    loads = np.bincount(taken[flow, hop], bytes_[flow], minlength=fabric.directed_count)
    times = loads * us_per_byte(fabric, loads > 0)
    link, time_us = int(np.argmax(times)), float(times.max(initial=0.0))
    if not time_us:
        return []
    sharing = int(np.count_nonzero((taken == link).any(axis=1)))
    efficiency = bound_us(routing, flows, bytes_) / time_us
    evidence: dict[str, Any] = {
        "link": fabric.directed_name(link),
        "flows": sharing,
        "efficiency": round(efficiency, 3),
    }
    what = (
        f"{counted(sharing, 'flow')} of {len(flows)} cross {fabric.directed_name(link)}: all together get {efficiency:.0%} of "
        "what the fabric could carry of them"
    )
    if efficiency >= GOOD_EFFICIENCY:
        return [held(check, what, evidence)]
    fix = "choose source ports (`nettune discover paths --steer`), or place ranks so that less crosses this link"
    if len(flows) <= _MOST_STEERED:
        steered = steer(
            routing,
            flows,
            bytes_,
            ports=ROCE_PORTS if is_roce(flows.proto, flows.dport).all() else _EPHEMERAL,
            tried=min(256, _MOST_TRIED // len(flows)),
            draws=1,
            seed=seed,
        )
        evidence["steered_efficiency"] = round(steered.efficiency, 3)
        if steered.efficiency > efficiency:
            evidence["source_ports"] = steered.sport.tolist()
            fix = (
                "for programs that can set source ports: those of this finding's evidence (--output json), flow by flow, give "
                f"{steered.efficiency:.0%}"
            )
    return [
        Finding(
            check=check,
            status=Status.WARN,
            where=fabric.port_element(int(fabric.directed_ports[link, 0])),
            what=what,
            evidence=evidence,
            fix=fix,
        )
    ]


def paths_of(routing: Routing, flows: FlowColumns) -> list[dict[str, Any]]:
    """The exact path of each of the first flows, by names; none where a hash is not known."""
    fabric = routing.fabric
    first = flows.take(slice(0, _MOST_LISTED))
    try:
        taken = paths(routing, first)
    except UnknownPathError:
        return []
    names = [
        f"{fabric.nodes.name[node]}:{port}"
        for node, port in zip(fabric.ports.node, fabric.ports.name, strict=True)
    ]
    return [
        {
            "src": names[src],
            "dst": names[dst],
            "sport": sport,
            "links": [fabric.directed_name(link) for link in links if link >= 0],
        }
        for src, dst, sport, links in zip(
            first.src_port.tolist(),
            first.dst_port.tolist(),
            first.sport.tolist(),
            taken.tolist(),
            strict=True,
        )
    ]


def source_ports(
    routing: Routing,
    flows: FlowColumns,
    flow_bytes: Floats | None = None,
    draws: int = 100,
    seed: int = 0,
) -> list[Finding]:
    """Flows that switches cannot tell apart, and what that costs on average beside a port of its own for each."""
    check = "ecmp-source-ports"
    bytes_ = np.ones(len(flows)) if flow_bytes is None else flow_bytes
    hashes = {node: routing.hashes.get(node) or ideal_like(node, None) for node in switches(routing)}
    filled = with_hashes(routing, hashes)
    columns = [flows.src_port, flows.dst_port, flows.proto, flows.sport, flows.dport]
    if any("dst_qp" in spec.fields for spec in hashes.values()):
        columns.append(flows.dst_qp)
    tuple_of = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    distinct = int(tuple_of.max()) + 1
    generator = np.random.default_rng(seed)
    # Ports drawn for each tuple beside ports drawn for each flow: what sharing a tuple costs, whatever the luck of these.
    times = np.empty((2, draws))
    for draw in range(draws):
        drawn = generator.integers(SPORT_FIRST, SPORT_LAST + 1, len(flows))
        for kind, sport in enumerate((drawn[tuple_of], drawn)):
            times[kind, draw] = _time(filled, replace(flows, sport=sport), bytes_)
    shared, own = times.mean(axis=1).tolist()
    loss = max(0.0, 1 - own / shared) if shared else 0.0
    ports = len(np.unique(flows.sport))
    evidence = {
        "flows": len(flows),
        "distinct_tuples": distinct,
        "distinct_source_ports": ports,
        "expected_loss": round(loss, 3),
    }
    what = (
        f"{len(flows)} flows have {distinct} different tuples and {ports} different source ports; that costs {loss:.0%} on "
        "average beside a port of its own for each"
    )
    if distinct >= (1 - WARN_LOSS) * len(flows):
        return [held(check, what, evidence)]
    return [
        Finding(
            check=check,
            status=severity(loss, at_least=Status.WARN),
            where=ElementId.fabric(),
            what=what,
            evidence=evidence,
            fix="give every QP its own UDP source port (flow label or mlx5dv_modify_qp_udp_sport), or hash the destination QP",
        )
    ]


def _time(routing: Routing, flows: FlowColumns, bytes_: Floats) -> float:
    loads = walked_loads(routing, flows, bytes_)[0]
    return float((loads * us_per_byte(routing.fabric, loads > 0)).max(initial=0.0))
