"""`nettune qualify`: hosts reached and captured, live or in a bundle, judged, and what follows for the scheduler."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from collectives.nccl.environment import read_file
from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.errors import InputError
from nettune.hosts import expand_hosts, named_hosts
from nettune.lab import Lab
from nettune.launch import Launcher, create
from nettune.qualify import drains, outputs
from nettune.qualify.bundle import MAX_CAPTURE_BYTES, judge_bundle, read
from nettune.qualify.checks import RULES, Context, Settings, read_settings
from nettune.qualify.collecting import TIMEOUT_S, Ask, Collected, asking, collect
from nettune.records import write_atomic
from nettune.workflows import steps
from nettune.workflows.given import on_lab, read_fabric
from nettune.workflows.run import Progress, Run, RunResult, open_run, read_results
from topology.capture import HostCapture
from topology.fabric import Fabric
from topology.naming import element_name

_BUNDLE = "bundle.tar"


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Which hosts, and how they are reached: this machine where nothing is named.

    Attributes:
        hosts: hostlist; `@FILE` for one in a file.
        lab: name of a lab that is up, its hosts.
        slurm: by srun; without `hosts` those of the job that this runs in.
        gateways: hostlist of machines with ClusterShell, through which the others are reached.
        at_once: hosts asked at the same time, by each gateway where there are some.
        timeout_s: time for each host.
    """

    hosts: str = ""
    lab: str | None = None
    slurm: bool = False
    gateways: str = ""
    at_once: int = 64
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, kw_only=True)
class Judging:
    """What stands beside the captures.

    Attributes:
        settings: TOML file of profile, limits and checks.
        before: an earlier bundle of the same hosts, for the growth of counters.
        baseline: a bundle from when the hosts were sound.
        job_env: file of the job's NCCL variables, in any form that `lint env` reads.
        switches: config_db.json of SONiC switches.
        fabric: a file of `nettune discover -o`, for the leaves of hosts.
        max_drain: share of the hosts, in percent.
        write_files: folder of the files; the run directory where left out.
    """

    settings: Path | None = None
    before: Path | None = None
    baseline: Path | None = None
    job_env: Path | None = None
    switches: Sequence[Path] = ()
    fabric: Path | None = None
    max_drain: float = 100 * drains.MAX_DRAIN
    write_files: Path | None = None


def collect_bundle(reach: Reach, path: Path, progress: Progress, *, resume: bool = False) -> Collected:
    """`nettune qualify collect`.

    Raises:
        InputError: no such lab, no hostlist, an unfinished bundle in the way.
        NettuneError: no host answered, or the file cannot be written.
    """
    with _reached(reach) as (hosts, ask):
        return collect(ask, hosts, path, timeout_s=reach.timeout_s, resume=resume, progress=progress)


def qualify_bundle(path: Path, judging: Judging, runs: Path, progress: Progress) -> RunResult:
    """`nettune qualify --offline`.

    Raises:
        InputError: a file that is not there, or none of its kind.
    """
    context, fabric = _context(judging), _fabric(judging.fabric)
    with open_run("qualify", runs, progress) as run:
        return _judged(run, path, judging, context, fabric)


def qualify_hosts(reach: Reach, judging: Judging, runs: Path, progress: Progress) -> RunResult:
    """`nettune qualify --live`, `--hosts`, `--slurm`: the bundle is kept in the run directory, and judged as any other.

    Raises:
        InputError: as of `collect_bundle` and `qualify_bundle`.
        NettuneError: no host answered.
    """
    context, fabric = _context(judging), _fabric(judging.fabric)
    with open_run("qualify", runs, progress) as run:
        path = run.dir.path / _BUNDLE
        with run.step("collect"):
            collect_bundle(reach, path, progress)
        return _judged(run, path, judging, context, fabric)


def qualify_lab(
    lab_name: str, judging: Judging, runs: Path, progress: Progress, *, seed: int = 0
) -> RunResult:
    """`nettune qualify --lab`: by real transfers.

    Raises:
        InputError: no such lab, or fewer than two hosts.
        AgentError: a host's agent died or hung.
    """
    with on_lab("qualify", lab_name, runs, progress, seed) as (run, cluster):
        with cluster.agents() as agents:
            steps.qualified(run, cluster, agents)
        found = [Finding.from_json(one) for one in run.data["findings"]]
        leaves = drains.leaves_cabled(cluster.discovery.fabric)
        found = _acted(run, found, cluster.hosts, leaves, judging)
        run.data["findings"] = [one.to_json() for one in found]
        return run.finish(exit_code(found))


