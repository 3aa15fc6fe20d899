"""Routing of a leaf-spine fabric: built once, asked for every flow."""

from __future__ import annotations

import pytest

from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.routing import Routing


def leaf_spine(hosts: int, *, hosts_per_leaf: int = 16, spines: int = 8) -> Fabric:
    """Build a fabric with one NIC a host and one uplink from each leaf to each spine."""
    builder = FabricBuilder()
    leaves = hosts // hosts_per_leaf
    for spine in range(spines):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
        for leaf in range(leaves):
            builder.port(f"spine{spine}", f"d{leaf}", speed_gbps=400)
    for leaf in range(leaves):
        builder.node(f"leaf{leaf}", NodeKind.SWITCH)
        for spine in range(spines):
            builder.port(f"leaf{leaf}", f"u{spine}", speed_gbps=400)
            builder.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"d{leaf}"))
    for host in range(hosts):
        leaf, place = divmod(host, hosts_per_leaf)
        builder.node(f"h{host}", NodeKind.HOST)
        builder.port(f"h{host}", "eth0", speed_gbps=400, rail=0)
        builder.port(f"leaf{leaf}", f"d{place}", speed_gbps=400)
        builder.link((f"h{host}", "eth0"), (f"leaf{leaf}", f"d{place}"))
    return builder.build()


@pytest.mark.parametrize("hosts", [64, 512])
def test_build(benchmark, hosts):
    """Freeze the columns of a fabric."""
    benchmark.pedantic(leaf_spine, (hosts,), rounds=5)


@pytest.mark.parametrize("hosts", [64, 512])
def test_shortest_paths(benchmark, hosts):
    """Work out every switch's next hops."""
    benchmark.pedantic(Routing.shortest_paths, (leaf_spine(hosts),), rounds=5)


def test_spread(benchmark):
    """Distribution over links of one pair of hosts, hash unknown."""
    fabric = leaf_spine(512)
    routing = Routing.shortest_paths(fabric)
    ports = [fabric.port_row(host, "eth0") for host in ("h0", "h511")]
    benchmark(routing.spread, *ports)
