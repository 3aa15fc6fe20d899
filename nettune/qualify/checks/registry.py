"""All rules on captures, and `judge`, which runs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from nettune.checks import Finding, Status, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.qualify.checks.frame import NO_EARLIER, Context, Fleet, Rule
from nettune.qualify.checks.rules import (
    agreement,
    counters,
    fleet,
    gpus,
    hosts,
    interfaces,
    jobenv,
    mtu,
    nvlink,
    pcie,
    ports,
    roce,
    signal,
    stragglers,
    switches,
    testruns,
)
from nettune.wording import counted
from topology.capture import HostCapture

RULES: dict[str, Rule] = {
    rule.name: rule
    for family in (
        ports,
        signal,
        counters,
        pcie,
        gpus,
        nvlink,
        mtu,
        roce,
        agreement,
        switches,
        fleet,
        hosts,
        interfaces,
        jobenv,
        stragglers,
        testruns,
    )
    for rule in family.RULES
}


def judge(captures: Sequence[HostCapture], context: Context | None = None) -> list[Finding]:
    """Findings of all rules that are not switched off, the most urgent first; live or offline makes no difference.

    A host that is there twice is judged once; a name that no element can have is refused with a finding. Where no
    rule had anything to judge, that is an UNKNOWN, not a pass.
    """
    context = context or Context()
    findings: list[Finding] = []
    kept: dict[str, HostCapture] = {}
    for capture in captures:
        try:
            ElementId.host(capture.host)
        except InputError as error:
            findings.append(_refused(f"a capture was left out: {error}"))
            continue
        if capture.host in kept:
            findings.append(_refused(f"{capture.host} was captured twice: the first capture is judged"))
        else:
            kept[capture.host] = capture
    seen = Fleet.of(list(kept.values()), context)
    spoken = 0
    for rule in RULES.values():
        if context.settings.modes.get(rule.name) != "off":
            found = rule.over(seen)
            spoken += len(found)
            findings += found
    if not spoken:
        nothing = f"nothing in {counted(len(kept), 'capture')} could be judged: no RDMA device, GPU or interface was found"
        findings.append(
            replace(_refused(nothing), fix="collect again as root, with `nettune qualify collect`")
        )
    return worst_first(_without_earlier(findings, context))


def _without_earlier(findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Say once, of a host or of all, what no rule on growth could judge for want of an earlier capture."""
    kept: list[Finding] = []
    waiting: dict[ElementId, list[Finding]] = defaultdict(list)
    for one in findings:
        if one.what == NO_EARLIER:
            waiting[one.where if context.before else ElementId.fabric()].append(one)
        else:
            kept.append(one)
    for where, same in waiting.items():
        checks = sorted({one.check for one in same})
        kept.append(
            replace(
                same[0],
                check="earlier-capture",
                where=where,
                what=f"{NO_EARLIER}, so growth was not judged by {', '.join(checks)}",
                evidence={"checks": checks, "hosts": len({one.where.node for one in same})},
                required=any(one.required for one in same),
            )
        )
    return kept


def _refused(what: str) -> Finding:
    return Finding(
        check="captures",
        status=Status.UNKNOWN,
        where=ElementId.fabric(),
        what=what[:400],
        fix="give each host once, by a plain name",
    )
