"""Prices of maps that differ in a few ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.loads import predict
from topology.placement.mapping import Placement
from topology.placement.pricing import Prices
from topology.placement.problem import Problem
from topology.routing import Routing
from topology.traffic import Phase


class Traffic:
    """Three phases between ranks chosen at random, two of them side by side."""

    def __init__(self, ranks, generator):
        self.ranks = ranks
        self.phases = []
        for number, after in enumerate([(), ("0",), ("0",)]):
            src = generator.integers(0, ranks, 12)
            dst = (src + generator.integers(1, ranks, 12)) % ranks
            size = generator.random(12) * 1e6
            self.phases.append(Phase(str(number), "p2p", 1.0, src, dst, size, after, connections=number + 1))


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), per_host=st.integers(1, 2), others=st.booleans())
def test_the_price_is_what_predict_says(clos, seed, per_host, others):
    """After any accepted and refused swaps, with and without other jobs' bytes."""
    generator = np.random.default_rng(seed)
    fabric = clos(4, 2, 2, parallel=2)
    routing = Routing.shortest_paths(fabric)
    background = generator.random(fabric.directed_count) * 1e6 if others else None
    traffic = Traffic(8 * per_host, generator)
    problem = Problem(routing, traffic, fabric.hosts, per_host, draws=30, seed=3, background=background)
    prices = Prices(problem)
    hosts = np.arange(8)
    for step in range(6):
        trial = hosts.copy()
        if step:
            a, b = generator.integers(0, len(hosts), 2)
            trial[[a, b]] = trial[[b, a]]

        price = prices.price(trial)

        slots = problem.slots[trial, 0]
        names = [problem.hosts[host] for host in slots for _ in range(per_host)]
        placement = Placement.of_hosts(fabric, names)
        result = predict(routing, placement, problem.traffic, draws=30, seed=3, background=background)
        assert price.time_us == pytest.approx(result.time_us[2])
        assert price.hop_bytes == pytest.approx(result.link_bytes.sum())
        if step % 2 == 0:
            prices.accept()
            hosts = trial


def test_nothing_is_left_where_nobody_is(clos):
    """After many moves over spare hosts rounding leaves no bytes on their links, which would meet other jobs' bytes."""
    generator = np.random.default_rng(5)
    fabric = clos(4, 2, 2)
    routing = Routing.shortest_paths(fabric)
    background = np.zeros(fabric.directed_count)
    problem = Problem(routing, Traffic(4, generator), fabric.hosts, draws=5, background=background)
    prices = Prices(problem)
    for _ in range(60):
        trial = generator.permutation(8)[:4]
        prices.price(trial)
        prices.accept()
    empty = [
        fabric.out_of_port[problem.port_of_place[slot, 0]] for slot in set(range(8)) - set(trial.tolist())
    ]

    assert all(
        state.forced[link] == state.forced[link ^ 1] == 0 for state in prices._states for link in empty
    )
