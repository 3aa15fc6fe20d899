"""Polarization between tiers: what cures it and what does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.ecmp import FAMILIES, HashSpec, choose
from topology.ecmp.polarization import idle_loss, only_seeds_differ, polarized
from topology.ecmp.walk import walked_loads
from topology.routing import Routing

CRC = HashSpec("rtag7-crc16-bisync", 1)
CRCS = [name for name in FAMILIES if "crc" in name and "mixed" not in name]


def reach(fabric, by_tier, low, high):
    """Next hops of 4 that an aggregation switch uses for the flows of one leaf port: the least and the number of cases."""
    routing = by_tier(Routing.shortest_paths(fabric, low), {1: low, 2: high})
    pairs, _ = polarized(routing)
    return {(pair.reached, pair.size) for pair in pairs}, routing


def test_the_known_result_of_two_tiers(three_tiers, by_tier):
    """8 x 4, CRC16-BISYNC: the same hash reaches 1 of 4, another seed still 1 of 4, offset 5 all 4."""
    same, _ = reach(three_tiers, by_tier, CRC, CRC)
    seeded, routing = reach(three_tiers, by_tier, CRC, HashSpec(CRC.family, 0x12345678))
    shifted, _ = reach(three_tiers, by_tier, CRC, HashSpec(CRC.family, 1, offset=5))

    assert same == {(1, 4)}
    assert seeded == {(1, 4)}
    assert shifted == set()
    assert all(only_seeds_differ(routing, pair) for pair in polarized(routing)[0])


@given(family=st.sampled_from(CRCS), seeds=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
def test_no_seed_cures_a_crc_at_powers_of_two(tuples, family, seeds):
    """CRC is linear: after a choice of 8 by one seed, a choice of 4 by any other is decided."""
    flows = tuples(3000, 2, proto=(17,), dport=4791)
    first, second = (
        choose(HashSpec(family, seed), flows, (1,) * fan) for seed, fan in zip(seeds, (8, 4), strict=True)
    )

    assert len(np.unique(first * 4 + second)) == 8


@given(seeds=st.tuples(st.integers(1, 2**31), st.integers(2**31 + 1, 2**32 - 1)))
def test_a_seed_cures_what_is_not_linear(tuples, seeds):
    """Linux and an ideal hash: all 32 pairs of choices occur."""
    flows = tuples(3000, 2, proto=(17,), dport=4791)
    for family in ("linux-multipath-fields", "ideal"):
        first, second = (
            choose(HashSpec(family, seed), flows, (1,) * fan) for seed, fan in zip(seeds, (8, 4), strict=True)
        )
        assert len(np.unique(first * 4 + second)) == 32


def test_the_loss_is_that_of_the_links(three_tiers, by_tier, roce_flows):
    """Of 32 core uplinks of a pod 8 carry everything; as they were wider than the leaves' by half, a quarter is lost.

    Uniform traffic of a leaf's n flows: n / 8 on each of its uplinks, the busiest if all were used; on the 8 core uplinks
    the 2/3 of both leaves' flows that leave the pod, n / 6.
    """
    _, routing = reach(three_tiers, by_tier, CRC, CRC)

    loss = idle_loss(routing)

    assert loss == pytest.approx(0.25, abs=0.04)
    nics = [three_tiers.port_row(host, "eth0") for host in three_tiers.hosts]
    generator = np.random.default_rng(1)
    source, target = generator.choice(nics[:8], 20_000), generator.choice(nics[8:], 20_000)
    flows = roce_flows(source, target, sport=generator.integers(49152, 65536, 20_000))
    loads = walked_loads(routing, flows, np.ones(20_000))[0]
    up = [
        three_tiers.out_of_port[three_tiers.port_row(f"agg0{agg}", f"u{n}")]
        for agg in range(8)
        for n in range(4)
    ]
    assert np.count_nonzero(loads[up]) == 8


def test_other_offsets_lose_nothing(three_tiers, by_tier):
    """Below what drawing flows leaves uncertain."""
    _, routing = reach(three_tiers, by_tier, CRC, HashSpec(CRC.family, 1, offset=5))

    assert idle_loss(routing) < 0.05


def test_dependent_choices_need_not_cost_anything(clos):
    """Parallel cables, modulo: each leaf port uses one cable down, but together all are used."""
    routing = Routing.shortest_paths(clos(4, 2, 4, parallel=2), CRC)

    assert {(pair.reached, pair.size) for pair in polarized(routing)[0]} == {(1, 2)}
    assert idle_loss(routing) < 0.05
