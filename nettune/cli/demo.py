"""`nettune demo`: the whole job on an emulated fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, SeedOption, finish_run

EPILOG = "Examples: nettune demo; nettune demo --fault slow-link; nettune demo --output json"


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(epilog=EPILOG, short_help="The whole job on an emulated fabric; about three minutes.")
    def demo(
        fault: Annotated[
            str | None,
            typer.Option("--fault", help="Inject a fault and show that it is found: slow-link, mtu, ..."),
        ] = None,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Discover, qualify, place, measure, tune, train and report on an emulated fabric; about three minutes."""
        from nettune.workflows.demo import run_demo

        progress = Progress()
        finish_run("demo", output, run_demo(runs, progress, fault=fault, seed=seed), progress)
