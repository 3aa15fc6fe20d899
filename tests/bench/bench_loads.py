"""Traffic and link loads of 32,768 ranks on 4,096 hosts with 8 rails, and a placement search on 64 hosts.

Run it on one core (`taskset -c 0`) to compare with the target: transfers and loads in 10 s.
"""

from __future__ import annotations

import numpy as np
import pytest

from collectives.job import JobSpec, ModelShape
from collectives.traffic import JobTraffic
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.loads import link_loads, predict
from topology.placement.mapping import Placement
from topology.placement.place import place
from topology.routing import Routing
from topology.traffic import transfers

HOSTS, RAILS = 4096, 8
MODEL = ModelShape(
    layers=96,
    hidden=12288,
    heads=96,
    seq=2048,
    vocab=51200,
    global_batch=4096,
    experts=64,
    top_k=2,
    moe_every=2,
)


def job(algorithm: str) -> JobSpec:
    """Make TP8 PP8 EP8 DP512, every expert split over tp, so that its all-to-all leaves the host."""
    return JobSpec(
        tp=8, pp=8, ep=8, dp=512, sequence_parallel=True, domain=RAILS, backend="nccl", model=MODEL,
        algorithm={"dp": algorithm, "edp": algorithm},
    )  # fmt: skip


@pytest.fixture(scope="module")
def routing(rail_fabric) -> Routing:
    """Shortest paths of the big fabric."""
    found: Routing = Routing.shortest_paths(rail_fabric(HOSTS))
    assert len(found.hops.entry)
    return found


def on_hosts(order: np.ndarray) -> Placement:
    """Put rank r on GPU r % 8 of the host at place r // 8 of the order, with the NIC of that rail."""
    host, gpu = np.repeat(order, RAILS), np.tile(np.arange(RAILS), len(order))
    return Placement(host, gpu, host * RAILS + gpu)


def test_routing(benchmark, rail_fabric):
    """Work out and compile the next hops of 576 switches."""
    fabric = rail_fabric(HOSTS)
    benchmark.pedantic(lambda: Routing.shortest_paths(fabric).hops, rounds=1)


@pytest.mark.parametrize("algorithm", ["ring", "double_tree"])
def test_traffic(benchmark, algorithm):
    """Make all phases."""
    benchmark.pedantic(lambda: JobTraffic(job(algorithm)).phases, rounds=3)


@pytest.mark.parametrize("algorithm", ["ring", "double_tree"])
@pytest.mark.parametrize("order", ["in order", "random"])
def test_predict(benchmark, routing, algorithm, order):
    """Times and mean bytes over 100 draws; a random order sends nearly everything over the spines."""
    hosts = np.arange(HOSTS) if order == "in order" else np.random.default_rng(0).permutation(HOSTS)
    traffic = JobTraffic(job(algorithm))
    benchmark.pedantic(predict, (routing, on_hosts(hosts), traffic), {"draws": 100}, rounds=1)


@pytest.mark.parametrize("algorithm", ["ring", "double_tree"])
def test_link_loads(benchmark, routing, algorithm):
    """Mean, median and 95th percentile of every link's bytes in a step."""
    placement, traffic = on_hosts(np.arange(HOSTS)), JobTraffic(job(algorithm))
    moved = [transfers(phase, placement.nic) for phase in traffic.phases]
    benchmark.pedantic(link_loads, (routing, moved), {"draws": 100}, rounds=1)


@pytest.mark.parametrize("kind", ["two kinds of groups", "five phases"])
def test_search_64_hosts(benchmark, kind):
    """All 3,000 swaps of the placement search, on four leaves with half the uplinks."""
    builder = FabricBuilder()
    for node in range(64 + 4 + 8):
        builder.node(f"n{node}", NodeKind.HOST if node < 64 else NodeKind.SWITCH)
    cables = [(host, 64 + host // 16) for host in range(64)]
    cables += [(64 + leaf, 68 + spine) for leaf in range(4) for spine in range(8)]
    for one, other in cables:
        for node, far in ((one, other), (other, one)):
            builder.port(f"n{node}", f"to{far}", speed_gbps=400, rail=0 if node < 64 else -1)
        builder.link((f"n{one}", f"to{other}"), (f"n{other}", f"to{one}"))
    spec = JobSpec(pp=4, dp=16, order="tp-pp-dp", dp_bytes=4 << 20, pp_bytes=1 << 20)
    if kind == "five phases":
        spec = JobSpec(
            pp=4, ep=8, dp=16, dp_bytes=4 << 20, pp_bytes=1 << 20, ep_bytes=1 << 20, edp_bytes=1 << 18
        )
    routing = Routing.shortest_paths(builder.build())
    benchmark.pedantic(place, (routing, JobTraffic(spec)), rounds=1)
