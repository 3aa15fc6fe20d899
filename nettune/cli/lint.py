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
    flows: Annotated[
        Path | None,
        typer.Option(
            "--flows",
            help="CSV of running connections: src,dst,sport[,dport,proto,src_qp,dst_qp,bytes]; two QPs do for a sport.",
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
    runs: RunsOption = Path("runs"),
) -> None:
    """Polarized hashes, too few queue pairs, uneven groups: each with the bandwidth that it is expected to cost."""
    from nettune.workflows.ecmp import lint_hashes

    progress = Progress()
    finish_run("lint", output, lint_hashes(lab, fabric, qps, split, flows, runs, progress), progress)


@app.command(epilog="Examples: nettune lint env job.sh --fabric fabric.json    nettune lint env --pid 4711")
def env(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="Output of env, /etc/nccl.conf, a job script, a manifest of Kubernetes, a copy of /proc/PID/environ;"
            " - is standard input."
            " Without it and --pid: this shell.",
        ),
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="A running process of this machine.")
    ] = None,
    fabric: Annotated[
        Path | None, typer.Option("--fabric", help="A file of `nettune discover -o` that they shall fit.")
    ] = None,
    nccl_version: Annotated[
        str | None, typer.Option("--nccl-version", help="NCCL of the job, 2.27; the newest known without it.")
    ] = None,
    dscp: Annotated[
        int | None, typer.Option("--dscp", min=0, max=63, help="DSCP of the fabric's lossless class.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="What the file is: environ, nccl.conf, env, script or manifest (YAML, JSON); else it is recognised.",
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
    runs: RunsOption = Path("runs"),
) -> None:
    """NCCL's variables: misspelt names, values that silently become others, contradictions, stale workarounds."""
    from nettune.workflows.linting import Settings, lint_settings

    progress = Progress()
    wanted = Settings(source=file, pid=pid, form=form, fabric=fabric, version=nccl_version, dscp=dscp)
    finish_run("lint", output, lint_settings(wanted, runs, progress), progress)


@app.command(epilog="Example: nettune lint log logs/*.log")
def log(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="Logs of all ranks (NCCL_DEBUG=INFO); - is standard input."),
    ],
    output: OutputOption = Output.TEXT,
    runs: RunsOption = Path("runs"),
) -> None:
    """The first cause in the logs of many ranks, what follows from it, and what to do."""
    from nettune.workflows.linting import lint_rank_logs

    progress = Progress()
    finish_run("lint", output, lint_rank_logs(files, runs, progress), progress)
