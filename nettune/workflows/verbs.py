"""One function a verb: the steps that it takes on a lab, in a run directory of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from collectives.bench import Method
from collectives.sizes import sizes_of
from nettune.errors import InputError
from nettune.trainer.config import DEMO_CONFIG
from nettune.units import parse_size
from nettune.workflows import steps
from nettune.workflows.given import on_lab
from nettune.workflows.run import Progress, RunResult
from nettune.workflows.training import Training
from sweeps.knob import Knob
from topology.placement.place import METHODS, OURS


def bench_lab(
    lab_name: str,
    size: str,
    series: tuple[str, str, int],
    method: Method,
    runs: Path,
    progress: Progress,
    *,
    seed: int = 0,
) -> RunResult:
    """`nettune bench` of orders: `series` is smallest size, largest size and factor.

    Raises:
        InputError: no such lab, a bad size.
        AgentError: a rank failed.
    """
    size_bytes, sizes = parse_size(size), sizes_of(*series, 4)
    with on_lab("bench", lab_name, runs, progress, seed) as (run, cluster):
        traffic = steps.all_reduce(cluster, size_bytes)
        method = replace(method, iface=cluster.iface)
        orders = steps.placed(run, cluster.discovery.routing, traffic)
        run.data["busbw_bytes"] = size_bytes
        with cluster.agents(steps.TORCH) as agents:
            steps.compared(run, agents, orders, traffic, method, cluster)
            steps.sized(run, agents, orders, sizes, method)
        return run.finish(0)


def train_on_lab(
    lab_name: str,
    ab: str,
    inits: int,
    count: int,
    bucket_cap_mib: float,
    runs: Path,
    progress: Progress,
    *,
    seed: int = 0,
) -> RunResult:
    """`nettune train`: `ab` names orders, comma between them; `count` is steps in each initialisation.

    Raises:
        InputError: no such lab or order.
        AgentError: a rank failed.
    """
    names = _order_names(ab)
    config = DEMO_CONFIG.with_changes(bucket_cap_mib=bucket_cap_mib)
    with on_lab("train", lab_name, runs, progress, seed) as (run, cluster):
        orders = steps.placed(
            run, cluster.discovery.routing, steps.all_reduce(cluster, DEMO_CONFIG.model.gradient_bytes), names
        )
        with cluster.agents(steps.TORCH) as agents:
            training = Training(agents, cluster.iface, config)
            peak = steps.peak_of(run, training, cluster.hosts)
            steps.trained(run, training, orders, peak, inits=inits, steps=count)
        return run.finish(0)


def sweep_on_lab(
    lab_name: str, words: str, inits: int, runs: Path, progress: Progress, *, seed: int = 0
) -> RunResult:
    """`nettune sweep`, under nettune's order.

    Raises:
        InputError: no such lab, a knob that the trainer does not have, a value that it refuses.
        AgentError: a rank failed.
    """
    knob = Knob.parse(words)
    if knob.name != "bucket_cap_mib":
        raise InputError(f"knob {knob.name!r} is not known; known: bucket_cap_mib")
    if len(knob.values) < 2:
        raise InputError(f"{words!r} has a single value; a sweep compares at least two")
    for value in knob.values:
        DEMO_CONFIG.with_changes(**{knob.name: value})
    with on_lab("sweep", lab_name, runs, progress, seed) as (run, cluster):
        traffic = steps.all_reduce(cluster, DEMO_CONFIG.model.gradient_bytes)
        order = steps.placed(run, cluster.discovery.routing, traffic, (OURS,))[OURS]
        with cluster.agents(steps.TORCH) as agents:
            training = Training(agents, cluster.iface, DEMO_CONFIG)
            peak = steps.peak_of(run, training, order)
            steps.swept(run, training, order, peak, knob, inits)
        return run.finish(0)


def _order_names(words: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(words.split(",")))
    for name in names:
        if name not in METHODS:
            raise InputError(f"order {name!r} is not known; known: {', '.join(METHODS)}")
    return names