@contextmanager
def _reached(reach: Reach) -> Iterator[tuple[list[str], Ask]]:
    hosts = named_hosts(reach.hosts)
    if reach.hosts and not hosts:
        raise InputError(f"--hosts {reach.hosts[:60]!r} names no host")
    if reach.lab is not None and reach.slurm:
        raise InputError("--lab and --slurm exclude each other")
    if reach.gateways and (not reach.hosts or reach.slurm or reach.lab is not None):
        raise InputError("--gateways reaches --hosts over ssh")
    lab = Lab.load(reach.lab) if reach.lab is not None else None
    try:
        if reach.gateways:
            from nettune.launch.tree import through_gateways

            yield (
                hosts,
                partial(
                    through_gateways,
                    named_hosts(reach.gateways),
                    fanout=reach.at_once,
                    max_bytes=MAX_CAPTURE_BYTES,
                ),
            )
            return
        launcher: Launcher
        if lab is not None:
            launcher, hosts = lab.launcher(), hosts or list(lab.hosts)
        elif reach.slurm:
            hosts = hosts or expand_hosts(os.environ.get("SLURM_JOB_NODELIST", ""))
            if not hosts:
                raise InputError("--slurm outside of a job needs --hosts")
            launcher = create("slurm", hosts=hosts)
        elif hosts:
            launcher = create("ssh", hosts=hosts)
        else:
            hosts = [element_name(socket.gethostname())]
            launcher = create("local", hosts=hosts)
        yield hosts, asking(launcher, reach.at_once)
    finally:
        if lab is not None:
            lab.close()


def _context(judging: Judging) -> Context:
    folder = judging.write_files
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError("--write-files: is no folder", folder)
    job_env = None
    if judging.job_env is not None:
        told = read_file(str(judging.job_env)).in_force
        job_env = {name: one.value for name, one in told.items()}
    return Context(
        settings=Settings() if judging.settings is None else read_settings(judging.settings, RULES),
        before=_by_host(judging.before),
        baseline=_by_host(judging.baseline),
        job_env=job_env,
        switches={_switch_name(path): read_results(path) for path in judging.switches},
    )


def _by_host(path: Path | None) -> Mapping[str, HostCapture]:
    return {} if path is None else {capture.host: capture for capture in read(path).captures}


def _switch_name(path: Path) -> str:
    """The switch's own name in its config_db, else the file's."""
    metadata: Any = read_results(path).get("DEVICE_METADATA")
    named = metadata.get("localhost") if isinstance(metadata, dict) else None
    name = named.get("hostname") if isinstance(named, dict) else None
    return element_name(str(name or path.name.partition(".")[0]))


def _fabric(path: Path | None) -> Fabric | None:
    return None if path is None else read_fabric(path)[0].fabric


def _judged(run: Run, path: Path, judging: Judging, context: Context, fabric: Fabric | None) -> RunResult:
    with run.step("read"):
        bundle = read(path)
    with run.step("judge"):
        found = judge_bundle(bundle, context)
    leaves: drains.Leaves = {}
    if fabric is not None:
        leaves = drains.leaves_cabled(fabric)
    elif any(one.status is Status.FAIL for one in found):
        leaves = drains.leaves_heard(bundle.captures)
    found = _acted(run, found, bundle.hosts, leaves, judging)
    run.dir.write("findings.jsonl", "".join(f"{json.dumps(one.to_json())}\n" for one in found))
    # Of thousands of hosts what passed is millions of characters: it is counted here, and whole in findings.jsonl.
    run.data["findings"] = [one.to_json() for one in found if one.status is not Status.PASS]
    run.data["judged"] = {
        "bundle": str(path),
        "hosts": len(bundle.hosts),
        "captured": len(bundle.captures),
        "statuses": dict(Counter(map(str, outputs.statuses(found, bundle.hosts).values()))),
        "passed": dict(Counter(one.check for one in found if one.status is Status.PASS)),
        "drains": run.data.pop("drains"),
    }
    return run.finish(exit_code(found))


def _acted(
    run: Run, found: list[Finding], hosts: Sequence[str], leaves: drains.Leaves, judging: Judging
) -> list[Finding]:
    """Write what schedulers take; keys drains and files. The findings, with that of drains that are withheld."""
    decided = drains.decide(found, hosts, leaves, judging.max_drain / 100)
    if decided.withheld:
        found = worst_first([*found, drains.withheld_finding(decided)])
    written = outputs.files(decided, found, hosts, time.time())
    folder = judging.write_files or run.dir.path
    for name, content in written.items():
        write_atomic(folder / name, content)
    run.data["drains"] = decided.to_json()
    run.data["files"] = {name: str(folder / name) for name in written}
    return found


def parse_share(text: str) -> float:
    """`5%` or `5` as percent.

    Raises:
        InputError: no number from 0 to 100.
    """
    try:
        share = float(text.strip().removesuffix("%"))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 100:
        raise InputError(f"--max-drain {text!r} is no share of the hosts; write it like 5%")
    return share
