"""`nettune discover`: what the fabric looks like, from tools' outputs or from its nodes' own state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, add_group, finish
from nettune.cli.paths import register as register_paths


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommand to the app."""
    verb = add_group(app, "discover", "What the fabric is, from tools' outputs or its nodes' state.")
    register_paths(verb)

    @verb.command(
        "files",
        epilog="Examples: nettune discover ibnetdiscover.txt topology.conf -o fabric.json; nettune discover --lab lab. "
        "Which path each source port takes: nettune discover paths --help",
    )
    def discover(
        files: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="[FILES]...",
                help="Outputs of ibnetdiscover, lldpcli, Slurm, ...; - is standard input.",
            ),
        ] = None,
        format_name: Annotated[
            str | None,
            typer.Option("--format", help="Format of the files; recognised by their content if not given."),
        ] = None,
        lab: Annotated[
            str | None,
            typer.Option("--lab", help="Name of a lab that is up; `lab` where nothing else is asked for."),
        ] = None,
        live: Annotated[bool, typer.Option("--live", help="This machine.")] = False,
        hosts: Annotated[str, typer.Option("--hosts", help="Hosts to ask over ssh, like g[001-064].")] = "",
        expect: Annotated[
            str | None,
            typer.Option("--expect", help="A plan to hold the fabric against, in any format that is read."),
        ] = None,
        keep: Annotated[
            str,
            typer.Option("--keep", help="What not to leave out: storage,management,down,slow,... or all."),
        ] = "",
        write: Annotated[
            list[str] | None,
            typer.Option("--write", help="FORMAT=FILE: slurm-tree, svg, dot, ...; may be repeated."),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option("-o", "--out", help="Write the fabric and its routing to this file too."),
        ] = None,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
    ) -> None:
        """Discover hosts, switches, cables, speeds, rails; report what is wrong with the structure."""
        from nettune.workflows.discovering import Wanted
        from nettune.workflows.discovering import discover as discover_fabric

        progress = Progress()
        asked = bool(files or live or hosts)
        wanted = Wanted(
            files=files or (),
            format_name=format_name,
            lab=lab if lab is not None or asked else "lab",
            live=live,
            hosts=hosts,
            expect=expect,
            keep=[word.strip() for word in keep.split(",") if word.strip()],
            writes=write or (),
            out=out,
        )
        result = discover_fabric(wanted, runs, progress)
        progress.done()

        def text() -> str:
            from reports import text as terminal

            footer = [f"report  {result.report_path}", f"run     {result.run_path}"]
            footer += [f"{name:7} {path}" for name, paths in result.data["files"].items() for path in paths]
            return terminal.render(result.report, footer=footer).rstrip("\n")

        finish("discover", output, result.exit_code, result.data, text)
