"""`nettune discover`: what the fabric looks like, from its nodes' own state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Example: nettune discover --lab lab -o fabric.json",
        short_help="What the fabric is, from its nodes' own state.",
    )
    def discover(
        lab: LabOption = "lab",
        out: Annotated[
            Path | None,
            typer.Option("-o", "--out", help="Write the fabric and its routing to this file too."),
        ] = None,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
    ) -> None:
        """Discover hosts, switches, cables, speeds, routes and hashes; report what is wrong with the structure."""
        from nettune.workflows.verbs import discover_to

        progress = Progress()
        finish_run("discover", output, discover_to(lab, out, runs, progress), progress)
