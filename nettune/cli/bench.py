"""`nettune bench`: communication measured under several orders of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, SeedOption, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Example: nettune bench --lab lab -b 64K -e 8M -f 2",
        short_help="All-reduce under four orders of ranks.",
    )
    def bench(
        lab: LabOption = "lab",
        size: Annotated[str, typer.Option("--size", help="Message size of the comparison of orders.")] = "4M",
        begin: Annotated[str, typer.Option("-b", help="Smallest size of the series against size.")] = "64K",
        end: Annotated[str, typer.Option("-e", help="Largest size of the series.")] = "4M",
        factor: Annotated[int, typer.Option("-f", min=2, help="Factor between sizes.")] = 4,
        inits: Annotated[
            int, typer.Option("--inits", min=1, help="Fresh initialisations of each order.")
        ] = 5,
        repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed repeats in each.")] = 3,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Measure all-reduce busbw of nettune's order against three baselines, with predicted bytes of every link."""
        from nettune.workflows.verbs import bench_lab

        progress = Progress()
        result = bench_lab(lab, size, (begin, end, factor), (inits, repeats), runs, progress, seed=seed)
        finish_run("bench", output, result, progress)
