"""What is wrong with a fabric's ECMP before any byte is sent, each with the bandwidth that it is expected to cost.

Losses come from the engine: flows are walked through the next hops under the hashes as they are, and beside them under
what they would be if the one thing were right. Unknown hashes are UNKNOWN, not a pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nettune.checks import Finding, Status, held, unknown
from nettune.elements import ElementId
from nettune.wording import counted, some
from topology.ecmp.capacity import mismatches
from topology.ecmp.connections import (
    QpSettings,
    across_leaves,
    busiest,
    by_qps,
    qp_transfers,
    roce_ports,
)
from topology.ecmp.lint_flows import of_flows
from topology.ecmp.lint_scope import (
    GOOD_EFFICIENCY,
    WARN_LOSS,
    choosing,
    no_choice,
    severity,
    switches,
    with_speeds,
)
from topology.ecmp.polarization import ideal_like, idle_loss, only_seeds_differ, polarized, with_hashes
from topology.ecmp.spec import FAMILIES
from topology.ecmp.walk import FlowColumns
from topology.routing import UnknownPathError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.ecmp.connections import Connections
    from topology.routing import Routing

    Floats = NDArray[np.float64]

_MANY_QPS, _TRIALS = 16, 20
_SEED_SETTING = " (net.ipv4.fib_multipath_hash_seed)"


def lint_ecmp(
    routing: Routing,
    *,
    connections: Connections | None = None,
    settings: QpSettings | None = None,
    flows: FlowColumns | None = None,
    flow_bytes: Floats | None = None,
    draws: int = 100,
    seed: int = 0,
) -> list[Finding]:
    """All rules.

    Args:
        routing: with the fabric, and the hashes as far as they are known.
        connections: the job's; every NIC to one behind another leaf where left out.
        settings: QPs; NCCL's defaults where left out.
        flows: 5-tuples of running connections, whose source ports are looked at.
        flow_bytes: (F,) bytes of them; equal where left out.
        draws: port draws behind each expected loss.
        seed: of the draws.

    Raises:
        UnknownPathError: a connection has no route.
    """
    if not choosing(routing):
        return [no_choice(routing)]
    asked = across_leaves(routing) if connections is None else connections
    qps = settings or QpSettings()
    routing, told = with_speeds(routing)
    return [
        *told,
        *polarization(routing, seed),
        *hash_fields(routing, asked, draws, seed),
        *queue_pairs(routing, asked, qps, draws, seed),
        *of_flows(routing, flows, flow_bytes, draws, seed),
        *weights(routing),
    ]


def polarization(routing: Routing, seed: int = 0) -> list[Finding]:
    """Switches whose choice was made by the switch before."""
    check, fabric = "ecmp-polarization", routing.fabric
    not_known = sorted(choosing(routing) - set(routing.hashes))
    if not_known:
        return [_unknown(check, routing, not_known, "whether one tier repeats the choice of another")]
    pairs, looked_at = polarized(routing)
    try:
        loss = idle_loss(routing, seed) if pairs else 0.0
    except UnknownPathError as error:
        return [unknown(check, ElementId.fabric(), str(error))]
    if loss < WARN_LOSS:
        what = f"{looked_at} kinds of successive choices do not leave links idle"
        if pairs:
            what = f"{len(pairs)} of {looked_at} kinds of successive choices depend on each other, but all links are used"
        evidence = {"dependent_pairs": len(pairs), "pairs": looked_at, "expected_loss": round(loss, 3)}
        return [held(check, what, evidence)]
    worst = min(pairs, key=lambda pair: pair.reached / pair.size)
    one, other = routing.hashes[worst.first], routing.hashes[worst.second]
    linear = FAMILIES[other.family].linear and worst.same
    seeds = (
        " under another seed, which only renames the next hops" if only_seeds_differ(routing, worst) else ""
    )
    return [
        Finding(
            check=check,
            status=severity(loss),
            where=fabric.node_element(worst.second),
            what=f"flows over {fabric.directed_name(worst.link)} use {worst.reached} of {worst.size} next hops of "
            f"{fabric.nodes.name[worst.second]}, which hashes by {other.family} as {fabric.nodes.name[worst.first]} does"
            f"{seeds}; uniform traffic loses {loss:.0%} of the bandwidth",
            evidence={
                "first": fabric.nodes.name[worst.first],
                "second": fabric.nodes.name[worst.second],
                "reached": worst.reached,
                "next_hops": worst.size,
                "dependent_pairs": len(pairs),
                "pairs": looked_at,
                "hashes": [one.to_json(), other.to_json()],
                "expected_loss": round(loss, 3),
            },
            fix="give one of the two tiers another hash offset or function; another seed alone does not help, because "
            "CRC and XOR are linear"
            if linear
            else f"give each tier its own hash seed{_SEED_SETTING if other.family.startswith('linux') else ''}",
        )
    ]


def hash_fields(routing: Routing, connections: Connections, draws: int = 100, seed: int = 0) -> list[Finding]:
    """Hashes in which all QPs between two NICs are one flow: neither source port nor destination QP is hashed."""
    check, fabric = "ecmp-fields", routing.fabric
    known = {
        node: routing.hashes[node]
        for node in choosing(routing)
        if node in routing.hashes and FAMILIES[routing.hashes[node].family].module
    }
    blind = sorted(node for node, spec in known.items() if not {"sport", "dst_qp"} & set(spec.fields))
    if not blind:
        if not known and choosing(routing):
            what = "whether the source port or the destination QP is hashed"
            return [_unknown(check, routing, sorted(choosing(routing)), what)]
        what = f"of switches with a known hash all ({len(known)}) use the source port or the destination QP"
        return [held(check, what)]
    moved = qp_transfers(connections, QpSettings(_MANY_QPS, split=True))
    even, times = 1.0, np.zeros(2)
    for trial in range(_TRIALS):
        # Ideal functions of the fields, so that only the fields differ; several, since addresses are never drawn anew.
        first = trial * len(fabric.nodes.name)
        now = {node: ideal_like(first + node, routing.hashes.get(node)) for node in switches(routing)}
        right = now | {node: replace(now[node], fields=(*now[node].fields, "sport")) for node in blind}
        for kind, hashes in enumerate((now, right)):
            found = busiest(
                with_hashes(routing, hashes),
                moved,
                draws=max(1, draws // _TRIALS),
                seed=seed + trial,
                ports=roce_ports,
            )
            even, times[kind] = found.even_us, times[kind] + found.mean_us / _TRIALS
    efficiency = [even / time if time else 1.0 for time in times.tolist()]
    loss = max(0.0, 1 - efficiency[0] / efficiency[1])
    names = [fabric.nodes.name[node] for node in blind]
    return [
        Finding(
            check=check,
            status=severity(loss, at_least=Status.WARN),
            where=fabric.node_element(blind[0]) if len(blind) == 1 else ElementId.fabric(),
            what=f"{counted(len(blind), 'switch hashes', 'switches hash')} neither the UDP source port nor the destination QP ({some(names, 4)}): all QPs "
            f"between two NICs take one path, and {_MANY_QPS} QPs lose {loss:.0%} beside a hash that sees the port",
            evidence={
                "switches": names,
                "fields": list(known[blind[0]].fields),
                "efficiency": round(efficiency[0], 3),
                "efficiency_with_port": round(efficiency[1], 3),
                "expected_loss": round(loss, 3),
            },
            fix="hash the L4 source port, or the RoCE destination QP where the switch can",
        )
    ]


def queue_pairs(
    routing: Routing, connections: Connections, settings: QpSettings, draws: int = 100, seed: int = 0
) -> list[Finding]:
    """Too few flows for the fan-out: what is lost to collisions even under ideal hashes, and what more QPs buy."""
    check = "ecmp-qps"
    counts = sorted({settings.per_connection, 1, 2, 4, 8, 16, 32})
    found = by_qps(routing, connections, settings, counts, draws=draws, seed=seed)
    efficiency = {count: round(each.efficiency, 3) for count, each in found.items()}
    now = found[settings.per_connection].efficiency
    evidence = {
        "qps_per_connection": settings.per_connection,
        "efficiency_by_qps": {str(count): value for count, value in efficiency.items()},
        "expected_loss": round(1 - now, 3),
    }
    plural = "s" if settings.per_connection > 1 else ""
    what = (
        f"with {settings.per_connection} QP{plural} per connection, {len(connections.bytes_)} connections between leaves get "
        f"{now:.0%} of the bandwidth of an even split on average, even under ideal hashes"
    )
    if now >= GOOD_EFFICIENCY:
        return [held(check, what, evidence)]
    enough = [count for count, value in efficiency.items() if value >= GOOD_EFFICIENCY]
    best = max(efficiency, key=lambda count: efficiency[count])
    return [
        Finding(
            check=check,
            status=Status.WARN,
            where=ElementId.fabric(),
            what=what,
            evidence=evidence,
            fix=f"set NCCL_IB_QPS_PER_CONNECTION={enough[0]}: {efficiency[enough[0]]:.0%}"
            if enough
            else f"QPs alone do not do it ({best}: {efficiency[best]:.0%}): choose source ports (`nettune discover paths "
            "--steer`), or place ranks so that less crosses the leaves",
        )
    ]


def weights(routing: Routing) -> list[Finding]:
    """Next-hop groups whose weights do not fit what lies behind their members, as after a failure further on."""
    check, fabric = "ecmp-weights", routing.fabric
    found = mismatches(routing, WARN_LOSS)
    if not found:
        what = "every group of next hops is weighted as its members can carry"
        return [held(check, what)]
    return [
        Finding(
            check=check,
            status=severity(each.loss),
            where=fabric.node_element(each.node),
            what=f"towards {fabric.nodes.name[each.target]} the weights are {_ratio(each.weights)}, but the next hops can carry "
            f"{_ratio(each.fitting)}: {each.loss:.0%} of that capacity is lost",
            evidence={
                "next_hops": [fabric.directed_name(link) for link in each.links],
                "weights": list(each.weights),
                "fitting_weights": list(each.fitting),
                "expected_loss": round(each.loss, 3),
            },
            fix=f"set weights {_ratio(each.fitting)} (WCMP, or the link-bandwidth community), or repair what failed",
        )
        for each in found
    ]


def _unknown(check: str, routing: Routing, nodes: list[int], what: str) -> Finding:
    names = [routing.fabric.nodes.name[node] for node in nodes]
    return Finding(
        check=check,
        status=Status.UNKNOWN,
        where=ElementId.fabric(),
        what=f"{what} is not known, for the hash of {counted(len(names), 'switch')} with several next hops is not "
        f"({some(names, 4)})",
        evidence={"switches": names},
        required=False,
        fix="discover with the switches' hash settings, or run `nettune discover paths` and lint the result.json of its run",
    )


def _ratio(numbers: tuple[int, ...]) -> str:
    return ":".join(map(str, numbers))
