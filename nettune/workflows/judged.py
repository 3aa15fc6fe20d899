"""Hosts that were judged by their captures, in a report: what is wrong, who is drained for it, what to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nettune.checks import Finding, Status, exit_code
from nettune.qualify.folding import folded
from nettune.wording import counted
from reports.document import Column, Findings, KeyFigure, Part, Report, Section, Table, Text, Verdict

Data = Mapping[str, Any]

_MOST_ROWS = 256


def report(data: Data, findings: Sequence[Finding], meta: Mapping[str, str]) -> Report:
    """The whole report of `qualify` on captures.

    Args:
        data: results of the run, with `judged`.
        findings: those that did not pass, worst first.
        meta: command, versions, machine.
    """
    judged = data["judged"]
    drains = judged["drains"]
    passed = [f"{check} {count:,}" for check, count in sorted(judged["passed"].items())]
    parts: list[Part] = [Findings([_with_basis(one) for one in folded(findings)])] if findings else []
    parts.append(Text(f"Passed: {', '.join(passed)}." if passed else "No check passed."))
    return Report(
        title="Qualification of hosts by what they say of themselves",
        subtitle=f"{counted(judged['captured'], 'host')} of {judged['hosts']:,} in {judged['bundle']}",
        summary=_figures(judged),
        sections=[
            Section("Findings", "What was captured, judged; no transfer has tested it.", parts),
            section(drains, data["files"]),
        ],
        meta=dict(meta),
        verdict=_verdict(judged, findings),
    )


def _with_basis(finding: Finding) -> Finding:
    """With where the expected value comes from behind what to do; findings.jsonl has it apart."""
    limits = finding.evidence.get("limits", [])
    numbers = [f"{one['name']} {one['value']:g} {one['unit']} ({one['why']})" for one in limits]
    basis = "; ".join([*filter(None, [finding.evidence.get("basis")]), *numbers])
    return replace(finding, fix=f"{finding.fix} [by: {basis}]") if basis else finding


def section(drains: Data, files: Mapping[str, str]) -> Section:
    """Hosts to be taken out, and the files that do it."""
    hosts = drains["hosts"]
    parts: list[Part] = []
    if hosts:
        rows = [[one["host"], one["check"], one["element"], one["what"]] for one in hosts[:_MOST_ROWS]]
        more = f" The first {_MOST_ROWS} of {len(hosts):,}." if len(hosts) > _MOST_ROWS else ""
        heads = [Column("host"), Column("check"), Column("element"), Column("what")]
        parts.append(Table(f"Hosts with a fault.{more}", heads, rows))
    parts.append(Text(items=[f"{name}: {path}" for name, path in files.items()]))
    lead = "No host has to be drained." if not hosts else f"{counted(len(hosts), 'host')} to be drained."
    return Section("Drains", f"Withheld: {drains['withheld']}." if drains["withheld"] else lead, parts)


def _figures(judged: Data) -> list[KeyFigure]:
    counts, drains = judged["statuses"], judged["drains"]
    told = ", ".join(f"{counts[status]:,} {status}" for status in Status if counts.get(status))
    faulty = len(drains["hosts"])
    share = f"{faulty / judged['hosts']:.1%} of the hosts" if faulty and judged["hosts"] else ""
    return [
        KeyFigure("hosts", f"{judged['hosts']:,}", told),
        KeyFigure(
            "passed", f"{sum(judged['passed'].values()):,}", f"by {counted(len(judged['passed']), 'check')}"
        ),
        KeyFigure("drains", "withheld" if drains["withheld"] else f"{faulty:,}", share),
    ]


def _verdict(judged: Data, findings: Sequence[Finding]) -> Verdict:
    withheld = next((one for one in findings if one.check == "max-drain"), None)
    first = withheld or next(iter(findings), None)
    code = exit_code(findings)
    if first is None or (code == 0 and first.status is Status.UNKNOWN):
        by = counted(len(judged["passed"]), "check")
        return Verdict(Status.PASS, f"nothing is wrong with {counted(judged['hosts'], 'host')}, by {by}")
    status = {0: Status.WARN, 1: Status.FAIL, 2: Status.UNKNOWN}[code]
    return Verdict(status, f"{first.where}: {first.what}")
