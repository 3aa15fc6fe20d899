"""A lint of settings or logs in a report: what was read, what is wrong with it, the settings that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nettune.checks import Finding, Status, exit_code
from nettune.wording import some
from reports.document import Column, Findings, KeyFigure, Part, Report, Section, Table, Verdict

Data = Mapping[str, Any]

_MOST_ROWS = 256
_MOST_SHOWN = 120


def report(data: Data, findings: Sequence[Finding], meta: Mapping[str, str]) -> Report:
    """The whole report of `lint env` or `lint log`.

    Args:
        data: results of the run, with `lint`.
        findings: worst first.
        meta: command, versions, machine.
    """
    lint = data["lint"]
    of_log = lint["kind"] == "log"
    parts: list[Part] = [Findings(findings)]
    if lint.get("settings"):
        rows = [
            [one["variable"], one["value"][:_MOST_SHOWN], one["default"], f"{one['file']}:{one['line']}"]
            for one in lint["settings"][:_MOST_ROWS]
        ]
        heads = [Column("variable"), Column("value"), Column("default"), Column("from")]
        parts.append(Table(f"Settings that NCCL {lint['nccl_version']} sees.", heads, rows))
    lead = (
        "The first cause; what follows from it is named so." if of_log else "What NCCL makes of each setting."
    )
    return Report(
        title="Lint of NCCL logs" if of_log else "Lint of NCCL settings",
        subtitle=_subtitle(lint),
        summary=_figures(lint, findings),
        sections=[Section("Findings", lead, parts)],
        meta=dict(meta),
        verdict=_verdict(findings, of_log=of_log),
    )


def _subtitle(lint: Data) -> str:
    named = some(lint["sources"], 4)
    if lint["kind"] == "log":
        return named
    fabric = f", against {lint['fabric']}" if lint["fabric"] else ""
    assumed = "" if lint["version_told"] else " (assumed)"
    return f"{named}; NCCL {lint['nccl_version']}{assumed}{fabric}"


def _figures(lint: Data, findings: Sequence[Finding]) -> list[KeyFigure]:
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    figures = [] if lint["kind"] == "log" else [KeyFigure("settings", str(len(lint["settings"])))]
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return [*figures, KeyFigure("findings", str(len(findings)), told)]


def _verdict(findings: Sequence[Finding], *, of_log: bool) -> Verdict:
    code = exit_code(findings)
    first = findings[0]
    if code:
        return Verdict(Status.FAIL if code == 1 else Status.UNKNOWN, f"{first.where}: {first.what}")
    if first.status is Status.WARN:
        return Verdict(Status.WARN, f"{first.where}: {first.what}")
    return Verdict(
        Status.PASS, "no trouble in these logs" if of_log else "nothing is wrong with these settings"
    )
