"""A `Report` in Markdown (GitHub's dialect), for a ticket or a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nettune.checks import Finding
from reports.document import Figure, Findings, Part, Report, Table
from reports.findings import group_findings, is_optional
from reports.formatting import format_table

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")


def render(report: Report, images: Sequence[str] = ()) -> str:
    """The whole report.

    Args:
        report: what to say.
        images: addresses of the figures in the order of `report.figures`; a figure without one is told by its `alt`.
    """
    paths = iter(images)
    blocks = [f"# {_escaped(report.title)}", _escaped(report.subtitle)]
    if report.verdict is not None:
        blocks.append(f"**{report.verdict.status}**: {_escaped(report.verdict.sentence)}")
    blocks.append("\n".join(_key_figures(report)))
    for section in report.sections:
        blocks += [f"## {_escaped(section.heading)}", _escaped(section.lead)]
        for part in section.parts:
            blocks += _figure(part, next(paths, None)) if isinstance(part, Figure) else _part(part)
    if report.meta:
        blocks.append("## How this was made")
        blocks.append("\n".join(f"- {_escaped(key)}: {_code(value)}" for key, value in report.meta.items()))
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_table(table: Table) -> str:
    """A table under its caption; a star marks the best cells, our row is bold, and a line below says so."""
    shown = format_table(table)
    lines = [
        "| " + " | ".join(map(_escaped, shown.heads)) + " |",
        "| " + " | ".join("---:" if numeric else "---" for numeric in shown.numeric) + " |",
    ]
    for number, row in enumerate(shown.rows):
        cells = [
            (f"**{_escaped(cell)}**" if cell and number == table.own else _escaped(cell))
            + (r" \*" if (number, index) in shown.best else "")
            for index, cell in enumerate(row)
        ]
        lines.append("| " + " | ".join(cells) + " |")
    caption = f"{_escaped(table.caption)}\n\n" if table.caption else ""
    best = [r"\* best, with all that cannot be told from it"] if shown.best else []
    own = ["**bold**: nettune's own order"] if table.own is not None else []
    legend = f"\n\n{'; '.join([*best, *own])}" if best or own else ""
    return caption + "\n".join(lines) + legend


def render_findings(findings: Sequence[Finding]) -> str:
    """What did not pass as a table, worst first; what passed as one line."""
    group = group_findings(findings)
    blocks = []
    if group.open:
        estimated = any(finding.probability is not None for finding in group.open)
        lines = [
            f"| Status | Where |{' Probability |' * estimated} What, and what to do |",
            f"| --- | --- |{' ---: |' * estimated} --- |",
        ]
        for finding in group.open:
            sure = "" if finding.probability is None else f" {finding.probability:.2f}"
            said = _escaped(f"{finding.what} {finding.fix}".strip())
            status = f"{finding.status} (not required)" if is_optional(finding) else finding.status
            lines.append(f"| {status} | {_escaped(finding.where)} |{f'{sure} |' * estimated} {said} |")
        blocks.append("\n".join(lines))
    if group.passed:
        blocks.append(_escaped(group.passed_line))
    return "\n\n".join(blocks) or "No check was run."


def _key_figures(report: Report) -> list[str]:
    lines = []
    for figure in report.summary:
        judged = f"{figure.verdict} " if figure.verdict is not None else ""
        detail = f" ({_escaped(figure.detail)})" if figure.detail else ""
        lines.append(f"- {judged}{_escaped(figure.label)}: **{_escaped(figure.value)}**{detail}")
    return lines


def _figure(figure: Figure, image: str | None) -> list[str]:
    if image is None:
        return [f"*{_escaped(figure.caption)}* {_escaped(figure.alt)}"]
    return [f"![{_escaped(figure.alt)}]({image})", f"*{_escaped(figure.caption)}*"]


def _part(part: Part) -> list[str]:
    if isinstance(part, Table):
        return [render_table(part)]
    if isinstance(part, Findings):
        return [render_findings(part.findings)]
    assert not isinstance(part, Figure)
    items = "\n".join(f"- {_escaped(item)}" for item in part.items)
    return [_escaped(part.text), items, _fenced(part.code)]


def _escaped(text: str) -> str:
    """One line in which nothing is markup: HTML is made inert, Markdown's characters get a backslash."""
    text = "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)


def _code(text: str) -> str:
    """One line of code, fenced by more backticks than it holds."""
    text = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence} {text} {fence}" if text else "-"


def _fenced(code: str) -> str:
    if not code:
        return ""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", code)), default=0))
    return f"{fence}\n{code}\n{fence}"
