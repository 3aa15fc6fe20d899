"""`nettune place`: the map, what it is predicted to do beside other orders, and the files that launchers obey."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from collectives.job import JobSpec, load_job
from collectives.traffic import JobTraffic
from nettune.errors import InputError
from nettune.hosts import named_hosts
from nettune.records import json_text, write_atomic
from nettune.wording import some
from nettune.workflows import placeinput
from nettune.workflows.given import on_lab, read_fabric
from nettune.workflows.placed import between_switches
from nettune.workflows.run import Progress, Run, RunResult, open_run
from topology.placement.experts import place_experts
from topology.placement.explaining import explain
from topology.placement.place import GIVEN, METHODS, OURS, Placed, evaluate, problem_of, solved
from topology.placement.replacing import resolved
from topology.writers import launcher_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric
    from topology.routing import Routing

ORDERS = ("slurm", "lexicographic", "depth-first", "random")
"""What a map is held against: Slurm's blocks, torchrun's sort by name, the order of the tree, any order."""

_FIGURES = ("cost_us", "bound_us", "gap", "max_link_load_bytes", "moves")
_MOST_LINKS = 5
_LAUNCH = (("slurm.sh", "PROGRAM ARGS"), ("torchrun-ssh.sh", "train.py ARGS"), ("openmpi.sh", "PROGRAM ARGS"))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asks for beside the job and the fabric; every field may be left out.

    Attributes:
        method: one of `topology.placement.place.METHODS`.
        exclude: hostlist, or `@FILE` with one.
        pins: `RANK=HOST` words.
        ranks_per_host: consecutive ranks on a host.
        parent: placement.json whose ranks stay where they can.
        background: what else is on the fabric; see `placeinput.read_other_jobs`.
        evaluate: a map to price beside the method's; see `placeinput.read_map`.
        explain: rank whose host is to be explained.
        even_pods: an even number of nodes in each pod, as NCCL_CROSS_NIC=2 on rails wants it.
        place_experts: give each rank experts by the job's counts of tokens instead of in order.
        write_files: folder of the launchers' files; the run directory where left out.
    """

    method: str = OURS
    exclude: str = ""
    pins: Sequence[str] = ()
    ranks_per_host: int | None = None
    parent: Path | None = None
    background: Sequence[str] = ()
    evaluate: Path | None = None
    explain: int | None = None
    even_pods: bool = False
    place_experts: bool = False
    write_files: Path | None = None


def place_job(
    job: Path,
    lab_name: str,
    fabric_file: Path | None,
    runs: Path,
    progress: Progress,
    *,
    asked: Asked | None = None,
    seed: int = 0,
) -> RunResult:
    """Place a job on a lab, or on a fabric from a file.

    Raises:
        InputError: a bad job, fabric or map, an unknown host, too few hosts that reach each other, pins that contradict
            each other.
        NettuneError: a file cannot be written.
    """
    asked = asked or Asked()
    if asked.method not in METHODS:
        raise InputError(f"--method {asked.method!r} is not known; known: {', '.join(METHODS)}")
    spec = load_job(job)
    spec, experts = placed_experts(spec) if asked.place_experts else (spec, None)
    traffic = JobTraffic(spec)
    if asked.parent is not None and asked.method != OURS:
        raise InputError(f"--parent keeps ranks by method {OURS}; leave --method {asked.method} out")
    if asked.explain is not None and asked.explain >= traffic.ranks:
        raise InputError(f"--explain {asked.explain}: the job has ranks 0 to {traffic.ranks - 1}")
    if fabric_file is None:
        with on_lab("place", lab_name, runs, progress, seed) as (run, cluster):
            return _placed(run, cluster.discovery.routing, traffic, asked, experts)
    routing, data = read_fabric(fabric_file)
    with open_run("place", runs, progress, seed=seed) as run:
        run.data |= data
        return _placed(run, routing, traffic, asked, experts)


