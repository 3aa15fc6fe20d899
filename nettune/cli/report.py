"""`nettune report`: the report of a run again, from its directory."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, finish


class Form(enum.StrEnum):
    """Renderings of a report."""

    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    PICTURE = "picture"


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Example: nettune report runs/20260101T120000Z-demo --form markdown > report.md",
        short_help="A run's report again: html, markdown, text, picture.",
    )
    def report(
        run: Annotated[Path, typer.Argument(help="A run directory, or its result.json.")],
        form: Annotated[
            Form,
            typer.Option(
                "--form",
                help="html writes report.html there, others print; picture is an SVG of the link loads.",
            ),
        ] = Form.HTML,
        output: OutputOption = Output.TEXT,
    ) -> None:
        """Make a run's report again, from the results that it left."""
        from nettune.workflows.again import report_again

        made = report_again(run, form.value).rstrip("\n")
        key = "report" if form is Form.HTML else "text"
        finish("report", output, 0, {"run": run, "form": form, key: made}, lambda: made)
