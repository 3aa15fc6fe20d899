"""From suspects to findings, and the rule that holds whatever the odds say: what is bad again and again is no PASS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.flows import FlowState
from nettune.qualify.kinds import Kind
from nettune.qualify.likelihood import expected
from nettune.qualify.thresholds import limit
from nettune.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.qualify.flows import FlowResult
    from nettune.qualify.infer import Suspect
    from nettune.qualify.observe import Odd
    from nettune.qualify.passes import Weighed
    from topology.fabric import Fabric

_LIKELY_RIVAL = 0.1
"""A rival of this probability or more is named beside the first one."""
_FIX = {
    Kind.RATE: "look for a wrong speed, a rate limit or a bad lane at both ends of this cable",
    Kind.LOSS: "clean or replace the cable and its transceivers; read the error counters at both ends",
    Kind.MTU: "set the same MTU at both ends",
    Kind.FLAP: "reseat or replace the cable and its transceivers; read the link's carrier changes",
    Kind.DEAD: "look at the port's state, its filters and the routes over it",
}


def link_findings(fabric: Fabric, weighed: Sequence[Weighed], slow_hosts: Sequence[str]) -> list[Finding]:
    """A finding for each suspect.

    FAIL needs a size beyond the limit and either odds of `certain` with a re-test that agrees, or a way over it that
    was as bad in every test alone. A rate or a flap that is seen on the NIC of a slow host is the host's, and only a
    warning. Rivals that the tests do not tell from it are named in the sentence.
    """
    return [_finding(fabric, one, slow_hosts) for one in weighed]


def _finding(fabric: Fabric, one: Weighed, slow_hosts: Sequence[str]) -> Finding:
    suspect = one.suspect
    evidence = _evidence(fabric, suspect)
    what, serious = _describe(fabric, suspect, evidence)
    convicted = one.repeated or (suspect.log_odds >= limit("certain") and one.confirmed)
    status = Status.FAIL if convicted and serious and not one.refuted else Status.WARN
    notes = ["but it carried its rate in another test"] if one.refuted else []
    if one.confirmation is None:
        notes.append("not tested again for lack of time")
    elif not one.confirmed and not one.repeated:
        notes.append("a second test did not show it")
    ends = {node for node, _ in suspect.candidate.element.ends or ()}
    slow = sorted(ends & set(slow_hosts))
    if slow and suspect.kind is not Kind.MTU:
        status = Status.WARN
        notes.append(f"explained by the slow host {slow[0]}")
    others = [f"{element} ({p:.0%})" for element, p in suspect.rivals if p >= _LIKELY_RIVAL]
    if others:
        what = f"it or {' or '.join(others)}: {what}"
    return Finding(
        check=str(suspect.kind),
        status=status,
        where=suspect.candidate.element,
        what="; ".join([what, *notes]),
        evidence=evidence,
        probability=min(max(suspect.probability, 0.0), 1.0),
        fix=_FIX[suspect.kind],
    )


def named_elements(findings: Sequence[Finding]) -> set[ElementId]:
    """Elements of findings that are FAIL or WARN, and their likely rivals."""
    bad = [finding for finding in findings if finding.status in {Status.FAIL, Status.WARN}]
    rivals = {
        ElementId(name)
        for finding in bad
        for name, p in finding.evidence.get("rivals", {}).items()
        if p >= _LIKELY_RIVAL
    }
    return {finding.where for finding in bad} | rivals


def sealed(fabric: Fabric, findings: Sequence[Finding], repeats: Sequence[Odd]) -> list[Finding]:
    """The findings, such that no check passes for which a way was bad again when tested alone.

    Every repeated oddity needs a FAIL or WARN that names an element on its way; one that has none gets it here, for
    the way's first cable with the others as rivals. PASS findings of its checks, and of checks with a FAIL or WARN of a
    link, are taken out.
    """
    kept = list(findings)
    for odd in repeats:
        links = sorted(odd.flow.links)
        names = {fabric.link_element(link // 2) for link in links}
        names |= {
            fabric.node_element(int(node)) for node in fabric.ports.node[fabric.directed_ports[links]].flat
        }
        if named_elements(kept).isdisjoint(names):
            kept.append(_unnamed(fabric, odd))
    bad = {finding.check for finding in kept if finding.status in {Status.FAIL, Status.WARN}}
    bad |= {str(kind) for odd in repeats for kind in odd.kinds}
    return [finding for finding in kept if not (finding.status is Status.PASS and finding.check in bad)]


def _unnamed(fabric: Fabric, odd: Odd) -> Finding:
    cables = sorted({link // 2 for link in odd.flow.links})
    first, *others = (fabric.link_element(cable) for cable in cables)
    kind = min(odd.kinds, key=list(Kind).index)
    worst = min(row.ratio * row.pace if row.ratio == row.ratio else 1.0 for row in odd.seen)
    return Finding(
        check=str(kind),
        status=Status.FAIL if odd.firm and odd.tests > 1 and kind is not Kind.LOSS else Status.WARN,
        where=first,
        what=f"it or {' or '.join(map(str, others))}: transfers over all of them were bad in each of "
        f"{len(odd.seen)} tests, carrying {worst:.0%} of nominal in the worst",
        evidence={"rivals": {str(name): 1 / len(cables) for name in others}, "tests": len(odd.seen)},
        probability=1 / len(cables),
        fix=_FIX[kind],
    )


def _evidence(fabric: Fabric, suspect: Suspect) -> dict[str, Any]:
    flows = [flow for flow in suspect.crossing if not flow.flow.parts]
    way = suspect.candidate.one_way
    shares = [row.share for row in suspect.crossing if row.share == row.share and row.state is FlowState.OK]
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


def own_share(fabric: Fabric, row: FlowResult, links: frozenset[int]) -> float:
    """Share of their nominal rate that these links carried, if they and nothing else limited an observation; at most 1."""
    speeds = fabric.directed_gbps
    shares = np.linspace(0.01, 1.0, 100)
    return float(np.interp(row.ratio, expected(row.flow, links, speeds, shares / row.pace), shares))


def _describe_rate(fabric: Fabric, suspect: Suspect, evidence: dict[str, Any], way: str) -> tuple[str, bool]:
    links = suspect.candidate.links
    speeds = fabric.directed_gbps
    rows = [row for row in suspect.crossing if row.ratio == row.ratio]
    # Only what asks the element for more than it carries can show it.
    asking = [
        row
        for row in rows
        if expected(row.flow, links, speeds, np.array([suspect.size / row.pace]))[0] < 0.99
    ] or rows
    second = [row for row in asking if row.stage > 1] or asking
    slow = [row for row in second if row.ratio < 0.97] or second
    # Nothing makes a slow link faster, and a busy machine makes any slower: the best of them is its own.
    share = max((own_share(fabric, row, links) for row in slow), default=suspect.size)
    bad = sum(row.ratio < 0.97 for row in asking)
    tests = "tests" if any(row.flow.parts for row in asking) else "transfers"
    evidence |= {"share_of_nominal": share, "flows": len(asking), "bad_flows": bad}
    nominal_gbps = max((float(speeds[link]) for link in links), default=0.0)
    text = (
        f"carries {share:.0%} of its {format_rate(nominal_gbps)}{way}; {bad} of {len(asking)} {tests} over it"
    )
    text += " are slow" if len(asking) == len(rows) else " that ask for more are slow"
    return text, share < limit("link-rate-fail")


def _describe(fabric: Fabric, suspect: Suspect, evidence: dict[str, Any]) -> tuple[str, bool]:
    """(sentence, whether the size is beyond the limit of FAIL)."""
    way = "" if evidence["direction"] == "both" else f" from {evidence['direction'].replace(' > ', ' to ')}"
    seen = f"{evidence['bad_flows']} of {evidence['flows']} transfers over it"
    if suspect.kind is Kind.RATE:
        return _describe_rate(fabric, suspect, evidence, way)
    if suspect.kind is Kind.LOSS:
        lost, packets = evidence["packets_lost"], evidence["packets"]
        low, high = loss_interval(lost, packets)
        packets = max(packets, 1)
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
