"""`nettune bench --backend nccl-tests`: the binaries of nccl-tests, run on hosts and judged like a recorded output."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from collectives.nccl_tests.binary import find_binary
from collectives.nccl_tests.command import Job, Kind, command, find_launcher
from collectives.nccl_tests.expectation import Expectation
from collectives.nccl_tests.result import Row
from collectives.nccl_tests.running import Ran, run_tests
from collectives.nccl_tests.statements import finding
from collectives.nccl_tests.verdict import judge
from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.errors import InputError
from nettune.hosts import named_hosts
from nettune.qualify.redact import without_secrets
from nettune.records import Measurement
from nettune.units import format_size, parse_duration, parse_size
from nettune.wording import some
from nettune.workflows.parsed import Output
from nettune.workflows.run import Progress, Run, RunResult, open_run
from nettune.workflows.tuned import Tuner, check_folder, write_tuning


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What `bench` was asked for.

    Attributes:
        hosts: a hostlist in the order of ranks; None for this machine.
        sizes: smallest, largest, factor.
        iterations, warmup: of each size; None for the binary's own.
        dtype: as nccl-tests names it.
        timeout: of each run.
        settings: to compare, `NCCL_ALGO=Ring NCCL_PROTO=Simple` each; none for NCCL's own choice.
        inits: runs of each, interleaved: every run is a fresh initialisation.
        tuner: folder for the tuner's files, and the job's message size for nccl.conf.
    """

    op: str
    hosts: str | None
    ranks_per_host: int
    sizes: tuple[str, str, int]
    binary: str | None
    launcher: str | None
    launcher_args: str
    timeout: str
    expect: str | None
    iterations: int | None = None
    warmup: int | None = None
    dtype: str = "float"
    settings: Sequence[str] = ()
    inits: int = 1
    tuner: Tuner | None = None


def bench_nccl_tests(wanted: Wanted, runs: Path, progress: Progress) -> RunResult:
    """Run and judge; a run that hangs or dies ends within its time-out, and what it measured is kept.

    Raises:
        InputError: hosts, sizes, settings or an operation that are none.
        UnavailableError: no binary, no launcher.
    """
    expected = None if wanted.expect is None else Expectation.parse(wanted.expect)
    timeout_s = parse_duration(wanted.timeout)
    if timeout_s <= 0:
        raise InputError(f"--timeout {wanted.timeout} leaves no time")
    job = _job(wanted)
    tries = [_settings(words) for words in wanted.settings] or [()]
    launcher = find_launcher(wanted.launcher, job, os.environ)
    binary = find_binary(wanted.op, wanted.binary, mpi=job.ranks > 1 and launcher.program != "")
    check_folder(wanted.tuner)
    findings: list[Finding] = []
    outputs: list[Output] = []
    with open_run("bench", runs, progress) as run:
        run.data |= {"ran": True, "commands": [], "outputs": []}
        srun = launcher.kind is Kind.SRUN and bool(job.hosts)
        if srun:
            path = run.dir.write("slurm.hostfile", job.host_lines)
            job = replace(job, hostfile=str(path.resolve()))
        plan = [(init, settings) for init in range(wanted.inits) for settings in tries]
        for number, (init, settings) in enumerate(plan):
            more = (*_log_of_the_start(os.environ), *((("SLURM_HOSTFILE", job.hostfile),) if srun else ()))
            trial = replace(job, settings=(*more, *settings))
            argv = command(trial, binary, launcher, os.environ, root=os.geteuid() == 0)
            name = _name(settings, init, wanted.inits)
            with run.step(f"run {name}"):
                ran = run_tests(argv, trial.settings, timeout_s, partial(_tell, run, name, init))
            run.dir.write(f"output-{number}.txt", without_secrets(ran.text))
            run.data["commands"].append(without_secrets(shlex.join(argv)))
            outputs.append(Output(name, ran.run))
            run.data["outputs"].append(outputs[-1].to_json())
            judged = [*judge(ran.run, expected, ran.ending, name if len(plan) > 1 else ""), *_order(job, ran)]
            findings += judged
            run.data["findings"] = [one.to_json() for one in worst_first(findings)]
        if wanted.tuner is not None:
            findings += write_tuning(run, [(one.name, one.run, None) for one in outputs], *wanted.tuner)
            run.data["findings"] = [one.to_json() for one in worst_first(findings)]
        return run.finish(exit_code(findings))


def _job(wanted: Wanted) -> Job:
    begin, end, factor = wanted.sizes
    first, last = parse_size(begin), parse_size(end)
    if first > last:
        raise InputError(f"-b {begin} is above -e {end}")
    hosts = () if wanted.hosts is None else tuple(named_hosts(wanted.hosts))
    return Job(
        op=wanted.op,
        hosts=hosts,
        ranks_per_host=wanted.ranks_per_host,
        begin_bytes=first,
        end_bytes=last,
        factor=factor,
        iterations=wanted.iterations,
        warmup=wanted.warmup,
        extra=() if wanted.dtype == "float" else ("-d", wanted.dtype),
        launcher_extra=tuple(_words(wanted.launcher_args, "--launcher-args")),
    )


def _words(text: str, option: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r:.60}: {error}") from error


def _settings(words: str) -> tuple[tuple[str, str], ...]:
    found = []
    for word in _words(words, "--setting"):
        name, sign, value = word.partition("=")
        if (
            not sign
            or not name.isidentifier()
            or not name.startswith(("NCCL_", "RCCL_", "UCX_", "FI_", "OFI_"))
        ):
            raise InputError(
                f"--setting {words!r:.80}: {word!r:.40} is no setting; write NCCL_ALGO=Ring NCCL_PROTO=Simple"
            )
        found.append((name, value))
    return tuple(found)


def _log_of_the_start(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """NCCL's lines about networks, settings and channels, which cost nothing later; what the user set stays."""
    if "NCCL_DEBUG" in environ:
        return ()
    return (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET"))


def _name(settings: Sequence[tuple[str, str]], init: int, inits: int) -> str:
    said = (
        " ".join(f"{name.removeprefix('NCCL_').lower()}={value}" for name, value in settings) or "nccl-tests"
    )
    return said if inits == 1 else f"{said} #{init + 1}"


def _tell(run: Run, name: str, init: int, row: Row) -> None:
    """A row as it comes: on stderr, and into the records, which survive whatever follows."""
    run.progress(
        f"{name}: {format_size(row.size_bytes)}  {row.out_of_place.time_us:g} us  busbw {row.busbw_gbytes_per_s:g} GB/s"
    )
    for place, half in (("out", row.out_of_place), ("in", row.in_place)):
        if half.finite:
            trial = f"{name},size={row.size_bytes},type={row.type},place={place}"
            run.dir.record(
                Measurement(
                    run="bench",
                    trial=trial,
                    init=init,
                    repeat=0,
                    rank=-1,
                    metric="time",
                    value=half.time_us * 1e-6,
                    unit="s",
                )
            )


def _order(job: Job, ran: Ran) -> Iterator[Finding]:
    """Whether the ranks run where they were asked to, in that order: rings follow it."""
    asked, got = [_short(host) for host in job.hosts], [_short(host) for host in ran.run.hosts]
    if asked and got and asked != got and set(asked) & set(got):
        what = f"ranks run on {some(got)}, asked for {some(asked)}: rings follow the order of ranks"
        fix = "Use the files of `nettune place`: a rankfile for mpirun, SLURM_HOSTFILE for srun."
        yield finding("nccl-tests-order", Status.WARN, what, fix, asked=asked[:64], got=got[:64])


def _short(host: str) -> str:
    return host.split(".", maxsplit=1)[0]
