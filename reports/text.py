"""A `Report` as a summary for the terminal: about twenty lines of at most 80 columns, plain ASCII around the data.

Styles are added by rich, and only where the stream is a terminal (NO_COLOR and FORCE_COLOR are honoured).
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import TextIO

from nettune.checks import Finding, Status
from reports.document import Findings, Report, Table
from reports.findings import group_findings, notes
from reports.formatting import FormattedTable, format_table

WIDTH = 80
_MOST_FINDINGS = 5
_STYLES = {"PASS": "bold green", "WARN": "bold yellow", "FAIL": "bold red", "UNKNOWN": "bold magenta"}


def render(report: Report, *, footer: Sequence[str] = (), width: int = WIDTH) -> str:
    """Title, verdict, key figures, the tables marked `brief`, the worst findings, then the footer.

    Args:
        report: what to say.
        footer: last lines, `report  runs/.../report.html`; they are not wrapped, so that a path can be copied.
        width: columns.
    """
    lines = [*_wrapped(report.title, width), *_wrapped(report.subtitle, width)]
    if report.verdict is not None:
        lines += _wrapped(report.verdict.sentence, width, f"{report.verdict.status:7} ", " " * 8)
    lines.append("-" * width)
    lines += _key_figures(report, width)
    parts = [part for section in report.sections for part in section.parts]
    brief = [(part, format_table(part)) for part in parts if isinstance(part, Table) and part.brief]
    for table, shown in brief:
        lines += ["", *_table(table, shown, width)]
    lines += _legend(brief, width)
    if any(isinstance(part, Findings) for part in parts):
        said = report.verdict.sentence if report.verdict is not None else ""
        findings = render_findings(report.findings, width=width, most=_MOST_FINDINGS, said=said)
        lines += ["", *findings.splitlines()]
    if footer:
        lines += ["", *(_inert(line) for line in footer)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_table(table: Table, width: int = WIDTH) -> str:
    """A table with its caption and what its marks mean: `*` the best cells, `>` our row.

    Long text is cut so that rows stay whole.
    """
    shown = format_table(table)
    lines = [*_table(table, shown, width), *_legend([(table, shown)], width)]
    return "\n".join(lines) + "\n"


def render_findings(
    findings: Sequence[Finding], *, width: int = WIDTH, most: int | None = None, said: str = ""
) -> str:
    """What did not pass, worst first, each with what to do; what passed as one line.

    Args:
        findings: in any order.
        width: columns.
        most: so many that did not pass; None for all.
        said: a sentence that the reader has just read, as a verdict; the finding `where: what` that says the same
            is cut down to its element and what to do.
    """
    group = group_findings(findings)
    lines: list[str] = []
    for finding in group.open[:most]:
        noted = ", ".join(notes(finding))
        sentence = str(finding.where) + (f" ({noted})" if noted else "")
        if f"{finding.where}: {finding.what}" != said:
            sentence += f": {finding.what}"
        lines += _wrapped(sentence, width, f"{finding.status:7} ", " " * 8)
        if finding.fix:
            lines += _wrapped(f"fix: {finding.fix}", width, " " * 8, " " * 13)
    if most is not None and len(group.open) > most:
        lines.append(f"        and {len(group.open) - most} more that did not pass")
    if group.passed:
        lines += _wrapped(group.passed_line, width, f"{Status.PASS:7} ", " " * 8)
    return "\n".join(lines or ["no check was run"]) + "\n"


def wants_colour(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to style: NO_COLOR says no, FORCE_COLOR yes, else only a terminal that is not dumb."""
    variables = os.environ if environment is None else environment
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    return stream.isatty() and variables.get("TERM") != "dumb"


def write(text: str, stream: TextIO, environment: Mapping[str, str] | None = None) -> None:
    """Write rendered text; on a terminal the status words and the title are styled.

    Characters that the stream's encoding lacks become `?`.
    """
    encoding = stream.encoding or "utf-8"
    text = text.encode(encoding, "replace").decode(encoding)
    if not wants_colour(stream, environment):
        stream.write(text)
        return
    from rich.console import Console
    from rich.text import Text

    styled = Text(text)
    for word, style in _STYLES.items():
        styled.highlight_regex(rf"(?m)^{word}\b", style)
    styled.highlight_regex(r"(?m)^>.*$", "bold")
    styled.highlight_regex(r"\A.*", "bold")
    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True, legacy_windows=False)
    console.print(styled, end="")


def _clean(text: str) -> str:
    """One line without control characters: a host's name must not move the cursor."""
    return _inert(" ".join(text.split()))


def _inert(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(_clean(text), width, initial_indent=first, subsequent_indent=rest)


def _key_figures(report: Report, width: int) -> list[str]:
    figures = [(_clean(f.label), _clean(f.value), _clean(f.detail), f.verdict) for f in report.summary]
    labels = min(30, max((len(name) for name, *_ in figures), default=0))
    values = min(26, max((len(value) for _, value, *_ in figures), default=0))
    lines = []
    for name, value, detail, verdict in figures:
        judged = f"{verdict}" if verdict is not None else ""
        head = f"{judged:7} {_cut(name, labels):{labels}}  {_cut(value, values):{values}}"
        if len(head) + 2 + len(detail) <= width or not detail:
            lines.append(f"{head}  {detail}")
        else:
            lines.append(head)
            lines += _wrapped(detail, width, " " * 8, " " * 8)
    return lines


def _legend(tables: Sequence[tuple[Table, FormattedTable]], width: int) -> list[str]:
    """One line on the marks that these tables have; none where they have none."""
    own = ["> nettune's own order"] if any(table.own is not None for table, _ in tables) else []
    best = ["* best, with all that cannot be told from it"] if any(shown.best for _, shown in tables) else []
    return [_cut("  " + "   ".join([*own, *best]), width)] if own or best else []


def _table(table: Table, shown: FormattedTable, width: int) -> list[str]:
    marked = [
        [
            _clean(cell) + ("*" if (number, index) in shown.best else " " if shown.numeric[index] else "")
            for index, cell in enumerate(row)
        ]
        for number, row in enumerate(shown.rows)
    ]
    heads = [
        _clean(head) + (" " if numeric else "")
        for head, numeric in zip(shown.heads, shown.numeric, strict=True)
    ]
    sizes = _fitted([max(map(len, column)) for column in zip(heads, *marked, strict=True)], width - 2)
    lines = _wrapped(table.caption, width) if table.caption else []
    lines.append(_row("", heads, sizes, shown.numeric))
    lines += [
        _row(">" if number == table.own else "", row, sizes, shown.numeric)
        for number, row in enumerate(marked)
    ]
    return [line.rstrip() for line in lines]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 2)] + ".." if width > 2 else text[:width]


def _fitted(sizes: list[int], width: int) -> list[int]:
    """Take room from the widest column until all fit; two columns of space stand between."""
    sizes = list(sizes)
    room = max(len(sizes), width - 2 * (len(sizes) - 1))
    while sum(sizes) > room:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _row(mark: str, cells: Sequence[str], sizes: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = [
        _cut(cell, size).rjust(size) if right else _cut(cell, size).ljust(size)
        for cell, size, right in zip(cells, sizes, numeric, strict=True)
    ]
    return f"{mark:1} " + "  ".join(parts)
