"""Generated fabrics: counts, cables, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from nettune.errors import InputError
from topology.fabric import NodeKind
from topology.generators import fat_tree, leaf_spine
from topology.routing import Routing


def test_leaf_spine_has_every_cable() -> None:
    """4 leaves x 4 hosts, 2 spines, 2 cables each: 16 + 16 cables; hosts come first."""
    fabric = leaf_spine(4, 2, 4, host_gbps=100, uplink_gbps=400, parallel=2, delay_us=1.5)
    assert (len(fabric.hosts), len(fabric.switches), len(fabric.links.port_a)) == (16, 6, 32)
    assert fabric.hosts[5] == fabric.nodes.name[5] == "h5"
    assert set(fabric.directed_gbps.tolist()) == {100, 400}
    assert (fabric.links.delay_ns == 1500).all()


def test_one_leaf_needs_no_spine() -> None:
    """A single switch is the smallest fabric."""
    fabric = leaf_spine(1, 0, 17, host_gbps=100)
    assert (len(fabric.hosts), fabric.switches) == (17, ("leaf0",))


def test_fat_tree_of_8_ports() -> None:
    """128 hosts, 32 + 32 + 16 switches of 8 ports each, 16 equal paths between pods."""
    fabric = fat_tree(8, link_gbps=100)
    ports = np.bincount(fabric.ports.node, minlength=len(fabric.nodes.name))
    assert (len(fabric.hosts), len(fabric.switches)) == (128, 80)
    assert (ports[fabric.nodes.kind == NodeKind.SWITCH] == 8).all()
    routing = Routing.shortest_paths(fabric)
    ends = fabric.nics("h0")[0], fabric.nics("h127")[0]
    assert len(routing.alternatives(*ends)) == 16


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: leaf_spine(2, 0, 1, host_gbps=1), "2 leaves need at least one spine"),
        (lambda: leaf_spine(0, 1, 1, host_gbps=1), "leaves must be at least 1"),
        (lambda: leaf_spine(1, 1, 1, host_gbps=0), "host_gbps must be above 0"),
        (lambda: leaf_spine(1000, 1000, 1000, host_gbps=1), "ports are more than"),
        (lambda: leaf_spine(1, 1, 1, host_gbps=1, delay_us=-1), "delay_us must be 0 or more"),
        (lambda: fat_tree(3, link_gbps=1), "must be even"),
        (lambda: fat_tree(1000, link_gbps=1), "ports are more than"),
    ],
)
def test_impossible_sizes_are_refused(make: object, message: str) -> None:
    """No host, no rate, an odd k, a fabric beyond memory: one line each."""
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator] # a lambda of the table above
