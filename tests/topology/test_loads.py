"""Predicted loads and times."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp import HashSpec
from topology.loads import drawn_loads, exact_loads, expected_loads, link_loads, predict
from topology.placement.mapping import Placement
from topology.results import NetworkResult, PhaseResult
from topology.routing import FlowKey, Routing
from topology.traffic import Phase, transfers


@dataclass
class Traffic:
    """Phases as they are."""

    ranks: int
    phases: tuple[Phase, ...]


def phase(pairs, size=1e6, name="p", after=(), connections=1) -> Phase:
    """Every pair sends the same bytes."""
    src, dst = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return Phase(name, "p2p", size, src, dst, np.full(len(pairs), float(size)), after, connections)


def ring(ranks, **kwargs) -> Phase:
    """Every rank sends to the next."""
    return phase([(rank, (rank + 1) % ranks) for rank in range(ranks)], **kwargs)


@given(st.permutations(range(8)), st.integers(1, 4))
def test_the_mean_of_the_draws_is_the_expectation(clos, order, connections):
    """Monte Carlo over port draws agrees with the exact mean on every link."""
    fabric = clos()
    routing = Routing.shortest_paths(fabric)
    ports = np.array([fabric.port_row(f"node{host + 1}", "eth0") for host in order])
    moved = transfers(ring(8, connections=connections), ports)

    drawn = drawn_loads(routing, moved, 1500, seed=1)

    assert drawn.mean(axis=0) == pytest.approx(expected_loads(routing, moved), abs=0.08e6)
    assert drawn.sum(axis=1) == pytest.approx(drawn.sum(axis=1)[0])  # equal path lengths: no byte is lost


def test_two_flows_collide_half_of_the_time(clos):
    """Two flows of a leaf over two spines share an uplink in half of the draws: 1 - 1/2."""
    fabric = clos(2, 2, 2)
    routing = Routing.shortest_paths(fabric)
    placement = Placement.of_hosts(fabric, ["node1", "node2", "node3", "node4"])
    moved = transfers(phase([(0, 2), (1, 3)]), placement.nic)
    up = [fabric.out_of_port[fabric.port_row("leaf0", name)] for name in ("u0", "u1")]

    busiest = drawn_loads(routing, moved, 4000, seed=2)[:, up].max(axis=1)

    assert np.mean(busiest == 2e6) == pytest.approx(0.5, abs=0.03)


def test_exact_loads_follow_the_hash(clos):
    """With known ports each flow's bytes are on the links of its path and nowhere else."""
    fabric = clos()
    routing = Routing.shortest_paths(fabric, HashSpec("linux-multipath", 5))
    flow = FlowKey(fabric.port_row("node1", "eth0"), fabric.port_row("node8", "eth0"), 6, 40000, 29500)

    loads = exact_loads(routing, [flow, flow], [10.0, 5.0])

    assert sorted(np.flatnonzero(loads)) == sorted(routing.path(flow))
    assert set(loads[loads > 0]) == {15.0}


def test_time_is_bytes_over_speed(clos):
    """A ring of neighbours on 0.1 Gbit/s: 1 MB needs 80 ms, whatever the draws."""
    fabric = clos()
    placement = Placement.of_hosts(fabric, list(fabric.hosts))

    result = predict(Routing.shortest_paths(fabric), placement, Traffic(8, (ring(8),)), draws=20)

    assert result.time_us == pytest.approx((80e3, 80e3, 80e3))
    assert result.method == "max-link"


def test_phases_follow_their_order(clos):
    """Phases that wait add up; phases side by side last as long as the longer."""
    fabric = clos(1, 1, 4)
    routing, placement = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, list(fabric.hosts))
    first, second = phase([(0, 1)], name="a"), phase([(2, 3)], size=3e6, name="b")
    chained = phase([(2, 3)], size=3e6, name="b", after=("a",))

    together = predict(routing, placement, Traffic(4, (first, second)), draws=3).time_us[1]
    after = predict(routing, placement, Traffic(4, (first, chained)), draws=3).time_us[1]

    assert together == pytest.approx(240e3)
    assert after == pytest.approx(320e3)


