"""`nettune lint`: what is wrong with settings, before any byte is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, finish_run

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    pass


@app.command(epilog="Example: nettune lint ecmp --fabric fabric.json --qps 4")
def ecmp(
    lab: Annotated[
        str | None, typer.Option("--lab", help="Name of a lab that is up; `lab` without --fabric.")
    ] = None,
    fabric: Annotated[Path | None, typer.Option("--fabric", help="A file of `nettune discover -o`.")] = None,
    qps: Annotated[
        int, typer.Option("--qps", min=1, max=128, help="NCCL_IB_QPS_PER_CONNECTION of the job.")
    ] = 1,
    split: Annotated[
        bool, typer.Option("--split", help="NCCL_IB_SPLIT_DATA_ON_QPS=1: each message over all QPs.")
    ] = False,
    output: OutputOption = Output.TEXT,
    runs: RunsOption = Path("runs"),
) -> None:
    """Polarized hashes, too few queue pairs, uneven groups: each with the bandwidth that it is expected to cost."""
    from nettune.workflows.ecmp import lint_hashes

    progress = Progress()
    finish_run("lint", output, lint_hashes(lab, fabric, qps, split, runs, progress), progress)
