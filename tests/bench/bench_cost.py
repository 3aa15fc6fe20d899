"""Cost models on fabrics of the size of a cluster: bounds, max-min rates, the fluid, NCCL's choice, the hybrid's split."""

from __future__ import annotations

import numpy as np
import pytest

from collectives.cost.bound import Demand, best_hosts_bound, collective_bound
from collectives.cost.evaluate import evaluate
from collectives.cost.hybrid import Half, plan
from collectives.cost.maxmin import Paths, max_min_rates
from collectives.cost.nccl_model import Communicator, Graph, choose
from collectives.schedules import Op, build
from collectives.traffic import AllReduceTraffic
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.placement.bound import lower_bound_us
from topology.placement.mapping import Placement
from topology.placement.problem import Problem
from topology.routing import Routing

HOSTS = 4096
PER_HOST = 8


def rails(hosts: int, *, per_leaf: int = 64, spines: int = 32) -> Fabric:
    """Hosts with 8 NICs, one leaf for each rail and 64 hosts, every leaf cabled to every spine."""
    builder = FabricBuilder()
    for spine in range(spines):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
    for group in range(hosts // per_leaf):
        for rail in range(PER_HOST):
            leaf = f"leaf{group}-{rail}"
            builder.node(leaf, NodeKind.SWITCH)
            for spine in range(spines):
                builder.port(leaf, f"u{spine}", speed_gbps=800)
                builder.port(f"spine{spine}", f"d{group}-{rail}", speed_gbps=800)
                builder.link((leaf, f"u{spine}"), (f"spine{spine}", f"d{group}-{rail}"))
        for place in range(per_leaf):
            host = f"h{group * per_leaf + place}"
            builder.node(host, NodeKind.HOST)
            for rail in range(PER_HOST):
                builder.port(host, f"eth{rail}", speed_gbps=400, rail=rail)
                builder.port(f"leaf{group}-{rail}", f"d{place}", speed_gbps=400)
                builder.link((host, f"eth{rail}"), (f"leaf{group}-{rail}", f"d{place}"))
    return builder.build()


@pytest.fixture(scope="session")
def large() -> tuple[Routing, Placement]:
    """4,096 hosts with 8 NICs, 32,768 ranks in order."""
    fabric = rails(HOSTS)
    hosts = [host for host in fabric.hosts for _ in range(PER_HOST)]
    return Routing.shortest_paths(fabric), Placement.of_hosts(fabric, hosts)


@pytest.fixture(scope="session")
def small() -> tuple[Routing, Placement]:
    """128 hosts with 8 NICs, 1,024 ranks in order."""
    fabric = rails(128)
    hosts = [host for host in fabric.hosts for _ in range(PER_HOST)]
    return Routing.shortest_paths(fabric), Placement.of_hosts(fabric, hosts)


def test_collective_bound(benchmark, large):
    """512 replicas of 64 ranks each: the bound of all gradients at once."""
    routing, placement = large
    groups = np.arange(HOSTS * PER_HOST).reshape(512, 64).T.tolist()
    demand = Demand("all_reduce", 1e9, groups)
    benchmark.pedantic(collective_bound, (routing.fabric, placement, [demand]), rounds=3)


def test_best_hosts(benchmark, large):
    """1,024 of 32,768 slots, wherever."""
    routing, _ = large
    options = {"ranks_per_host": PER_HOST}
    benchmark.pedantic(best_hosts_bound, (routing.fabric, "all_reduce", 1e9, 1024), options, rounds=3)


def test_bound_over_placements(benchmark, large):
    """The bound that a placement is held against."""
    routing, _ = large
    traffic = AllReduceTraffic(HOSTS * PER_HOST, 1e9, "nccl")
    problem = Problem(routing, traffic, routing.fabric.hosts, PER_HOST)
    assert traffic.phases
    benchmark.pedantic(lower_bound_us, (problem,), rounds=3)


def test_bound_of_a_step(benchmark, large):
    """One ring through all ranks, method bound."""
    routing, placement = large
    traffic = AllReduceTraffic(HOSTS * PER_HOST, 1e9, "nccl")
    benchmark.pedantic(evaluate, (routing.fabric, routing, placement, traffic, "bound"), rounds=3)


def test_max_min_rates(benchmark):
    """Rates of 100,000 flows over 6 of 20,000 links each."""
    rng = np.random.default_rng(0)
    flows, links = 100_000, 20_000
    paths = Paths(rng.integers(0, links, 6 * flows), np.arange(flows + 1) * 6)
    benchmark.pedantic(max_min_rates, (paths, rng.choice([100.0, 400.0], links)), rounds=3)


def test_fluid(benchmark, small):
    """A ring of 1,024 ranks as a fluid, 5 port draws."""
    routing, placement = small
    traffic = AllReduceTraffic(1024, 1e9, "nccl")
    benchmark.pedantic(
        evaluate, (routing.fabric, routing, placement, traffic, "max-min"), {"draws": 5}, rounds=2
    )


def test_nccl_choice(benchmark):
    """One message size on 64 nodes."""
    graph = Graph(16, 20.0, 20.0)
    comm = Communicator(ranks=512, nodes=64, graphs={"ring": graph, "tree": graph})
    benchmark(choose, comm, "all_reduce", 1 << 26)


def test_hybrid_plan(benchmark, small):
    """The split between ring and double tree of 128 hosts, 10 port draws."""
    routing, _ = small
    placement = Placement.of_hosts(routing.fabric, routing.fabric.hosts)
    halves = [Half.of(build(name, Op.ALL_REDUCE, 128), 5.0) for name in ("ring", "double_tree")]
    benchmark.pedantic(plan, (routing, placement, *halves, 1e9), {"draws": 10}, rounds=2)
