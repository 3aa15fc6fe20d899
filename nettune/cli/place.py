"""`nettune place`: which rank goes on which host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, SeedOption, finish
from nettune.errors import InputError

_EXAMPLES = (
    "Examples: nettune place job.toml --lab lab; nettune place job.toml --fabric fabric.json --exclude g[01-03] "
    "--write-files launch. Price another map: --evaluate hostfile. A host failed: --parent placement.json --exclude g17"
)


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(epilog=_EXAMPLES, short_help="Which rank goes on which host; files for the launchers.")
    def place(
        job: Annotated[
            Path, typer.Argument(help="job.toml: parallel sizes, order of ranks, bytes of a step.")
        ],
        lab: Annotated[
            str | None, typer.Option("--lab", help="Name of a lab that is up; `lab` without --fabric.")
        ] = None,
        fabric: Annotated[
            Path | None, typer.Option("--fabric", help="A file of `nettune discover -o` instead of a lab.")
        ] = None,
        method: Annotated[
            str,
            typer.Option("--method", help="nettune, exact (small jobs), packed, depth-first, slurm, ..."),
        ] = "nettune",
        exclude: Annotated[
            str, typer.Option("--exclude", help="Hostlist that must not be used: g[01-03],g7; or @FILE.")
        ] = "",
        pin: Annotated[
            list[str] | None,
            typer.Option("--pin", metavar="RANK=HOST", help="Fix a rank, and its node with it; repeatable."),
        ] = None,
        ranks_per_host: Annotated[
            int | None,
            typer.Option(
                "--ranks-per-host",
                min=1,
                help="As many as the hosts have GPUs, or the job's domain, if not given; else 1.",
            ),
        ] = None,
        parent: Annotated[
            Path | None,
            typer.Option(
                "--parent", help="placement.json of the job: all stay where they can; moves are counted."
            ),
        ] = None,
        background: Annotated[
            list[str] | None,
            typer.Option(
                "--background",
                help="Another job: its place run's folder, JOB.toml=MAP, or a file of link loads; repeatable.",
            ),
        ] = None,
        evaluate: Annotated[
            Path | None,
            typer.Option(
                "--evaluate",
                metavar="MAP",
                help="Price a map made elsewhere: a hostfile (a host a rank or a node), rankfile, placement.json.",
            ),
        ] = None,
        explain: Annotated[
            int | None, typer.Option("--explain", min=0, metavar="RANK", help="Why this rank is on its host.")
        ] = None,
        even_pods: Annotated[
            bool,
            typer.Option(
                "--even-pods",
                help="An even number of nodes in each pod: NCCL_CROSS_NIC=2 keeps to rails then.",
            ),
        ] = False,
        place_experts: Annotated[
            bool,
            typer.Option(
                "--place-experts", help="Even out the job's expert_tokens over ranks: experts.json."
            ),
        ] = False,
        write_files: Annotated[
            Path | None,
            typer.Option(
                "--write-files", metavar="DIR", help="Folder of the launchers' files, not the run's."
            ),
        ] = None,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Map ranks to hosts, predict the load of every link, and write the files that launchers obey."""
        from nettune.workflows.placing import Asked, place_job

        if lab is not None and fabric is not None:
            raise InputError("--lab and --fabric name two fabrics; give one of them")
        progress = Progress()
        asked = Asked(
            method=method,
            exclude=exclude,
            pins=pin or (),
            ranks_per_host=ranks_per_host,
            parent=parent,
            background=background or (),
            evaluate=evaluate,
            explain=explain,
            even_pods=even_pods,
            place_experts=place_experts,
            write_files=write_files,
        )
        result = place_job(job, lab or "lab", fabric, runs, progress, asked=asked, seed=seed)
        progress.done()

        def text() -> str:
            from reports import text as terminal

            data = result.data
            footer = [f"report  {result.report_path}", f"run     {result.run_path}"]
            footer += [f"files   {write_files or result.run_path} ({len(data['files'])} files)"]
            footer += [f"launch  {data['launch']}"] if data["launch"] else []
            return terminal.render(result.report, footer=footer).rstrip("\n")

        finish("place", output, result.exit_code, result.data, text)
