"""`nettune train`: the reference trainer, and what an order of ranks buys in MFU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, SeedOption, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Examples: nettune train --lab lab; nettune train --lab lab --ab random,nettune",
        short_help="What an order of ranks buys in step time and MFU.",
    )
    def train(
        lab: LabOption = "lab",
        ab: Annotated[
            str, typer.Option("--ab", help="Orders to run interleaved, the last judged against the first.")
        ] = "random,nettune",
        inits: Annotated[
            int, typer.Option("--inits", min=1, help="Fresh initialisations of each order.")
        ] = 5,
        steps: Annotated[int, typer.Option("--steps", min=1, help="Measured steps in each.")] = 4,
        bucket_cap_mib: Annotated[float, typer.Option("--bucket-cap-mib", help="DDP's bucket size.")] = 25.0,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Train the reference model under each order; report step time, exposed communication and MFU."""
        from nettune.workflows.verbs import train_on_lab

        progress = Progress()
        result = train_on_lab(lab, ab, inits, steps, bucket_cap_mib, runs, progress, seed=seed)
        finish_run("train", output, result, progress)
