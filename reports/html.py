"""A `Report` as one HTML file that stands alone: styles and drawings inside, no script, nothing fetched.

Every text is escaped, whoever wrote it; the page's own content policy forbids scripts and loading on top of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from nettune.checks import Finding
from reports.document import Report
from reports.findings import group_findings, is_optional
from reports.formatting import format_table

if TYPE_CHECKING:
    from jinja2 import Environment


def render(report: Report) -> str:
    """The whole page."""
    environment = _environment()
    css, _, _ = (
        environment.loader.get_source(environment, "report.css") if environment.loader else ("", None, None)
    )
    return environment.get_template("report.html.j2").render(report=report, css=_trusted(css)) + "\n"


def render_findings(findings: Sequence[Finding], caption: str = "Findings") -> str:
    """The table of findings alone, a fragment of HTML."""
    module = _environment().get_template("findings.html.j2").module
    return str(module.table(group_findings(findings), caption))  # type: ignore[attr-defined]


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("reports"), autoescape=True, undefined=StrictUndefined, finalize=_shown
    )
    environment.filters["trusted"] = _trusted
    environment.globals["formatted"] = format_table
    environment.globals["grouped"] = group_findings
    environment.tests["optional"] = is_optional
    environment.globals["kind_of"] = lambda part: type(part).__name__
    return environment


def _shown(value: object) -> object:
    """Characters that no page may hold (controls, halves of surrogate pairs) become question marks."""
    from markupsafe import Markup

    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(char if char in "\n\t" or char.isprintable() or char.isspace() else "?" for char in value)


def _trusted(text: str) -> str:
    """Text that goes into the page as it is: our style sheet, and drawings made by `reports.charts`."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 (see above)