def test_ranks_of_one_host_load_no_link(clos):
    """What stays inside a host does not cross the network."""
    fabric = clos()
    placement = Placement.of_hosts(fabric, ["node1", "node1"])

    result = predict(Routing.shortest_paths(fabric), placement, Traffic(2, (phase([(0, 1)]),)), draws=3)

    assert result.link_bytes.sum() == 0
    assert result.time_us == (0, 0, 0)


def test_a_link_without_a_speed_is_named(clos):
    """Time cannot be told for a link of unknown speed."""
    fabric = clos(uplink_gbps=0.0)
    placement = Placement.of_hosts(fabric, ["node1", "node8"])

    with pytest.raises(InputError, match=r"link leaf\d:u\d > spine\d"):
        predict(Routing.shortest_paths(fabric), placement, Traffic(2, (phase([(0, 1)]),)), draws=3)


def test_a_result_survives_json():
    """to_json and from_json are inverse, through text."""
    result = NetworkResult(
        "measured",
        (PhaseResult("a", (1.0, 2.0, 3.0), np.array([0.0, 5.0]), {"ecn_marks": 3.0}),),
        (1.0, 2.0, 3.0),
    )

    again = NetworkResult.from_json(json.loads(json.dumps(result.to_json())))

    assert again.to_json() == result.to_json()


@pytest.mark.parametrize(
    "damage", [{"schema": "x"}, {"method": "guess"}, {"time_us": [1]}, {"phases": [1]}, {"phases": None}]
)
def test_other_json_is_no_result(damage):
    """Wrong schema, method or shape are InputErrors."""
    data = NetworkResult(
        "bound", (PhaseResult("a", (1.0, 2.0, 3.0), np.zeros(2)),), (1.0, 2.0, 3.0)
    ).to_json()

    with pytest.raises(InputError):
        NetworkResult.from_json(data | damage)


def test_bad_phases_are_refused():
    """Edges to oneself, negative bytes and columns of unequal length are InputErrors."""
    for pairs, size in (([(0, 0)], 1.0), ([(0, -1)], 1.0), ([(0, 1)], -1.0)):
        with pytest.raises(InputError):
            phase(pairs, size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge_bytes": np.array([np.nan])}, "negative or no number"),
        ({"edge_bytes": np.array([np.inf])}, "negative or no number"),
        ({"compute_us": np.nan}, "negative or no number"),
        ({"connections": 1.5}, "whole numbers of 1 or more"),
        ({"repeats": 0}, "whole numbers of 1 or more"),
        ({"src": [0]}, "arrays of integers"),
        ({"dst": np.array([1.0])}, "arrays of integers"),
    ],
)
def test_phases_of_no_numbers_are_refused(options, message):
    """Lists, floats as ranks, bytes that are not finite: one line, before anything is counted."""
    columns = {"src": np.array([0]), "dst": np.array([1]), "edge_bytes": np.array([1.0])}
    with pytest.raises(InputError, match=message):
        Phase("p", "p2p", 1.0, **(columns | options))


def test_loads_of_nothing_are_refused(clos):
    """No draw, bytes for other flows, background that is negative or no number."""
    fabric = clos(2, 2, 2)
    routing = Routing.shortest_paths(fabric)
    placement = Placement.of_hosts(fabric, fabric.hosts)
    moved = transfers(phase([(0, 1)]), placement.nic)
    step = Traffic(placement.ranks, (phase([(0, 1)]),))
    for draws in (0, -1):
        with pytest.raises(InputError, match="at least one draw"):
            drawn_loads(routing, moved, draws)
        with pytest.raises(InputError, match="at least one draw"):
            link_loads(routing, [moved], draws=draws)
    with pytest.raises(InputError, match="0 flows, but bytes of 1"):
        exact_loads(routing, [], [1.0])
    for wrong in (-1.0, np.nan):
        with pytest.raises(InputError, match="background: bytes are negative"):
            predict(routing, placement, step, background=np.full(fabric.directed_count, wrong))
