"""`nettune demo`: the whole job on an emulated fabric: discover, qualify, place, measure, tune, train, report."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from collectives.communicator import PRELOAD
from collectives.traffic import AllReduceTraffic, JobTraffic
from nettune.errors import InputError, UnavailableError
from nettune.lab import Lab, lab_available
from nettune.workflows import demo_setup as setup
from nettune.workflows import loopback, steps
from nettune.workflows.cluster import discover_lab
from nettune.workflows.given import discovered
from nettune.workflows.run import Progress, Run, RunResult, open_run
from nettune.workflows.training import Training
from topology.placement.place import AGAINST, OURS


def run_demo(runs: Path, progress: Progress, *, fault: str | None = None, seed: int = 0) -> RunResult:
    """Run the demo; with a fault, only as far as naming it.

    Raises:
        InputError: an unknown fault.
        UnavailableError: torch, or what the fault needs, is missing.
        NettuneError: the run directory cannot be written, a rank failed.
    """
    if fault is not None and fault not in setup.FAULTS:
        raise InputError(f"fault {fault!r} is not known; known: {', '.join(setup.FAULTS)}")
    available, reason = lab_available()
    if not available and fault is not None:
        raise UnavailableError(f"a fault needs an emulated fabric: {reason}")
    with open_run("demo", runs, progress, seed=seed) as run:
        run.data |= dict.fromkeys(("fault", "busbw_gbps", "mfu_delta_points", "mfu_delta_ci"))
        run.data |= {
            "mode": "lab" if available else "loopback",
            "not_shown": [],
            "busbw_bytes": setup.MESSAGE_BYTES,
        }
        if available:
            return run.finish(_on_lab(run, fault))
        progress(f"no emulated fabric here, so ranks run on loopback: {reason}")
        run.data["not_shown"] = [*loopback.NOT_SHOWN, f"why: {reason}"]
        _on_loopback(run)
        return run.finish(0)


def _on_lab(run: Run, fault: str | None) -> int:
    spec = (setup.rail_fabric if fault == "miswire" else setup.main_fabric)(f"demo-{os.getpid()}")
    with run.step("lab"):
        lab = Lab.up(spec, bound=True)
    with lab:
        if fault is not None:
            run.data["fault"] = lab.faults.apply(fault).to_json()
        cluster = discovered(run, lambda: discover_lab(lab))
        with run.step("start of the ranks"):
            agents = cluster.agents(() if fault else steps.TORCH)
        with agents:
            code = steps.qualified(run, cluster, agents)
            if code != 0:
                return code  # nothing is worth tuning on a fabric that is not fit
            effort = setup.Effort()
            traffic = steps.all_reduce(cluster, setup.MESSAGE_BYTES)
            orders = steps.placed(run, cluster.discovery.routing, traffic)
            steps.compared(run, agents, orders, traffic, effort.bench, cluster)
            both = {name: orders[name] for name in (AGAINST, OURS)}
            steps.sized(run, agents, both, setup.SIZES_BYTES, effort.bench)
            training = Training(agents, cluster.iface, setup.TRAIN)
            hosts = orders[OURS]
            peak = steps.peak_of(run, training, hosts)
            kept = steps.swept(run, training, hosts, peak, setup.KNOB, effort.sweep_inits)
            steps.trained(
                run,
                training,
                both,
                peak,
                inits=effort.train_inits,
                steps=effort.train_steps,
                **{setup.KNOB.name: kept},
            )
    _second_fabric(run)
    return code


def _second_fabric(run: Run) -> None:
    """A fabric and a job for which depth-first is not best; key second."""
    traffic = JobTraffic(setup.SECOND_JOB)
    inner = Run(run.dir, lambda line: run.progress(f"second fabric: {line}"), run.seed, {"seconds": {}})
    with run.step("second fabric"), Lab.up(setup.second_fabric(f"demo2-{os.getpid()}"), bound=True) as lab:
        cluster = discovered(inner, lambda: discover_lab(lab))
        orders = steps.placed(inner, cluster.discovery.routing, traffic, ("depth-first", OURS))
        with cluster.agents(PRELOAD) as agents:
            steps.compared(inner, agents, orders, traffic, setup.Effort().second)
    kept = ("fabric", "placements", "comparison", "speedup")
    run.data["second"] = {"job": setup.SECOND_JOB.to_json(), **{key: inner.data[key] for key in kept}}


def _on_loopback(run: Run) -> None:
    here = loopback.Loopback()
    effort = setup.Effort()
    with run.step("start of the ranks"):
        agents = here.agents()
    with agents:
        traffic = AllReduceTraffic(len(here.hosts), setup.MESSAGE_BYTES)
        steps.compared(
            run, agents, {"loopback": here.hosts}, traffic, replace(effort.bench, iface=here.iface)
        )
        training = Training(agents, here.iface, setup.TRAIN)
        peak = steps.peak_of(run, training, here.hosts)
        kept = steps.swept(run, training, here.hosts, peak, setup.KNOB, effort.sweep_inits)
        steps.trained(
            run,
            training,
            {"loopback": here.hosts},
            peak,
            inits=2,
            steps=effort.train_steps,
            **{setup.KNOB.name: kept},
        )
