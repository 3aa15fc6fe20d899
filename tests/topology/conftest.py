"""A Clos fabric of any size, for the tests of this folder."""

from __future__ import annotations

import pytest

from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind


def build_clos(
    leaves: int = 4,
    spines: int = 2,
    hosts_per_leaf: int = 2,
    *,
    parallel: int = 1,
    host_gbps: float = 0.1,
    uplink_gbps: float = 0.1,
) -> Fabric:
    """Hosts node1..nodeN leaf by leaf, one NIC each; every leaf has `parallel` cables to every spine."""
    builder = FabricBuilder()
    hosts = leaves * hosts_per_leaf
    for host in range(hosts):
        builder.node(f"node{host + 1}", NodeKind.HOST)
    for leaf in range(leaves):
        builder.node(f"leaf{leaf}", NodeKind.SWITCH)
    for spine in range(spines):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
    for host in range(hosts):
        leaf, slot = divmod(host, hosts_per_leaf)
        name = f"node{host + 1}"
        builder.port(
            name, "eth0", speed_gbps=host_gbps, rail=0, address=f"10.0.{leaf}.{2 * slot + 1}", mtu=1500
        )
        builder.port(
            f"leaf{leaf}", f"d{slot}", speed_gbps=host_gbps, address=f"10.0.{leaf}.{2 * slot}", mtu=1500
        )
        builder.link((name, "eth0"), (f"leaf{leaf}", f"d{slot}"))
    for leaf in range(leaves):
        for spine in range(spines):
            for cable in range(parallel):
                up, down = f"u{spine * parallel + cable}", f"d{leaf * parallel + cable}"
                builder.port(f"leaf{leaf}", up, speed_gbps=uplink_gbps)
                builder.port(f"spine{spine}", down, speed_gbps=uplink_gbps)
                builder.link((f"leaf{leaf}", up), (f"spine{spine}", down))
    return builder.build(["test"])


@pytest.fixture(scope="session")
def clos():
    """The function that builds a Clos fabric."""
    return build_clos
