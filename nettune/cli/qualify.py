"""`nettune qualify`: which hosts, NICs and links are bad."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nettune.cli.common import Output, OutputOption, Progress, RunsOption, SeedOption, add_group, finish
from nettune.errors import InputError

if TYPE_CHECKING:
    from nettune.qualify.collecting import Collected
    from nettune.workflows.run import RunResult

_EXAMPLES = (
    "Examples: nettune qualify --lab lab; nettune qualify --live; nettune qualify --hosts g[001-512]; "
    "nettune qualify --offline bundle.tar --before yesterday.tar. Captures alone, to be judged elsewhere: "
    "nettune qualify collect --help"
)

LabOption = Annotated[str | None, typer.Option("--lab", help="Name of a lab that is up.")]
HostsOption = Annotated[
    str, typer.Option("--hosts", help="Hosts to ask over ssh: g[001-064], or @FILE with a hostlist.")
]
SlurmOption = Annotated[
    bool, typer.Option("--slurm", help="By srun; without --hosts the nodes of the job that this runs in.")
]
GatewaysOption = Annotated[
    str,
    typer.Option("--gateways", help="Hosts with ClusterShell, trusted, through which the others are asked."),
]
AtOnceOption = Annotated[
    int, typer.Option("--at-once", min=1, max=1024, help="Hosts asked at the same time, by each gateway.")
]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=1, help="Seconds for each host.")]
BundleOption = Annotated[Path, typer.Option("-o", "--out", help="The bundle to write.")]


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommand to the app."""
    verb = add_group(app, "qualify", "Which hosts, NICs and links are bad: by transfers, or by captures.")
    _register_collect(verb)

    @verb.command("files", epilog=_EXAMPLES)
    def qualify(
        lab: LabOption = None,
        live: Annotated[
            bool, typer.Option("--live", help="This machine, by what it says of itself.")
        ] = False,
        hosts: HostsOption = "",
        slurm: SlurmOption = False,
        gateways: GatewaysOption = "",
        offline: Annotated[
            Path | None, typer.Option("--offline", help="A bundle of `qualify collect`.", metavar="BUNDLE")
        ] = None,
        before: Annotated[
            Path | None,
            typer.Option("--before", metavar="BUNDLE", help="An earlier one: counters are judged by growth."),
        ] = None,
        baseline: Annotated[
            Path | None,
            typer.Option("--baseline", metavar="BUNDLE", help="One from when the hosts were sound."),
        ] = None,
        settings: Annotated[
            Path | None, typer.Option("--settings", help="TOML: profile, [limits], [checks], [expect].")
        ] = None,
        job_env: Annotated[
            Path | None,
            typer.Option("--job-env", help="The job's NCCL variables: output of env, a job script."),
        ] = None,
        switch: Annotated[
            list[Path] | None, typer.Option("--switch", help="config_db.json of a SONiC switch; repeatable.")
        ] = None,
        fabric: Annotated[
            Path | None,
            typer.Option("--fabric", help="A file of `nettune discover -o`: who is on which leaf."),
        ] = None,
        max_drain: Annotated[
            str,
            typer.Option(
                "--max-drain",
                metavar="SHARE",
                help="Above this share of the hosts, or with all hosts of a leaf, none is drained; one host "
                "always may be, unless this is 0.",
            ),
        ] = "5%",
        write_files: Annotated[
            Path | None,
            typer.Option("--write-files", metavar="DIR", help="Folder of the files, not the run's."),
        ] = None,
        at_once: AtOnceOption = 64,
        timeout: TimeoutOption = 60,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Test a lab by real transfers, or judge hosts by captures; exit 1 when something is at fault.

        Writes drains for Slurm and Kubernetes, exclusions for srun and `nettune place`, metrics for Prometheus.
        """
        from nettune.workflows import qualifying

        judging = qualifying.Judging(
            settings=settings,
            before=before,
            baseline=baseline,
            job_env=job_env,
            switches=switch or (),
            fabric=fabric,
            max_drain=qualifying.parse_share(max_drain),
            write_files=write_files,
        )
        if (lab is not None) + live + bool(hosts or slurm) + (offline is not None) > 1:
            raise InputError("--lab, --live, --hosts (with --slurm) and --offline exclude each other")
        if gateways and not hosts:
            raise InputError("--gateways reaches --hosts over ssh")
        progress = Progress()
        if offline is not None:
            result = qualifying.qualify_bundle(offline, judging, runs, progress)
        elif live or hosts or slurm:
            reach = qualifying.Reach(
                hosts=hosts, slurm=slurm, gateways=gateways, at_once=at_once, timeout_s=timeout
            )
            result = qualifying.qualify_hosts(reach, judging, runs, progress)
        else:
            result = qualifying.qualify_lab(lab or "lab", judging, runs, progress, seed=seed)
        _finish(output, result, progress)


def _register_collect(verb: typer.Typer) -> None:
    @verb.command(
        "collect",
        epilog="Examples: nettune qualify collect -o bundle.tar; nettune qualify collect --hosts g[001-512] -o b.tar; "
        "srun has its own way: nettune qualify collect --slurm --hosts g[001-512] -o b.tar",
    )
    def collect(
        out: BundleOption,
        hosts: HostsOption = "",
        slurm: SlurmOption = False,
        lab: LabOption = None,
        gateways: GatewaysOption = "",
        at_once: AtOnceOption = 64,
        timeout: TimeoutOption = 60,
        resume: Annotated[
            bool, typer.Option("--resume", help="Go on with a collection that was interrupted.")
        ] = False,
        output: OutputOption = Output.TEXT,
    ) -> None:
        """Capture this machine, or hosts, into one file without secrets; judge it with `qualify --offline`.

        Nothing is installed on the hosts, and nothing there is changed.
        """
        from nettune.workflows.qualifying import Reach, collect_bundle

        progress = Progress()
        reach = Reach(
            hosts=hosts, lab=lab, slurm=slurm, gateways=gateways, at_once=at_once, timeout_s=timeout
        )
        collected = collect_bundle(reach, out, progress, resume=resume)
        progress.done()
        data = {
            "bundle": str(out),
            "hosts": len(collected.hosts),
            "captured": collected.captured,
            "failed": dict(collected.failed),
        }
        finish("qualify", output, 2 if collected.failed else 0, data, lambda: _told(collected, out))


def _told(collected: Collected, out: Path) -> str:
    from nettune.wording import counted

    lines = [f"{out}  {collected.captured} of {counted(len(collected.hosts), 'host')}"]
    lines += [f"UNKNOWN {host}: {why}" for host, why in list(collected.failed.items())[:10]]
    more = len(collected.failed) - 10
    lines += [f"        and {more} more that gave no capture"] if more > 0 else []
    return "\n".join([*lines, f"judge   nettune qualify --offline {out}"])


def _finish(output: Output, result: RunResult, progress: Progress) -> None:
    progress.done()

    def text() -> str:
        from reports import text as terminal

        footer = [f"report  {result.report_path}", f"run     {result.run_path}"]
        footer += [f"files   {' '.join(result.data['files'])}"]
        return terminal.render(result.report, footer=footer).rstrip("\n")

    finish("qualify", output, result.exit_code, result.data, text)
