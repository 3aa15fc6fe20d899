"""Fabrics by their sizes: a leaf-spine of any shape, and the fat tree of k-port switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.fabric import NodeKind

if TYPE_CHECKING:
    from topology.fabric import Fabric

MOST_PORTS = 100_000
"""A fat tree of 8,192 hosts has half of it."""


def leaf_spine(
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    *,
    host_gbps: float,
    uplink_gbps: float | None = None,
    parallel: int = 1,
    delay_us: float = 1.0,
) -> Fabric:
    """Hosts h0, h1, ... leaf by leaf, one NIC each; every leaf has `parallel` cables to every spine.

    One leaf needs no spine. Rows come in this order: hosts, leaves, spines.

    Raises:
        InputError: sizes below 1 or a fabric too large, a rate that is not positive, several leaves without a spine.
    """
    _check_sizes(leaves=leaves, hosts_per_leaf=hosts_per_leaf, parallel=parallel)
    uplink = host_gbps if uplink_gbps is None else uplink_gbps
    _check_rates(host_gbps=host_gbps, uplink_gbps=uplink)
    if spines < 0 or (leaves > 1 and not spines):
        raise InputError(f"fabric: {leaves} leaves need at least one spine, not {spines}")
    _check_ports(2 * leaves * (hosts_per_leaf + spines * parallel))
    made = _Cabling(delay_us)
    made.nodes("h", leaves * hosts_per_leaf, NodeKind.HOST)
    made.nodes("leaf", leaves, NodeKind.SWITCH)
    made.nodes("spine", spines, NodeKind.SWITCH)
    for host in range(leaves * hosts_per_leaf):
        made.cable(f"h{host}", f"leaf{host // hosts_per_leaf}", host_gbps)
    for leaf in range(leaves):
        for spine in range(spines):
            for _ in range(parallel):
                made.cable(f"leaf{leaf}", f"spine{spine}", uplink)
    return made.builder.build([f"generated: leaf-spine of {leaves} x {hosts_per_leaf} hosts"])


def fat_tree(k: int, *, link_gbps: float, delay_us: float = 1.0) -> Fabric:
    """Three tiers of k-port switches, k^3/4 hosts (Al-Fares et al., SIGCOMM 2008).

    Rows come in this order: hosts, edge switches, aggregation switches (pod by pod), cores.

    Raises:
        InputError: k is odd, below 2 or too large, or a rate that is not positive.
    """
    if k < 2 or k % 2:
        raise InputError(f"fabric: k of a fat tree must be even and at least 2, not {k}")
    _check_rates(link_gbps=link_gbps)
    half = k // 2
    _check_ports(3 * 2 * k * half * half)
    made = _Cabling(delay_us)
    made.nodes("h", k * half * half, NodeKind.HOST)
    made.nodes("edge", k * half, NodeKind.SWITCH)
    made.nodes("agg", k * half, NodeKind.SWITCH)
    made.nodes("core", half * half, NodeKind.SWITCH)
    for host in range(k * half * half):
        made.cable(f"h{host}", f"edge{host // half}", link_gbps)
    for pod in range(k):
        for edge in range(half):
            for agg in range(half):
                made.cable(f"edge{pod * half + edge}", f"agg{pod * half + agg}", link_gbps)
        for agg in range(half):
            for core in range(half):
                made.cable(f"agg{pod * half + agg}", f"core{agg * half + core}", link_gbps)
    return made.builder.build([f"generated: fat tree of {k}-port switches"])


class _Cabling:
    """Adds nodes and cables; ports are p0, p1, ... in the order of a node's cables."""

    def __init__(self, delay_us: float) -> None:
        if not 0 <= delay_us < float("inf"):
            raise InputError(f"fabric: delay_us must be 0 or more, not {delay_us:g}")
        self.builder = FabricBuilder()
        self._delay_ns = delay_us * 1e3
        self._ports: dict[str, int] = {}

    def nodes(self, prefix: str, count: int, kind: NodeKind) -> None:
        for number in range(count):
            self.builder.node(f"{prefix}{number}", kind)
            self._ports[f"{prefix}{number}"] = 0

    def cable(self, a: str, b: str, gbps: float) -> None:
        ends = []
        for node in (a, b):
            port = f"p{self._ports[node]}"
            self._ports[node] += 1
            self.builder.port(node, port, speed_gbps=gbps)
            ends.append((node, port))
        self.builder.link(ends[0], ends[1], delay_ns=self._delay_ns)


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"fabric: {name} must be at least 1, not {value}")


def _check_rates(**rates: float) -> None:
    for name, value in rates.items():
        if not 0 < value < float("inf"):
            raise InputError(f"fabric: {name} must be above 0, not {value:g}")


def _check_ports(count: int) -> None:
    if count > MOST_PORTS:
        raise InputError(f"fabric: {count:,} ports are more than {MOST_PORTS:,}")
