"""From suspects and transfers to findings: FAIL and WARN for elements, PASS for what was shown, UNKNOWN for what was not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.flows import FlowState
from nettune.qualify.likelihood import Kind
from nettune.qualify.thresholds import limit
from nettune.units import format_rate
from topology.fabric import LinkState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.qualify.flows import FlowResult
    from nettune.qualify.infer import Suspect
    from topology.fabric import Fabric

_FIX = {
    Kind.RATE: "look for a wrong speed, a rate limit or a bad lane at both ends of this cable",
    Kind.LOSS: "clean or replace the cable and its transceivers; read the error counters at both ends",
    Kind.MTU: "set the same MTU at both ends",
    Kind.FLAP: "reseat or replace the cable and its transceivers; read the link's carrier changes",
    Kind.DEAD: "look at the port's state, its filters and the routes over it",
}


@dataclass(frozen=True)
class Weighed:
    """A suspect with what the re-test said: log likelihood ratio of the fault over the re-test's flows, None without any."""

    suspect: Suspect
    confirmation: float | None


def link_findings(fabric: Fabric, weighed: Sequence[Weighed], slow_hosts: Sequence[str]) -> list[Finding]:
    """A finding for each suspect.

    FAIL needs odds of `certain`, a re-test that agrees, and a size beyond the limit. A rate or a flap that is seen on
    the NIC of a slow host is the host's, and only a warning.
    """
    return [_finding(fabric, one, slow_hosts) for one in weighed]


def _finding(fabric: Fabric, one: Weighed, slow_hosts: Sequence[str]) -> Finding:
    suspect = one.suspect
    evidence = _evidence(fabric, suspect)
    what, serious = _describe(suspect, evidence)
    confirmed = one.confirmation is not None and one.confirmation > 2.0
    status = Status.FAIL if suspect.log_odds >= limit("certain") and confirmed and serious else Status.WARN
    notes = []
    if one.confirmation is None:
        notes.append("not tested again for lack of time")
    elif not confirmed:
        notes.append("a second test did not show it")
    ends = {node for node, _ in suspect.candidate.element.ends or ()}
    slow = sorted(ends & set(slow_hosts))
    if slow and suspect.kind is not Kind.MTU:
        status = Status.WARN
        notes.append(f"explained by the slow host {slow[0]}")
    return Finding(
        check=str(suspect.kind),
        status=status,
        where=suspect.candidate.element,
        what="; ".join([what, *notes]),
        evidence=evidence,
        probability=min(max(suspect.probability, 0.0), 1.0),
        fix=_FIX[suspect.kind],
    )


def _evidence(fabric: Fabric, suspect: Suspect) -> dict[str, Any]:
    flows = suspect.crossing
    way = suspect.candidate.one_way
    shares = [flow.share for flow in flows if flow.share == flow.share and flow.state is FlowState.OK]
    return {
        "direction": "both" if way is None else fabric.directed_name(way),
        "flows": len(flows),
        "bad_flows": sum(_is_bad(flow) for flow in flows),
        "median_share_of_nominal": float(np.median(shares)) if shares else None,
        "packets": sum(flow.segments for flow in flows),
        "packets_lost": sum(flow.lost for flow in flows),
        "log_odds": suspect.log_odds,
        "rivals": {
            str(element): probability for element, probability in suspect.rivals if probability > 0.005
        },
    }


def _is_bad(flow: FlowResult) -> bool:
    return flow.state is not FlowState.OK or flow.ratio < 0.97 or flow.lost > 0 or flow.mtu_ok is False


def _describe(suspect: Suspect, evidence: dict[str, Any]) -> tuple[str, bool]:
    """(sentence, whether the size is beyond the limit of FAIL)."""
    way = "" if evidence["direction"] == "both" else f" from {evidence['direction'].replace(' > ', ' to ')}"
    seen = f"{evidence['bad_flows']} of {evidence['flows']} transfers over it"
    if suspect.kind is Kind.RATE:
        second = [flow for flow in suspect.crossing if flow.stage == 2] or list(suspect.crossing)
        shares = [flow.share for flow in second if flow.share == flow.share]
        share = float(np.median(shares)) if shares else suspect.size
        evidence["share_of_nominal"] = share
        nominal = format_rate(second[0].flow.nominal_gbps) if second else ""
        return f"carries {share:.0%} of its {nominal}{way}; {seen} are slow", share < limit("link-rate-fail")
    if suspect.kind is Kind.LOSS:
        lost, packets = evidence["packets_lost"], evidence["packets"]
        low, high = loss_interval(lost, packets)
        evidence |= {"loss": lost / packets, "loss_low": low, "loss_high": high}
        text = f"loses {lost / packets:.2%} of the packets{way} (95% interval {low:.2%} to {high:.2%})"
        return f"{text}; {seen} lost some", low > limit("link-loss-fail")
    if suspect.kind is Kind.MTU:
        return f"drops full-sized packets{way} and passes small ones; {seen} show it", True
    if suspect.kind is Kind.FLAP:
        longest = max((flow.gap_s for flow in suspect.crossing), default=0.0)
        return (
            f"comes and goes: {seen} broke off or paused (up to {longest:.2f} s), the others ran well",
            True,
        )
    return f"carries nothing{way}: {seen} could not connect", True


def loss_interval(lost: int, packets: int) -> tuple[float, float]:
    """95% limits of a loss rate (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv

    low = float(betaincinv(lost, packets - lost + 1, 0.025)) if lost else 0.0
    high = float(betaincinv(lost + 1, packets - lost, 0.975)) if lost < packets else 1.0
    return low, high


def state_findings(fabric: Fabric) -> list[Finding]:
    """Links that are down, as the fabric says; a switch without any link that is up is named instead of its links."""
    down = [int(row) for row in np.flatnonzero(fabric.links.state == LinkState.DOWN)]
    ends = np.concatenate([fabric.links.port_a, fabric.links.port_b])
    states = np.tile(fabric.links.state, 2)
    findings = []
    named: set[int] = set()
    for node in np.unique(fabric.ports.node[ends[states == LinkState.DOWN]]):
        own = states[fabric.ports.node[ends] == node]
        links = [row for row in down if node in _nodes(fabric, row)]
        if len(own) > 1 and not np.any(own == LinkState.UP):
            named.update(links)
            what = f"all its {len(links)} links are down"
            findings.append(
                _down(fabric.node_element(int(node)), what, [str(fabric.link_element(row)) for row in links])
            )
    findings += [
        _down(fabric.link_element(row), "is down", [str(fabric.link_element(row))])
        for row in down
        if row not in named
    ]
    if findings:
        return findings
    what = f"all {len(fabric.links.state)} links are up"
    return [Finding(check="link-state", status=Status.PASS, where=ElementId.fabric(), what=what)]


def _nodes(fabric: Fabric, link: int) -> tuple[int, int]:
    return int(fabric.ports.node[fabric.links.port_a[link]]), int(
        fabric.ports.node[fabric.links.port_b[link]]
    )


def _down(where: ElementId, what: str, links: list[str]) -> Finding:
    return Finding(
        check="link-state",
        status=Status.FAIL,
        where=where,
        what=what,
        evidence={"links": links},
        probability=1.0,
        fix="bring it up, or take it out of the fabric's plan",
    )
