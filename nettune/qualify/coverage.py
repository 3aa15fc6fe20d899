"""What was shown to be sound, with its figures, and what no transfer has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.flows import FlowState
from nettune.qualify.likelihood import Kind
from topology.fabric import LinkState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nettune.qualify.flows import FlowResult
    from nettune.qualify.plan import ProbePlan
    from topology.fabric import Fabric

_SHOWN_LOSSES = 7.75
"""Expected losses with which four or more are seen with 95% probability; four make a suspect."""


def passed(
    fabric: Fabric, results: Sequence[FlowResult], accused: Collection[ElementId], kinds: Collection[str]
) -> list[Finding]:
    """PASS findings: one on pairs, one for each kind of link fault that was not found (or: not elsewhere)."""
    sound = [r for r in results if r.state is FlowState.OK and not _accused(fabric, r, accused)]
    if not sound:
        return []
    shares = [r.share for r in sound if r.share == r.share and r.stage == 1]
    pairs = {(r.flow.src_port, r.flow.dst_port) for r in sound}
    flows = np.zeros(fabric.directed_count)
    packets = np.zeros(fabric.directed_count)
    for result in sound:
        for probability, links in result.flow.alternatives:
            flows[list(links)] += probability
            packets[list(links)] += probability * result.segments
    crossed = flows > 0
    elsewhere = " elsewhere" if accused else ""
    count = int(crossed.sum())
    fewest = f"each crossed by at least {flows[crossed].min():.3g} transfers"
    loss = _SHOWN_LOSSES / float(packets[crossed].min())
    texts: dict[str, tuple[str, dict[str, float]]] = {}
    if shares:
        texts[Kind.RATE] = (
            (
                f"{count} directed links{elsewhere} carry what was sent, {fewest}: "
                f"{min(shares):.2f} to {max(shares):.2f} of nominal at a pace of {sound[0].pace:.2f}"
            ),
            {"share_low": min(shares), "share_high": max(shares)},
        )
    texts[Kind.LOSS] = (
        (
            f"no loss{elsewhere}: {int(packets[crossed].min())} or more packets crossed each directed link, "
            f"so a loss above {loss:.3%} would have shown"
        ),
        {"detectable_loss": loss},
    )
    if any(r.datagrams for r in sound):
        told = [r for r in sound if r.mtu_ok is not None]
        texts[Kind.MTU] = (f"full-sized packets pass{elsewhere} on {len(told)} of {len(sound)} transfers", {})
    texts[Kind.FLAP] = (f"no interruption{elsewhere} in {len(sound)} transfers", {})
    findings = [
        Finding(
            check=str(kind), status=Status.PASS, where=ElementId.fabric(), what=what, evidence=dict(evidence)
        )
        for kind, (what, evidence) in texts.items()
        if kind not in kinds
    ]
    hosts = {int(fabric.ports.node[port]) for pair in pairs for port in pair}
    return [
        Finding(
            check="pairs",
            status=Status.PASS,
            where=ElementId.fabric(),
            what=f"{len(pairs)} ordered pairs of NICs of {len(hosts)} hosts, {len(sound)} transfers"
            + (f", {min(shares):.2f} to {max(shares):.2f} of nominal" if shares else ""),
            evidence={"pairs": len(pairs), "transfers": len(sound)},
        ),
        *findings,
    ]


def _accused(fabric: Fabric, result: FlowResult, accused: Collection[ElementId]) -> bool:
    for link in result.flow.links:
        names = {fabric.link_element(link // 2)}
        names.update(
            fabric.node_element(int(fabric.ports.node[port])) for port in fabric.directed_ports[link]
        )
        if not names.isdisjoint(accused):
            return True
    return False


def not_shown(
    fabric: Fabric, results: Sequence[FlowResult], plan: ProbePlan, silent_hosts: Sequence[str]
) -> list[Finding]:
    """UNKNOWN findings: links that no transfer crossed, pairs without a route, hosts without an agent, local errors."""
    crossed = np.zeros(fabric.directed_count)
    errors: dict[str, list[str]] = {}
    for result in results:
        if result.state is FlowState.ERROR:
            host = fabric.nodes.name[int(fabric.ports.node[result.flow.src_port])]
            errors.setdefault(host, []).append(result.note)
            continue
        for probability, links in result.flow.alternatives:
            crossed[list(links)] += probability
    findings = [
        _unknown("host-agent", ElementId.host(host), "has no agent, so it was not tested", [])
        for host in silent_hosts
    ]
    up = np.repeat(fabric.links.state == LinkState.UP, 2)
    idle = [int(link) for link in np.flatnonzero(up & (crossed == 0))]
    for cable in sorted({link // 2 for link in idle}):
        ways = [fabric.directed_name(link) for link in idle if link // 2 == cable]
        findings.append(_unknown("link-cover", fabric.link_element(cable), "no transfer crossed it", ways))
    if plan.unroutable:
        reasons = sorted({reason for _, _, reason in plan.unroutable})
        what = f"{len(plan.unroutable)} pairs of NICs have no path: {reasons[0]}"
        findings.append(_unknown("pairs", ElementId.fabric(), what, reasons))
    for host, notes in errors.items():
        what = f"{len(notes)} transfers could not be started: {notes[0]}"
        findings.append(_unknown("host-agent", ElementId.host(host), what, sorted(set(notes))))
    return findings


def _unknown(check: str, where: ElementId, what: str, details: Sequence[str]) -> Finding:
    return Finding(
        check=check,
        status=Status.UNKNOWN,
        where=where,
        what=what,
        evidence={"details": list(details)},
        fix="remove the cause and qualify again; what was not tested is not known to be sound",
    )
