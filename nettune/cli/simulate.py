"""`nettune simulate`: what a fabric does to traffic, packet by packet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, SeedOption, finish, finish_run


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Examples: nettune simulate scenario.toml --compare congestion.preset=paper,barre;"
        " nettune simulate --topo topo.csv --flows flows.csv --seeds 10",
        short_help="What a RoCE fabric does to traffic: PFC, ECN, DCQCN, packet by packet.",
    )
    def simulate(
        scenario: Annotated[
            Path | None, typer.Argument(help="A scenario: fabric, jobs, switches, congestion control.")
        ] = None,
        settings: Annotated[
            list[str] | None, typer.Option("--set", help="A value of the scenario, e.g. ecn.kmin_bytes=100K.")
        ] = None,
        compare: Annotated[
            list[str] | None,
            typer.Option("--compare", help="Values side by side, e.g. congestion.preset=paper,barre."),
        ] = None,
        topo: Annotated[
            Path | None,
            typer.Option("--topo", help="CSV: `# hosts H switches S`, then a,b,gbps,delay_ns."),
        ] = None,
        flows: Annotated[Path | None, typer.Option("--flows", help="CSV: src,dst,bytes,start_s.")] = None,
        paths: Annotated[
            Path | None,
            typer.Option("--paths", help="CSV: src,dst,data_path_switches,ack_path_switches; or ECMP."),
        ] = None,
        hpcc_config: Annotated[
            Path | None,
            typer.Option(
                "--hpcc-config", help="Settings of HPCC's ns-3 simulator, and its way to do things."
            ),
        ] = None,
        seeds: Annotated[
            int | None,
            typer.Option(
                "--seeds", help="Runs with draws of their own; by default run.seeds of a scenario, 1 of CSV."
            ),
        ] = None,
        whole_ns: Annotated[
            bool | None,
            typer.Option(
                "--whole-ns/--exact",
                help="Cut times to whole nanoseconds as ns-3 does; by default with --hpcc-config only.",
            ),
        ] = None,
        fct: Annotated[
            Path | None, typer.Option("--fct", help="Write each flow's completion time there (CSV).")
        ] = None,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
        output: OutputOption = Output.TEXT,
    ) -> None:
        """Simulate a scenario, or the flows of CSV files."""
        progress = Progress()
        if scenario is not None:
            if topo or flows or paths or hpcc_config or fct:
                raise typer.BadParameter("give a scenario, or --topo and --flows")
            if whole_ns is not None:
                raise typer.BadParameter("--whole-ns and --exact are for --topo and --flows")
            if seeds is not None:
                settings = [*(settings or []), f"run.seeds={seeds}"]
            from nettune.workflows.simulating import simulate_file

            result = simulate_file(scenario, settings or [], compare or [], runs, progress, seed=seed)
            finish_run("simulate", output, result, progress)
        if topo is None or flows is None:
            raise typer.BadParameter("give a scenario, or --topo and --flows")
        if settings or compare:
            raise typer.BadParameter("--set and --compare need a scenario")
        from nettune.workflows.simulated_files import simulate_files

        simulated = simulate_files(
            topo,
            flows,
            paths=paths,
            hpcc_config=hpcc_config,
            seeds=1 if seeds is None else seeds,
            seed=seed,
            whole_ns=whole_ns,
            fct_file=fct,
            progress=progress,
        )
        progress.done()
        finish("simulate", output, simulated.exit_code, simulated.data, lambda: simulated.text)
