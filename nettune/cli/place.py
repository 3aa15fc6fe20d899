"""`nettune place`: which rank goes on which host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, SeedOption, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Examples: nettune place job.toml --lab lab; nettune place job.toml --fabric fabric.json",
        short_help="Which rank goes on which host; files for the launchers.",
    )
    def place(
        job: Annotated[
            Path, typer.Argument(help="job.toml: parallel sizes, order of ranks, bytes of a step.")
        ],
        lab: LabOption = "lab",
        fabric: Annotated[
            Path | None, typer.Option("--fabric", help="A file of `nettune discover -o` instead of a lab.")
        ] = None,
        exclude: Annotated[
            str, typer.Option("--exclude", help="Hostlist that must not be used: g[01-03],g7.")
        ] = "",
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Map ranks to hosts, predict the load of every link, and write the files that launchers obey."""
        from nettune.workflows.verbs import place_job

        progress = Progress()
        result = place_job(job, lab, fabric, exclude, runs, progress, seed=seed)
        finish_run("place", output, result, progress)
