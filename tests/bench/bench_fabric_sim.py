"""The packet simulator: packet-hops per second, and how they hold as hosts and queue pairs grow.

A packet-hop is a packet, data or acknowledgement, on one link.
"""

from __future__ import annotations

import time

import pytest

from collectives.congestion.presets import ECN_PRESETS, hpcc_runpy
from collectives.fabric_sim.flows import Flow, ShortestPaths
from collectives.fabric_sim.network import Cable, Network, SwitchSettings
from collectives.fabric_sim.simulate import Simulation

SETTINGS = SwitchSettings(ecn=ECN_PRESETS["hpcc-runpy"])


def leaf_spine(leaves: int, hosts_per_leaf: int) -> Network:
    """As many spines as hosts on a leaf, 100 Gb/s, 1 us."""
    hosts = leaves * hosts_per_leaf
    cables = [Cable(host, hosts + host // hosts_per_leaf, 100, 1000) for host in range(hosts)]
    cables += [
        Cable(hosts + leaf, hosts + leaves + spine, 100, 1000)
        for leaf in range(leaves)
        for spine in range(hosts_per_leaf)
    ]
    names = [f"n{i}" for i in range(hosts + leaves + hosts_per_leaf)]
    return Network(names, hosts, cables, SETTINGS)


def simulation(network: Network, pairs: list[tuple[int, int, int]]) -> Simulation:
    """Flows on paths that a hash draws, DCQCN as HPCC's run.py sets it."""
    paths = ShortestPaths(network)
    flows = [
        Flow(src, dst, size, (paths.drawn(src, dst, key),), paths.drawn(dst, src, key))
        for key, (src, dst, size) in enumerate(pairs)
    ]
    return Simulation(network, flows, [hpcc_runpy(100)])


def hops_per_s(made: Simulation) -> float:
    """Packet-hops by switches and CPU seconds of one run; the best of three."""
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        total = made.run().total
        seconds = time.process_time() - start
        best = max(best, (total["data_hops"] + total["control_hops"]) / seconds)
    return best


@pytest.mark.parametrize("leaves", [4, 8, 16, 32])
def bench_all_to_all(benchmark, capsys, leaves):
    """All-to-all of 4 x leaves hosts, 4 MB each in all: the same packets a host at every size."""
    hosts = 4 * leaves
    pairs = [(src, dst, 4_000_000 // hosts) for src in range(hosts) for dst in range(hosts) if src != dst]
    made = simulation(leaf_spine(leaves, 4), pairs)
    total = benchmark(made.run).total
    rate = (total["data_hops"] + total["control_hops"]) / benchmark.stats.stats.min
    with capsys.disabled():
        print(f"\n{hosts} hosts, {len(pairs)} flows: {rate / 1e6:.2f} million packet-hops/s", end=" ")


def bench_queue_pairs_of_a_nic(benchmark, capsys):
    """The cost of a packet-hop with 1, 64 and 4,096 queue pairs a NIC, equal bytes in all: at most 1.6 times as much.

    Caches are all that grows: there is no scan over queue pairs.
    """
    network = leaf_spine(2, 2)

    def rate(queue_pairs: int) -> float:
        pairs = [(host, host ^ 2, 40_960_000 // queue_pairs) for host in range(4) for _ in range(queue_pairs)]
        return hops_per_s(simulation(network, pairs))

    rates = benchmark.pedantic(lambda: [rate(count) for count in (1, 64, 4096)], rounds=1)
    with capsys.disabled():
        shown = ", ".join(f"{one / 1e6:.2f}" for one in rates)
        print(f"\n1, 64, 4096 queue pairs a NIC: {shown} million packet-hops/s", end=" ")
    assert rates[2] > rates[0] / 1.6
