"""32,768 ranks: traffic and link loads on 4,096 hosts with 8 rails."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from collectives.job import JobSpec, ModelShape
from collectives.traffic import JobTraffic
from topology.loads import expected_loads, link_loads, predict
from topology.placement.mapping import Placement
from topology.routing import Routing
from topology.traffic import transfers

HOSTS, RAILS = 4096, 8


@pytest.mark.slow
def test_memory_stays_far_below_the_ranks_squared(rail_fabric):
    """TP8 PP8 EP8 DP512 by ring and by tree, NICs in order: loads, percentiles and times in less than 1 GB of arrays.

    A dense matrix of 32,768 ranks squared would be 8.6 GB. What goes out of the NICs is what the job sends.
    """
    routing = Routing.shortest_paths(rail_fabric(HOSTS))
    host, gpu = np.repeat(np.arange(HOSTS), RAILS), np.tile(np.arange(RAILS), HOSTS)
    nic = host * RAILS + gpu
    model = ModelShape(
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
    placement = Placement(host, gpu, nic)
    tracemalloc.start()
    for algorithm in ("ring", "double_tree"):
        job = JobSpec(
            tp=8, pp=8, ep=8, dp=512, sequence_parallel=True, domain=RAILS, backend="nccl", model=model,
            algorithm={"dp": algorithm, "edp": algorithm},
        )  # fmt: skip
        traffic = JobTraffic(job)
        moved = [transfers(phase, placement.nic) for phase in traffic.phases]
        sent = sum(phase.edge_bytes.sum() for phase in traffic.phases)
        out = routing.fabric.out_of_port[: HOSTS * RAILS]
        if algorithm == "ring":
            assert predict(routing, placement, traffic, draws=4).link_bytes[out].sum() == pytest.approx(sent)
        else:
            loads = link_loads(routing, moved, draws=4)
            assert loads.mean[out].sum() == pytest.approx(sent)
            # Paths of one transfer are equally long, so that chance moves bytes but does not change their sum.
            assert loads.mean.sum() == pytest.approx(sum(expected_loads(routing, one).sum() for one in moved))
        assert sum(len(phase.src) for phase in traffic.phases) < 32 * job.ranks
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 1e9
