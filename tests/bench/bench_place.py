"""Placement of a job of TP8 PP8 EP8 on rail fabrics of 64 to 4,096 hosts with 8 GPUs: time, and its growth with size.

The target is 4,096 hosts in 30 s and 3 GB on two cores, 512 hosts in 3 s with imports and routes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from collectives.job import JobSpec, ModelShape
from collectives.traffic import JobTraffic
from topology.placement.place import place, problem_of
from topology.placement.replacing import replaced
from topology.routing import Routing

SIZES = (64, 256, 1024, 4096)
RAILS = 8


def job(hosts: int, algorithm: str) -> JobTraffic:
    """Make TP8 PP8 EP8 with as many replicas as fill the hosts."""
    model = ModelShape(
        layers=96, hidden=12288, heads=96, seq=2048, vocab=51200, global_batch=hosts, experts=64, top_k=2, moe_every=2
    )  # fmt: skip
    return JobTraffic(
        JobSpec(
            tp=8, pp=8, ep=8, dp=hosts // 8, sequence_parallel=True, domain=RAILS, backend="nccl", model=model,
            algorithm={"dp": algorithm, "edp": algorithm},
        )
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["ring", "double_tree"])
@pytest.mark.parametrize("hosts", SIZES)
def test_place(benchmark, rail_fabric, hosts, algorithm):
    """Routes and traffic are at hand."""
    fabric = rail_fabric(hosts, per_leaf=min(64, hosts // 4), spines=64)
    routing, traffic = Routing.shortest_paths(fabric), job(hosts, algorithm)
    assert len(routing.hops.entry)
    assert traffic.phases
    placed = benchmark.pedantic(place, (routing, traffic), {"ranks_per_host": RAILS}, rounds=1)
    benchmark.extra_info |= {"gap": placed.gap}
    assert placed.cost_us >= placed.bound_us


@pytest.mark.parametrize("hosts", SIZES[1:])
def test_replace_one_host(benchmark, rail_fabric, hosts):
    """One host fails; a job on half of the hosts gets another."""
    fabric = rail_fabric(hosts, per_leaf=min(64, hosts // 4), spines=64)
    routing, traffic = Routing.shortest_paths(fabric), job(hosts // 2, "ring")
    before = place(routing, traffic, "depth-first", ranks_per_host=RAILS).placement
    benchmark.pedantic(replaced, (routing, traffic, before), {"excluded": ("h3",)}, rounds=1)


@pytest.mark.parametrize("hosts", SIZES)
def test_problem(benchmark, rail_fabric, hosts):
    """Units, slots and pieces of the fabric."""
    fabric = rail_fabric(hosts, per_leaf=min(64, hosts // 4), spines=64)
    routing, traffic = Routing.shortest_paths(fabric), job(hosts, "ring")
    benchmark.pedantic(problem_of, (routing, traffic), {"ranks_per_host": RAILS}, rounds=3)


def test_cold_start_512_hosts(benchmark, tmp_path):
    """A new interpreter: imports, routes, traffic and the map; the fabric's file is read before the clock in it starts."""
    here = str(Path(__file__).resolve())
    tests = str(Path(__file__).resolve().parent.parent)
    code = (
        "import sys, importlib.util as u\n"
        "def load(name, path):\n"
        "    spec = u.spec_from_file_location(name, path); module = u.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module); return module\n"
        f"fabric = load('fabrics', {tests!r} + '/conftest.py').build_rails(512)\n"
        f"bench = load('bench', {here!r})\n"
        "bench.place(bench.Routing.shortest_paths(fabric), bench.job(512, 'ring'), ranks_per_host=8)\n"
    )
    benchmark.pedantic(
        subprocess.run, ([sys.executable, "-c", code],), {"check": True, "cwd": tmp_path}, rounds=3
    )
