"""`nettune sweep`: one knob of the trainer, and whether another value is shown to be better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, SeedOption, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Example: nettune sweep bucket_cap_mib=25,4,1,0.5 --lab lab",
        short_help="Values of one knob; kept only where the gain is certain.",
    )
    def sweep(
        knob: Annotated[str, typer.Argument(help="NAME=VALUE,VALUE,...; the first value is the default.")],
        lab: LabOption = "lab",
        inits: Annotated[
            int, typer.Option("--inits", min=2, help="Fresh initialisations of each value.")
        ] = 4,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Train under each value, interleaved; keep another than the default only where its gain is certain."""
        from nettune.workflows.verbs import sweep_on_lab

        progress = Progress()
        finish_run("sweep", output, sweep_on_lab(lab, knob, inits, runs, progress, seed=seed), progress)