def _placed(
    run: Run, routing: Routing, traffic: JobTraffic, asked: Asked, experts: dict[str, Any] | None
) -> RunResult:
    fabric = routing.fabric
    parent, gone = (None, []) if asked.parent is None else placeinput.read_parent(asked.parent, fabric)
    options, notes = _options(routing, traffic, asked, parent, gone)
    with run.step("place"):
        problem = problem_of(routing, traffic, seed=run.seed, **options)
        chosen = solved(problem, asked.method) if parent is None else resolved(problem, parent)
    with run.step("other orders"):
        names = [name for name in (OURS, *ORDERS) if name != asked.method]
        others = {name: solved(problem, name) for name in names}
        if asked.evaluate is not None:
            others[GIVEN] = _evaluated(routing, traffic, asked.evaluate, options, run.seed)
    before = GIVEN if GIVEN in others else min(ORDERS, key=lambda name: _cost(others, chosen, name))
    files, refused = launcher_files(chosen.placement, fabric)
    data = chosen.to_json(routing)
    files["prediction.json"] = placeinput.prediction_json(data, fabric)
    if experts is not None:
        files["experts.json"] = json_text(experts)
        run.data["experts"] = experts
    paths = _write(run, files, asked.write_files)
    whole = {asked.method: data} | {
        name: one.to_json(routing) for name, one in others.items() if name in {before, GIVEN}
    }
    between = between_switches(fabric)
    placements = {
        name: whole.get(name) or _figures(one, between)
        for name, one in ({asked.method: chosen} | others).items()
    }
    run.data |= {
        "placements": placements,
        "method": asked.method,
        "before": before,
        "job": traffic.job.to_json(),
        "files": paths,
        "refused": refused,
        "launch": _launch(paths),
        "links": _busiest(chosen, others.get(before, chosen), fabric),
        "notes": [*traffic.notes, *notes],
    }
    if GIVEN in others:
        run.data["evaluated"] = {"map": str(asked.evaluate), **{key: whole[GIVEN][key] for key in _FIGURES}}
    if asked.explain is not None:
        run.data["explain"] = asdict(explain(chosen, asked.explain))
    figures = {key: data[key] for key in _FIGURES}
    orders = {name: one["cost_us"] for name, one in placements.items()}
    return run.finish(0, {**figures, "orders": orders, "placement": data["placement"]})


