"""The steps that commands are made of; each leaves its results under a key of the run's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collectives.bench import Method, Order, compare_orders, random_order, sweep_sizes
from collectives.communicator import PRELOAD
from collectives.traffic import AllReduceTraffic, Work
from nettune.launch import Agents
from nettune.qualify import qualify
from nettune.trainer.mfu import compare_runs, summarise_inits
from nettune.trainer.peak import Peak
from nettune.workflows.cluster import Cluster
from nettune.workflows.run import Run
from nettune.workflows.training import Training
from sweeps.grid import sweep
from sweeps.knob import Knob
from topology.placement.place import AGAINST, BASELINES, OURS, problem_of, solved
from topology.routing import Routing
from topology.traffic import StepTraffic

TORCH = (*PRELOAD, "nettune.trainer.train")
"""What agents import before they are forked, when ranks are to communicate or to train."""

ORDERS = (OURS, *BASELINES)
SWEEP_STEPS = 3
QUALIFY_BUDGET_S = 40.0
"""A bound, not a plan: 8 hosts need about 10 s; a busy machine needs longer for its processors in turn."""

Orders = dict[str, Any]
"""Name -> host of each rank, or a function of the initialisation that gives it."""


def qualified(run: Run, cluster: Cluster, agents: Agents) -> int:
    """Qualify every host and link; keys qualify and findings. Returns the exit code that the findings amount to."""
    found = cluster.discovery
    with run.step("qualify"):
        result = qualify(
            found.fabric,
            found.routing,
            agents,
            known=found.findings,
            carrier=cluster.carrier_changes,
            budget_s=QUALIFY_BUDGET_S,
            progress=run.progress,
        )
    run.data["qualify"] = result.to_json()
    run.data["findings"] = [finding.to_json() for finding in result.findings]
    return result.exit_code


def placed(
    run: Run,
    routing: Routing,
    traffic: StepTraffic,
    methods: Sequence[str] = ORDERS,
    excluded: Sequence[str] = (),
) -> Orders:
    """Place a job by several methods; key placements. Random is another order in each initialisation."""
    with run.step("place"):
        problem = problem_of(routing, traffic, excluded=excluded, seed=run.seed)
        results = {name: solved(problem, name) for name in methods}
    run.data["placements"] = {name: one.to_json(routing) for name, one in results.items()}
    orders: Orders = {name: one.placement.hosts(routing.fabric) for name, one in results.items()}
    if AGAINST in orders:
        orders[AGAINST] = random_order(orders[AGAINST], run.seed)
    return orders


def compared(
    run: Run,
    agents: Agents,
    orders: Mapping[str, Order],
    traffic: Work,
    method: Method,
    cluster: Cluster | None = None,
) -> None:
    """Measure a step's communication under each order; keys comparison, speedup (of ours) and busbw_gbps."""
    with run.step("communication under each order"):
        result = compare_orders(
            agents,
            orders,
            traffic,
            method,
            counters=None if cluster is None else cluster.counters,
            routing=None if cluster is None else cluster.discovery.routing,
            record=run.dir.record,
            progress=run.progress,
        )
    data = result.to_json()
    run.data["comparison"] = data
    run.data["busbw_gbps"] = {order["name"]: order["busbw_gbps"] for order in data["orders"]}
    if OURS in orders and method.inits > 1:
        run.data["speedup"] = {name: result.speedup(name, OURS)._asdict() for name in orders if name != OURS}


def sized(
    run: Run, agents: Agents, orders: Mapping[str, Order], sizes_bytes: Sequence[int], method: Method
) -> None:
    """Busbw against message size; key sizes."""
    with run.step("busbw against size"):
        points = sweep_sizes(agents, orders, sizes_bytes, method, record=run.dir.record, run="sizes")
    run.data["sizes"] = {name: [point.to_json() for point in series] for name, series in points.items()}


def peak_of(run: Run, training: Training, order: Sequence[str]) -> Peak:
    """Measure the peak with all ranks running; key peak."""
    with run.step("peak FLOP/s"):
        peak = training.peak(order)
    run.data["peak"] = peak.to_json()
    return peak


def swept(run: Run, training: Training, order: Sequence[str], peak: Peak, knob: Knob, inits: int) -> float:
    """Sweep a knob of the trainer under one order; key sweep. Returns the value to keep."""

    def measure(value: float, init: int) -> list[float]:
        run.progress(f"sweep: {knob.name} {value:g}, initialisation {init + 1} of {inits}")
        results = training.run(order, SWEEP_STEPS, changes={knob.name: value})
        return [step.step_s for step in summarise_inits([results], training.flops, peak).steps[0]]

    with run.step("sweep"):
        result = sweep(knob, measure, inits=inits, seed=run.seed)
    run.data["sweep"] = result.to_json()
    return result.kept


def trained(
    run: Run,
    training: Training,
    orders: Mapping[str, Order],
    peak: Peak,
    *,
    inits: int,
    steps: int,
    **changes: Any,
) -> None:
    """Train under each order, interleaved; keys train, mfu_delta_points and mfu_delta_ci (last order minus first)."""
    runs: dict[str, list[Any]] = {name: [] for name in orders}
    with run.step("train"):
        for init in range(inits):
            for name, results in runs.items():
                run.progress(f"train: order {name}, initialisation {init + 1} of {inits}")
                order = orders[name]
                hosts = [str(host) for host in (order(init) if callable(order) else order)]
                results.append(training.run(hosts, steps, changes=changes))
    summaries = {name: summarise_inits(results, training.flops, peak) for name, results in runs.items()}
    data: dict[str, Any] = {
        "config": training.config.with_changes(**changes).to_json(),
        "gradient_bytes": training.config.model.gradient_bytes,
        "params": training.config.model.params,
        "orders": {name: summary.to_json() for name, summary in summaries.items()},
    }
    run.data["train"] = data
    if len(summaries) > 1 and inits > 1:
        first, *_, last = summaries
        change = compare_runs(summaries[first], summaries[last], seed=run.seed)
        data |= {"from": first, "to": last, "change": change}
        points = change["mfu_delta_points"]
        run.data |= {"mfu_delta_points": points["median"], "mfu_delta_ci": points["ci"]}


def all_reduce(cluster: Cluster, size_bytes: int) -> AllReduceTraffic:
    """An all-reduce over all hosts of a cluster, one rank each."""
    return AllReduceTraffic(len(cluster.hosts), size_bytes)
