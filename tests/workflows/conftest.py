"""A run with results of every step, made by the real functions: ranks on loopback that are named like a fabric's hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectives.bench import Method
from collectives.job import JobSpec
from collectives.traffic import AllReduceTraffic, JobTraffic
from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.launch import Agents, LocalLauncher
from nettune.trainer.config import GPTConfig, TrainConfig
from nettune.workflows import steps
from nettune.workflows.run import Run, open_run
from nettune.workflows.training import Training
from sweeps.knob import Knob
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.placement.place import AGAINST, OURS
from topology.routing import Routing

MODEL = GPTConfig.from_depth(1)


def two_leaves() -> Fabric:
    """2 leaves x 2 hosts, 2 spines, all links 0.1 Gbit/s."""
    builder = FabricBuilder()
    for host in range(4):
        builder.node(f"h{host}", NodeKind.HOST)
    for switch in ("leaf0", "leaf1", "spine0", "spine1"):
        builder.node(switch, NodeKind.SWITCH)
    for leaf in range(2):
        for place in range(2):
            builder.port(f"h{2 * leaf + place}", "eth0", speed_gbps=0.1, rail=0)
            builder.port(f"leaf{leaf}", f"d{place}", speed_gbps=0.1)
            builder.link((f"h{2 * leaf + place}", "eth0"), (f"leaf{leaf}", f"d{place}"))
        for spine in range(2):
            builder.port(f"leaf{leaf}", f"u{spine}", speed_gbps=0.1)
            builder.port(f"spine{spine}", f"d{leaf}", speed_gbps=0.1)
            builder.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"d{leaf}"))
    return builder.build()


def findings() -> list[dict[str, Any]]:
    """One of each status."""
    link, host = ElementId("link/leaf0:u0--spine0:d0"), ElementId.host("h1")
    return [
        one.to_json()
        for one in (
            Finding(check="link-loss", status=Status.WARN, where=link, what="loses 0.1%", probability=0.9, fix="clean it"),
            Finding(check="pairs", status=Status.UNKNOWN, where=host, what="not reached", required=False),
            Finding(check="host-cpu", status=Status.PASS, where=host, what="is as fast as the others"),
        )
    ]  # fmt: skip


def fill(run: Run) -> None:
    """Do every step, as small as it goes."""
    fabric = two_leaves()
    routing = Routing.shortest_paths(fabric)
    hosts = fabric.hosts
    run.data |= {"fabric": fabric.to_json(), "routing": routing.to_json(), "link_rate_gbps": 0.1}
    run.data |= {
        "findings": findings(),
        "dropped": {},
        "busbw_bytes": 65536,
        "mode": "lab",
        "not_shown": ["a rail"],
    }
    run.data["qualify"] = {
        "hosts": list(hosts),
        "flows": [{"offered_gbps": 0.088}],
        "matrix_gbps": [[None if a == b else 0.09 for b in hosts] for a in hosts],
    }
    method = Method(inits=2, repeats=1, iface="lo")
    traffic = AllReduceTraffic(len(hosts), 65536)
    job = JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=65536, pp_bytes=4096)
    with Agents(LocalLauncher(hosts), hosts, preload=steps.TORCH) as agents:
        orders = steps.placed(run, routing, traffic)
        steps.compared(run, agents, orders, traffic, method)
        both = {name: orders[name] for name in (AGAINST, OURS)}
        steps.sized(run, agents, both, (65536,), method)
        training = Training(agents, "lo", TrainConfig(model=MODEL, batch_per_rank=1))
        peak = steps.peak_of(run, training, hosts)
        steps.swept(run, training, hosts, peak, Knob("bucket_cap_mib", (25.0, 1.0), 25.0), 2)
        steps.trained(run, training, both, peak, inits=2, steps=1)
        inner = Run(run.dir, run.progress, run.seed, {"seconds": {}})
        second = steps.placed(inner, routing, JobTraffic(job), ("depth-first", OURS))
        steps.compared(inner, agents, second, JobTraffic(job), method)
    kept = {key: inner.data[key] for key in ("placements", "comparison", "speedup")}
    run.data["second"] = {"job": job.to_json(), "fabric": run.data["fabric"], **kept}


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> dict[str, Any]:
    """The content of result.json."""
    with open_run("demo", tmp_path_factory.mktemp("stored"), lambda _: None) as run:
        fill(run)
        run.finish(0)
    data = json.loads((run.dir.path / "result.json").read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data
