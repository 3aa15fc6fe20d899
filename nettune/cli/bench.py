"""`nettune bench`: communication measured: orders of ranks, algorithms, steering, two settings against each other."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, Progress, RunsOption, SeedOption, finish_run
from nettune.errors import InputError, NettuneError
from nettune.launch.launched import launched


class Backend(enum.StrEnum):
    """What communicates."""

    TORCH = "torch"
    NCCL = "nccl"
    MPI = "mpi"
    NCCL_TESTS = "nccl-tests"


_OF_NCCL_TESTS = {"hosts", "ranks_per_host", "binary", "launcher", "launcher_args"}
_OF_A_LAB = {"lab", "fabric", "ab", "cap", "fit"}


def _typed(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(
        epilog="Example: nettune bench --lab lab -s builtin -s rings+steer -b 1M -e 4M -f 2",
        short_help="Collectives measured: orders, algorithms, steering.",
    )
    def bench(
        context: typer.Context,
        lab: LabOption = "lab",
        setting: Annotated[
            list[str] | None,
            typer.Option(
                "-s",
                "--setting",
                help="Algorithm to measure, again for more: builtin, rings, hierarchical, ... with"
                " :option=value,... +steer +rounds @ORDER.",
            ),
        ] = None,
        ab: Annotated[
            tuple[str, str] | None,
            typer.Option("--ab", help="Two settings, and how much faster the second is."),
        ] = None,
        op: Annotated[
            str, typer.Option("--op", help="all_reduce, all_gather, reduce_scatter, broadcast, ...")
        ] = ("all_reduce"),
        dtype: Annotated[str, typer.Option("-d", "--dtype", help="Type, as nccl-tests names it.")] = "float",
        size: Annotated[str, typer.Option("--size", help="Message size of the comparison of orders.")] = "4M",
        begin: Annotated[str, typer.Option("-b", help="Smallest message size.")] = "64K",
        end: Annotated[str, typer.Option("-e", help="Largest message size.")] = "4M",
        factor: Annotated[int, typer.Option("-f", min=2, help="Factor between sizes.")] = 4,
        inits: Annotated[
            int, typer.Option("--inits", min=1, help="Fresh initialisations of each order or setting.")
        ] = 5,
        repeats: Annotated[
            int, typer.Option("-n", "--repeats", min=1, help="Timed repeats of each size in each.")
        ] = 3,
        warmup: Annotated[
            int, typer.Option("-w", "--warmup", min=1, help="Operations that are dropped before them.")
        ] = 1,
        timeout: Annotated[
            str, typer.Option("--timeout", help="Time for joining, and for each operation.")
        ] = "30s",
        cap: Annotated[
            str, typer.Option("--cap", help="Most that a NIC may send, 10mbit; beside running jobs.")
        ] = "",
        fabric: Annotated[
            Path | None,
            typer.Option("--fabric", help="Under mpirun, torchrun, srun: file of `nettune discover -o`."),
        ] = None,
        fit: Annotated[bool, typer.Option("--fit", help="Fit alpha and beta by class of paths.")] = False,
        parse: Annotated[
            list[str] | None,
            typer.Option(
                "--parse",
                metavar="FILE",
                help="Judge a recorded output of nccl-tests (text, -J) or perftest; - is standard input; repeatable.",
            ),
        ] = None,
        expect: Annotated[
            str | None,
            typer.Option(
                "--expect", help="Least bandwidth: busbw in GB/s (440), 360gbit, or NICs 8x400gbit."
            ),
        ] = None,
        backend: Annotated[
            Backend,
            typer.Option(
                "--backend",
                help="What communicates: torch's gloo, torch's nccl (a GPU a rank), mpi under mpirun, or nccl-tests"
                " (by itself -b 8 -e 128M -f 2 --inits 1 --timeout 10m; -s 'NCCL_ALGO=Ring NCCL_PROTO=Simple').",
            ),
        ] = Backend.TORCH,
        hosts: Annotated[
            str | None,
            typer.Option("--hosts", help="nccl-tests: hostlist in the order of ranks; else this machine."),
        ] = None,
        ranks_per_host: Annotated[
            int, typer.Option("--ranks-per-host", min=1, max=1024, help="nccl-tests: GPUs of each host.")
        ] = 1,
        binary: Annotated[
            str | None, typer.Option("--binary", help="nccl-tests: a binary, or the folder of them.")
        ] = None,
        launcher: Annotated[
            str | None,
            typer.Option("--launcher", help="nccl-tests: mpirun, hydra, srun, ssh, none, or a path."),
        ] = None,
        launcher_args: Annotated[
            str, typer.Option("--launcher-args", help="nccl-tests: further words for the launcher.")
        ] = "",
        tuner: Annotated[
            Path | None,
            typer.Option("--tuner", metavar="DIR", help="Write the best settings for NCCL into this folder."),
        ] = None,
        output: OutputOption = Output.TEXT,
        runs: RunsOption = Path("runs"),
        seed: SeedOption = 0,
    ) -> None:
        """Measure collectives. Without settings: all-reduce under nettune's order of ranks and three baselines."""
        from collectives.bench import Method
        from nettune.units import parse_duration, parse_size

        progress = Progress()
        # What is typed counts; the binaries have defaults of their own.
        typed = {name: value for name, value in context.params.items() if _typed(context, name)}
        tuned = None if tuner is None else (tuner, parse_size(size) if "size" in typed else None)
        if parse:
            from nettune.workflows.parsed import parse_files

            finish_run("bench", output, parse_files(parse, expect, tuned, runs, progress), progress)
        if backend is Backend.NCCL_TESTS:
            if typed.keys() & _OF_A_LAB:
                raise InputError("--lab, --fabric, --ab, --cap and --fit do not go with --backend nccl-tests")
            from nettune.workflows.nccltests import Wanted, bench_nccl_tests

            wanted = Wanted(
                op=op,
                hosts=hosts,
                ranks_per_host=ranks_per_host,
                sizes=(typed.get("begin", "8"), typed.get("end", "128M"), typed.get("factor", 2)),
                iterations=typed.get("repeats"),
                warmup=typed.get("warmup"),
                dtype=dtype,
                binary=binary,
                launcher=launcher,
                launcher_args=launcher_args,
                timeout=typed.get("timeout", "10m"),
                expect=expect,
                settings=setting or (),
                inits=typed.get("inits", 1),
                tuner=tuned,
            )
            finish_run("bench", output, bench_nccl_tests(wanted, runs, progress), progress)
        if expect is not None or tuner is not None:
            raise InputError("--expect and --tuner go with --parse or --backend nccl-tests")
        if typed.keys() & _OF_NCCL_TESTS:
            raise InputError(
                "--hosts, --ranks-per-host, --binary and --launcher go with --backend nccl-tests"
            )
        over = "gloo" if backend is Backend.TORCH else str(backend)
        method = Method(
            inits=inits, repeats=repeats, warmup=warmup, timeout_s=parse_duration(timeout), backend=over
        )
        sizes = (begin, end, factor)
        me = launched()
        if me is not None:
            from nettune.workflows.benching import Asked, bench_launched

            asked = Asked(tuple(setting or ()), ab, op, dtype, sizes, cap, fit)
            try:
                ended = bench_launched(me, asked, method, runs, progress, fabric=fabric, seed=seed)
            except NettuneError as error:
                if not me.rank:
                    raise
                # What is wrong with the words is wrong in every rank: one says it, and only one speaks on stdout.
                if not isinstance(error, InputError):
                    typer.echo(f"error: {error}", err=True)
                raise typer.Exit(error.exit_code) from error
            if isinstance(ended, int):
                raise typer.Exit(ended)
            finish_run("bench", output, ended, progress)
        if backend is Backend.MPI or fabric is not None:
            raise InputError("--backend mpi and --fabric are for ranks of mpirun, torchrun or srun")
        if setting or ab or fit or cap or op != "all_reduce" or dtype != "float" or over != "gloo":
            from nettune.workflows.benching import Asked, bench_settings

            asked = Asked(tuple(setting or ()), ab, op, dtype, sizes, cap, fit)
            result = bench_settings(lab, asked, method, runs, progress, seed=seed)
        else:
            from nettune.workflows.verbs import bench_lab

            result = bench_lab(lab, size, sizes, method, runs, progress, seed=seed)
        finish_run("bench", output, result, progress)
