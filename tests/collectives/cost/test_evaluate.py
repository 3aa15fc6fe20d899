"""What every method of `evaluate` must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.cost.evaluate import METHODS, evaluate
from nettune.errors import InputError
from topology.loads import expected_loads
from topology.placement.mapping import Placement
from topology.routing import Routing
from topology.traffic import transfers

SLACK = 1 - 1e-9


@st.composite
def cases(draw):
    """A random fabric, placement and step of up to three phases."""
    leaves = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    speeds = draw(st.lists(st.sampled_from([25.0, 100.0, 400.0]), min_size=4, max_size=4))
    hosts = sum(leaves)
    ranks = draw(st.integers(2, 2 * hosts))
    order = draw(st.permutations([host % hosts for host in range(ranks)]))
    pair = st.tuples(st.integers(0, ranks - 1), st.integers(0, ranks - 1)).filter(
        lambda ends: ends[0] != ends[1]
    )
    phases = draw(st.lists(st.lists(pair, min_size=1, max_size=8), min_size=1, max_size=3))
    chained = draw(st.booleans())
    rails, domain = draw(st.sampled_from([(1, 0), (2, 0), (1, 2)]))
    shape = {"spines": draw(st.integers(1, 3)), "rails": rails, "domain": domain}
    return leaves, speeds, order, phases, chained, draw(st.integers(1, 2)), shape


@settings(max_examples=40)
@given(cases())
def test_methods_are_in_order_and_repeat_themselves(fabric_of, phase_of, step_of, case):
    """Bound <= max-link <= max-min for each phase and the step; one seed gives the same draws to all methods, each time."""
    leaves, speeds, order, pairs, chained, connections, shape = case
    fabric = fabric_of(
        leaves,
        host_gbps=lambda host: speeds[host % 4],
        uplink_gbps=lambda leaf, spine: speeds[(leaf + spine) % 4],
        **shape,
    )
    routing = Routing.shortest_paths(fabric)
    placement = Placement.of_hosts(fabric, [f"h{host}" for host in order])
    phases = tuple(
        phase_of(
            edges,
            [1e5 * (1 + n) for n in range(len(edges))],
            f"p{number}",
            (f"p{number - 1}",) if chained and number else (),
            connections=connections,
            compute_us=7.0 * number,
        )
        for number, edges in enumerate(pairs)
    )
    step = step_of(len(order), phases)

    found = {name: evaluate(fabric, routing, placement, step, name, draws=6, seed=1) for name in METHODS}

    for name, result in found.items():
        assert result.method == name
        assert evaluate(fabric, routing, placement, step, name, draws=6, seed=1).to_json() == result.to_json()
    for low, high in (("bound", "max-link"), ("max-link", "max-min")):
        assert np.all(np.array(found[high].time_us) >= np.array(found[low].time_us) * SLACK)
        for least, got in zip(found[low].phases, found[high].phases, strict=True):
            assert np.all(np.array(got.time_us) >= np.array(least.time_us) * SLACK)
    for one, other in zip(found["max-link"].phases, found["max-min"].phases, strict=True):
        assert one.link_bytes == pytest.approx(other.link_bytes)


def test_bytes_of_the_fluid_are_the_expected_ones(fabric_of, phase_of, step_of):
    """Over many draws the mean load of each link is that of an ideal hash; the bound has the NICs' alone."""
    fabric = fabric_of((2, 2), spines=3)
    routing, placement = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, fabric.hosts)
    phase = phase_of([(0, 2), (1, 3), (3, 0)])
    expected = expected_loads(routing, transfers(phase, placement.nic))

    fluid = evaluate(fabric, routing, placement, step_of(4, (phase,)), "max-min", draws=800)
    least = evaluate(fabric, routing, placement, step_of(4, (phase,)), "bound")

    assert fluid.link_bytes == pytest.approx(expected, abs=0.1e6)
    known = least.link_bytes > 0
    assert least.link_bytes[known] == pytest.approx(expected[known])
    assert known.sum() == 6


def test_bad_questions_are_refused(fabric_of, phase_of, step_of):
    """Unknown methods, another fabric's routing, another job's placement."""
    fabric, other = fabric_of((2,)), fabric_of((2,))
    routing, placement = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, fabric.hosts)
    step = step_of(2, (phase_of([(0, 1)]),))

    with pytest.raises(InputError, match="known: bound, max-link, max-min"):
        evaluate(fabric, routing, placement, step, "guess")
    with pytest.raises(InputError, match="another fabric"):
        evaluate(other, routing, placement, step)
    for method in METHODS:
        with pytest.raises(InputError, match="2 ranks, the job 3"):
            evaluate(fabric, routing, placement, step_of(3, step.phases), method)
        for phases, message in (
            ([phase_of([(0, 1)], after=("q",))], "what it comes after must stand before it"),
            ([phase_of([(0, 1)]), phase_of([(1, 0)])], "names must differ"),
            ([phase_of([(0, 2)])], "an edge names a rank that is not one of 0..1"),
        ):
            with pytest.raises(InputError, match=f"phase .p.: .*{message}"):
                evaluate(fabric, routing, placement, step_of(2, tuple(phases)), method)
    for method in ("max-link", "max-min"):
        with pytest.raises(InputError, match="at least one draw, not 0"):
            evaluate(fabric, routing, placement, step, method, draws=0)
