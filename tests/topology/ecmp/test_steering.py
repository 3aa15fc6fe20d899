"""Source ports that spread flows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp import HashSpec
from topology.ecmp.steer import steer
from topology.ecmp.walk import walked_loads
from topology.routing import Routing, UnknownPathError

SPECS = [
    HashSpec("rtag7-crc16-bisync", 3),
    HashSpec("rtag7-xor16", 3),
    HashSpec("linux-multipath-fields", 3),
    HashSpec("crc32c", 3, selection="threshold"),
]


def between_leaves(fabric, count):
    """Port rows of the first `count` hosts, and of as many at the end."""
    nics = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    return nics[:count], nics[-count:]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.family)
@pytest.mark.parametrize(
    ("flows", "uplinks", "random"),
    [(8, 2, 0.786), (8, 4, 0.565), (8, 8, 0.385), (32, 8, 0.569), (32, 32, 0.282)],
)
def test_chosen_ports_are_ideal_where_random_ones_are_not(clos, roce_flows, spec, flows, uplinks, random):
    """At least 90% of the cut bound; random ports give what random ECMP is known for."""
    fabric = clos(2, uplinks, flows, host_gbps=100.0, uplink_gbps=0.1)
    asked = roce_flows(*between_leaves(fabric, flows))

    found = steer(Routing.shortest_paths(fabric, spec), asked, np.ones(flows), draws=200)

    assert found.efficiency >= 0.9
    assert found.unsteered_efficiency == pytest.approx(
        random, rel=0.15 if spec.family == "rtag7-xor16" else 0.08
    )
    assert np.array_equal(
        found.loads,
        walked_loads(Routing.shortest_paths(fabric, spec), replace(asked, sport=found.sport), np.ones(flows))[
            0
        ],
    )


@pytest.mark.parametrize("uplinks", [2, 4])
def test_flows_of_unequal_size_and_two_choices(clos, roce_flows, uplinks):
    """Elephants among mice, parallel cables, every leaf to every other: 90% of the bound."""
    fabric = clos(4, uplinks // 2, 8, parallel=2, host_gbps=100.0)
    routing = Routing.shortest_paths(fabric, HashSpec("rtag7-crc16-bisync", 3))
    routing = replace(
        routing, hashes={node: replace(spec, offset=node % 8) for node, spec in routing.hashes.items()}
    )
    nics = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    source, target = (
        np.repeat(nics, 4),
        np.concatenate([np.roll(nics, 8 * (1 + step % 3)) for step in range(4)]),
    )
    generator = np.random.default_rng(1)
    bytes_ = generator.choice([1.0, 2.0, 5.0], len(source))

    found = steer(routing, roce_flows(source, target), bytes_)

    assert found.efficiency >= 0.9 > found.unsteered_efficiency


def test_flows_leave_the_busiest_link_where_few_ports_are_tried(clos, roce_flows, monkeypatch):
    """With three ports a flow the first choice is often bad: moving flows afterwards helps, and never harms."""
    fabric = clos(4, 4, 8, parallel=2, host_gbps=100.0)
    nics = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    flows = roce_flows(np.repeat(nics, 2), np.concatenate([np.roll(nics, 8), np.roll(nics, 16)]))
    plain = Routing.shortest_paths(fabric, HashSpec("ideal"))

    def efficiency(seed):
        hashes = {node: HashSpec("ideal", 100 * seed + node) for node in plain.hashes}
        return steer(
            replace(plain, hashes=hashes), flows, np.ones(len(nics) * 2), tried=3, draws=1, seed=seed
        ).efficiency

    moved = np.array([efficiency(seed) for seed in range(6)])
    monkeypatch.setattr("topology.ecmp.steer._MOVES_PER_FLOW", 0)
    first = np.array([efficiency(seed) for seed in range(6)])

    assert np.all(moved >= first)
    assert moved.mean() > first.mean()


@given(seed=st.integers(0, 10**6), ports=st.integers(6, 40))
def test_only_offered_ports_are_used_and_none_twice(clos, roce_flows, seed, ports):
    """Flows of one tuple get different ports out of those offered; the bound is never beaten."""
    fabric = clos(2, 3, 2)
    routing = Routing.shortest_paths(fabric, HashSpec("crc16", 3))
    (source, *_), (target, *_) = between_leaves(fabric, 2)
    offered = np.random.default_rng(seed).choice(2**16, ports, replace=False).tolist()

    found = steer(
        routing, roce_flows([source] * 6, [target] * 6), np.ones(6), ports=offered, draws=3, seed=seed
    )

    assert len(set(found.sport.tolist())) == 6
    assert set(found.sport.tolist()) <= set(offered)
    assert found.busiest_us >= found.bound_us * (1 - 1e-9)


def test_what_cannot_be_steered_is_said(clos, roce_flows):
    """Fewer ports than flows of one tuple; a hash that is not known; no flows at all is no work."""
    fabric = clos(2, 2, 2)
    source, target = between_leaves(fabric, 1)
    known = Routing.shortest_paths(fabric, HashSpec("crc16"))

    with pytest.raises(InputError, match="2 flows between the same two NICs"):
        steer(known, roce_flows(np.repeat(source, 2), np.repeat(target, 2)), np.ones(2), ports=[50000])
    with pytest.raises(UnknownPathError, match="hash of leaf0"):
        steer(Routing.shortest_paths(fabric), roce_flows(source, target), np.ones(1))
    assert steer(known, roce_flows(source[:0], target[:0]), np.ones(0)).efficiency == 1.0
