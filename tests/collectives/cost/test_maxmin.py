"""Max-min fair rates against hand-worked cases and a plain re-statement; the fluid against exact finishing times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.cost.evaluate import evaluate
from collectives.cost.maxmin import Paths, finish_us, max_min_rates
from nettune.errors import InputError
from topology.draws import DrawnPhase
from topology.placement.mapping import Placement
from topology.routing import Routing
from topology.traffic import transfers


def slow_rates(paths, speed):
    """Progressive filling one link at a time, as a textbook has it."""
    rates = {flow: float("inf") for flow, links in enumerate(paths) if not links}
    free = dict(enumerate(speed))
    while len(rates) < len(paths):
        waiting = [flow for flow in range(len(paths)) if flow not in rates]
        shares = {
            link: left / sum(link in set(paths[flow]) for flow in waiting)
            for link, left in free.items()
            if any(link in paths[flow] for flow in waiting)
        }
        link = min(shares, key=lambda found: shares[found])
        for flow in waiting:
            if link in paths[flow]:
                rates[flow] = shares[link]
                for crossed in paths[flow]:
                    free[crossed] -= shares[link]
    return [rates[flow] for flow in range(len(paths))]


CASES = {
    "one link": ([[0], [0]], [10], [5, 5]),
    "parking lot": ([[0, 1, 2], [0], [1], [2]], [12, 12, 12], [6, 6, 6, 6]),
    "uneven parking lot": ([[0, 1], [0], [1], [1]], [10, 9], [3, 7, 3, 3]),
    "what one leaves the other takes": ([[0, 1], [1]], [2, 10], [2, 8]),
    "no link": ([[], [0]], [4], [np.inf, 4]),
    "no flow": ([], [4], []),
    # Bertsekas and Gallager's shape: a chain of bottlenecks, each freed by the one before
    "chain": ([[0], [0, 1], [1, 2], [2]], [4, 8, 16], [2, 2, 6, 10]),
}


@pytest.mark.parametrize("name", CASES)
def test_rates_by_hand(name):
    """Small cases whose shares can be worked out on paper."""
    paths, speed, expected = CASES[name]

    assert max_min_rates(Paths.of(paths), np.array(speed, float)) == pytest.approx(expected)


@st.composite
def networks(draw):
    """Random links and flows with distinct links each."""
    links = draw(st.integers(1, 7))
    speed = draw(st.lists(st.integers(1, 20), min_size=links, max_size=links))
    flow = st.lists(st.integers(0, links - 1), max_size=links, unique=True)
    return draw(st.lists(flow, max_size=9)), speed


@given(networks())
def test_many_links_at_once_give_the_textbook_rates(network):
    """Filling all final links together changes nothing against filling one by one."""
    paths, speed = network

    ours = max_min_rates(Paths.of(paths), np.array(speed, float))

    assert ours == pytest.approx(slow_rates(paths, [float(value) for value in speed]))


@given(networks())
def test_no_link_is_overfull_and_every_flow_has_a_full_one(network):
    """The definition: each flow crosses a full link on which none is faster."""
    paths, speed = network
    rates = max_min_rates(Paths.of(paths), np.array(speed, float))

    used = [sum(rates[f] for f, links in enumerate(paths) if link in links) for link in range(len(speed))]
    assert all(load <= limit * (1 + 1e-9) for load, limit in zip(used, speed, strict=True))
    for flow, links in enumerate(paths):
        full = [link for link in links if used[link] >= speed[link] * (1 - 1e-9)]
        assert not links or any(
            all(rates[flow] >= rates[other] * (1 - 1e-9) for other, ls in enumerate(paths) if link in ls)
            for link in full
        )


def test_flows_that_end_leave_their_share():
    """1 MB and 3 MB on one link of 8 Gbit/s (1 B/ns): the short one ends at 2 ms, the long one alone at 4 ms."""
    paths = Paths.of([[0], [0]])
    sizes, phases = np.array([1e6, 3e6]), np.array([0, 1])

    _, sent, over = finish_us(paths, sizes, np.array([8.0]), phases, [[], []])

    assert sent == pytest.approx([2000, 4000])
    assert over == pytest.approx([2000, 4000])


def test_phases_wait_and_computation_counts():
    """B waits for A, which sends 1 ms but computes 5; C waits for B; an empty phase takes no time."""
    paths = Paths.of([[0], [0], [0]])
    sizes, phases = np.array([1e6, 1e6, 2e6]), np.array([0, 1, 3])

    begin, sent, over = finish_us(
        paths, sizes, np.array([8.0]), phases, [[], [0], [1], [2]], compute_us=[5000, 0, 0, 1000]
    )

    assert begin == pytest.approx([0, 5000, 6000, 6000])
    assert sent == pytest.approx([1000, 6000, 6000, 8000])
    assert over == pytest.approx([5000, 6000, 6000, 8000])


def test_phases_side_by_side_share_links(fabric_of, phase_of, step_of):
    """Two phases out of one NIC take as long as both together, which max-link cannot see."""
    fabric = fabric_of((4,))
    routing, placement = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, fabric.hosts)
    step = step_of(4, (phase_of([(0, 1)], 1e6, "a"), phase_of([(0, 2)], 1e6, "b")))

    fluid = evaluate(fabric, routing, placement, step, "max-min", draws=2).time_us[1]
    max_link = evaluate(fabric, routing, placement, step, "max-link", draws=2).time_us[1]

    assert fluid == pytest.approx(2 * max_link) == pytest.approx(160)


def test_one_draw_is_the_draw_of_max_link(fabric_of, phase_of, step_of):
    """Method max-min and `drawn_loads` put the same bytes on every link in every draw, with several connections too."""
    fabric = fabric_of((3, 3), spines=3)
    routing, placement = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, fabric.hosts)
    phase = phase_of([(0, 3), (0, 1), (1, 4), (5, 2)], [1e5, 2e5, 3e5, 4e5], connections=3)
    moved = transfers(phase, placement.nic)
    for seed in range(5):
        fluid = evaluate(fabric, routing, placement, step_of(6, (phase,)), "max-min", draws=1, seed=seed)
        drawn = DrawnPhase.of(routing, moved, (seed, 0))
        loads = drawn.forced.copy()
        for _, block in drawn.blocks(1):
            loads[drawn.links] += block[0]
        assert fluid.phases[0].link_bytes == pytest.approx(loads)


def test_a_link_without_speed_is_refused():
    """Zero speed is an unknown speed, and there is no time for it."""
    with pytest.raises(InputError, match="speed is not known"):
        finish_us(Paths.of([[0]]), np.array([1.0]), np.array([0.0]), np.array([0]), [[]])
