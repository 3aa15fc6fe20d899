"""`nettune discover paths`: which link each source port takes, by probes that die on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, finish


def register(discover: typer.Typer) -> None:
    """Add the subcommand to the verb."""

    @discover.command(
        epilog="Examples: nettune discover paths --lab lab; nettune discover paths --fabric fabric.json --pair 'h0>h5' "
        "--steer 8",
        short_help="Which link each source port takes, by probing.",
    )
    def paths(
        lab: Annotated[
            str | None, typer.Option("--lab", help="Name of a lab that is up; `lab` without --fabric.")
        ] = None,
        fabric: Annotated[
            Path | None,
            typer.Option("--fabric", help="A file of `nettune discover -o`; its hosts are reached over ssh."),
        ] = None,
        pair: Annotated[
            list[str] | None,
            typer.Option(
                "--pair", help="Sender and receiver: 'h0>h5' or 'h0:eth1>h5:eth1'; may be repeated."
            ),
        ] = None,
        ports: Annotated[
            int, typer.Option("--ports", min=1, max=65535, help="Source ports of each pair.")
        ] = 64,
        first_port: Annotated[
            int, typer.Option("--first-port", min=1, max=65535, help="The first of them.")
        ] = 49152,
        protocol: Annotated[str, typer.Option("--protocol", help="udp or tcp.")] = "udp",
        dport: Annotated[int, typer.Option("--dport", min=1, max=65535, help="Destination port.")] = 4791,
        dscp: Annotated[int, typer.Option("--dscp", min=0, max=63, help="DSCP of the probes.")] = 26,
        rate: Annotated[
            float,
            typer.Option("--rate", min=1, max=100000, help="Packets a second that a host sends at most."),
        ] = 1000.0,
        by: Annotated[
            str,
            typer.Option(
                "--by",
                help="ttl: routers answer where packets die. counters: switches that do not answer are asked, over ssh, "
                "how many packets each port sent.",
            ),
        ] = "ttl",
        burst: Annotated[
            int,
            typer.Option(
                "--burst",
                min=8,
                max=100000,
                help="With --by counters: packets of the first of four source ports; the next have 2, 4, 8 times as many.",
            ),
        ] = 32,
        captures: Annotated[
            Path | None,
            typer.Option(
                "--captures",
                help="Send nothing; read counters from a CSV file: src,dst,sport,packets,port,before,after.",
            ),
        ] = None,
        steer: Annotated[
            int,
            typer.Option(
                "--steer", min=0, max=65535, help="Choose so many ports of each pair that spread its flows."
            ),
        ] = 0,
        seeds: Annotated[
            str,
            typer.Option(
                "--seeds",
                help="Seeds that a fit of Linux' hash tries, like 70000 or 65536-131071; 0-65535 if left out.",
            ),
        ] = "",
        out: Annotated[
            Path | None, typer.Option("-o", "--out", help="Write the table source port -> path here too.")
        ] = None,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
    ) -> None:
        """Find the path of each source port, and fit the hash of each switch that chooses.

        What will be sent is told before it is sent. Packets die on the way and reach no receiver.
        """
        from nettune.workflows.ecmp import Probing, probe_paths

        progress = Progress()
        wanted = Probing(
            lab=lab,
            fabric=fabric,
            pairs=pair or (),
            ports=ports,
            first_port=first_port,
            protocol=protocol,
            dport=dport,
            dscp=dscp,
            packets_per_s=rate,
            by=by,
            burst=burst,
            captures=captures,
            steer=steer,
            seeds=seeds,
            out=out,
        )

        def announce(message: str) -> None:
            progress.done()
            typer.echo(message, err=True)

        result = probe_paths(wanted, runs, progress, announce)
        progress.done()

        def text() -> str:
            from reports import text as terminal

            footer = [
                f"{name:7} {path}"
                for name, path in (
                    ("report", result.report_path),
                    ("table", result.data["table"]),
                    ("run", result.run_path),
                )
            ]
            return terminal.render(result.report, footer=footer).rstrip("\n")

        finish("discover-paths", output, result.exit_code, result.data, text)