def placed_experts(job: JobSpec) -> tuple[JobSpec, dict[str, Any]]:
    """The job with its experts on other ranks of their groups, so that the busiest gets least; and `experts.json`.

    Raises:
        InputError: a job that says no counts of tokens, or has one rank for all experts.
    """
    if not job.expert_tokens or job.ep == 1:
        raise InputError("--place-experts needs expert_tokens, and ep above 1, in the job")
    tokens = np.array(job.expert_tokens)
    found = place_experts(tokens, job.ep)
    order = np.argsort(found.rank, kind="stable")
    mean = float(tokens.sum()) / job.ep
    held = [
        np.bincount(rank, tokens).max() / mean
        for rank in (found.rank, np.arange(len(tokens)) * job.ep // len(tokens))
    ]
    said = {
        "schema": "nettune.experts/1",
        "experts_of_ep_rank": order.reshape(job.ep, -1).tolist(),
        "busiest_over_mean": held[0],
        "busiest_over_mean_in_order": held[1],
    }
    return replace(job, expert_tokens=tuple(tokens[order].tolist())), said


def _options(
    routing: Routing,
    traffic: JobTraffic,
    asked: Asked,
    parent: NDArray[np.int64] | None,
    gone: Sequence[str],
) -> tuple[dict[str, Any], list[str]]:
    """Arguments of `problem_of` that hold for every order, and what to note about them."""
    fabric = routing.fabric
    excluded, pins = named_hosts(asked.exclude), placeinput.read_pins(asked.pins)
    # A host that failed may be in no fabric any more.
    excluded = [host for host in excluded if host not in gone]
    placeinput.check_hosts(fabric, excluded, "--exclude")
    placeinput.check_hosts(fabric, pins.values(), "--pin")
    others = placeinput.read_other_jobs(asked.background, routing)
    notes = []
    if gone:
        notes.append(f"hosts of {asked.parent} that the fabric has no more: {some(gone, 20)}")
    if others is not None:
        notes.append(
            f"on the fabric already: {', '.join(others.said)}; one of their steps lasts as long as one of this job"
        )
        taken = [host for host in others.hosts if host not in excluded]
        clash = next((host for host in pins.values() if host in taken), None)
        if clash is not None:
            raise InputError(f"--pin: another job runs on {clash!r}")
        excluded += taken
    per_host = asked.ranks_per_host
    if per_host is None and parent is not None:
        per_host = int(np.unique(parent[parent >= 0], return_counts=True)[1].max())
    elif per_host is None:
        per_host = _one_rank_a_host(fabric, traffic, excluded)
    options = {
        "excluded": excluded,
        "pins": pins,
        "ranks_per_host": per_host,
        "background": None if others is None else others.link_bytes,
        "even_pods": asked.even_pods,
    }
    return options, notes


def _one_rank_a_host(fabric: Fabric, traffic: JobTraffic, excluded: Sequence[str]) -> int | None:
    """1 where neither the fabric's GPUs nor the job's domain says more; None where they do.

    Raises:
        InputError: more ranks than hosts then: how many share a host is not to be guessed.
    """
    if len(fabric.gpus.host) or traffic.job.domain > 1:
        return None
    left = len(set(fabric.hosts) - set(excluded))
    if 0 < left < traffic.ranks:
        raise InputError(
            f"{traffic.ranks} ranks need {traffic.ranks} hosts, and {left} are left; where ranks share a host, give "
            "--ranks-per-host"
        )
    return 1


def _evaluated(
    routing: Routing, traffic: JobTraffic, path: Path, options: Mapping[str, Any], seed: int
) -> Placed:
    given = placeinput.read_map(path, routing.fabric)
    try:
        return evaluate(routing, traffic, given, seed=seed, background=options["background"])
    except InputError as error:
        raise InputError(str(error), path) from None


def _cost(others: Mapping[str, Placed], chosen: Placed, name: str) -> float:
    return others.get(name, chosen).cost_us


def _figures(one: Placed, between: NDArray[np.bool_]) -> dict[str, Any]:
    """What is kept of an order that no drawing shows."""
    return {
        "cost_us": one.cost_us,
        "bound_us": one.bound_us,
        "gap": one.gap,
        "max_link_load_bytes": float(one.predicted.link_bytes.max(initial=0.0)),
        "max_uplink_bytes": float(one.predicted.link_bytes[between].max(initial=0.0)),
        "moves": one.placement.moves,
        "time_us": list(one.predicted.time_us),
    }


def _write(run: Run, files: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {name: str(run.dir.write(name, content)) for name, content in files.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return {name: str(folder / name) for name in files}


def _launch(paths: Mapping[str, str]) -> str:
    """The command that starts the job: inside a Slurm job srun's, else the first launcher whose files were written."""
    scripts = _LAUNCH if "SLURM_JOB_ID" in os.environ else (*_LAUNCH[1:], _LAUNCH[0])
    return next((f"sh {shlex.quote(paths[name])} {words}" for name, words in scripts if name in paths), "")


def _busiest(chosen: Placed, before: Placed, fabric: Fabric) -> list[dict[str, Any]]:
    """The busiest link of a host and the busiest between switches, the phases that load them, and what they had before."""
    phases = chosen.predicted.phases
    total, speed = chosen.predicted.link_bytes, fabric.directed_gbps
    busy = np.divide(total, speed, out=np.zeros_like(total), where=speed > 0)
    between = between_switches(fabric)
    order = np.argsort(-busy, kind="stable")
    rows = [*order[~between[order]][:1], *order[between[order]][: _MOST_LINKS - 1]]
    return [
        {
            "link": fabric.directed_name(int(row)),
            "bytes": float(total[row]),
            "time_us": float(8e-3 * busy[row]),
            "before_bytes": float(before.predicted.link_bytes[row]),
            "phases": {one.name: float(one.link_bytes[row]) for one in phases if one.link_bytes[row] > 0},
        }
        for row in rows
        if total[row] > 0
    ]
