"""`nettune qualify`: which hosts, NICs and links are bad."""

from __future__ import annotations

from pathlib import Path

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, SeedOption, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Example: nettune qualify --lab lab --output json",
        short_help="Which hosts, NICs and links are bad, by real transfers.",
    )
    def qualify(
        lab: LabOption = "lab",
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Test every host and link by real transfers and name what is at fault; exit 1 when something is."""
        from nettune.workflows.verbs import qualify_lab

        progress = Progress()
        finish_run("qualify", output, qualify_lab(lab, runs, progress, seed=seed), progress)
