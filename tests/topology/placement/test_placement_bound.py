"""The bound over all placements: never above the best of them, and as high as a person would put it on simple fabrics."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.cuts import host_parts, nic_parts
from topology.fabric import NodeKind
from topology.loads import predict
from topology.placement.bound import cut_bound, lower_bound_us
from topology.placement.crossing import crossing_bytes
from topology.placement.mapping import Placement
from topology.placement.problem import Problem
from topology.routing import Routing
from topology.traffic import Phase, transfers

US_PER_MB_AT_01 = 1e6 * 8e-3 / 0.1


@dataclass
class Step:
    """Phases as they are."""

    ranks: int
    phases: tuple[Phase, ...]


def step(ranks, *phases) -> Step:
    """Phases, one after another, each a list of (src, dst, bytes)."""
    made = []
    for number, edges in enumerate(phases):
        src, dst, carried = (np.array(column) for column in zip(*edges, strict=True))
        after = (f"p{number - 1}",) if number else ()
        made.append(Phase(f"p{number}", "p2p", 1.0, src, dst, carried.astype(float), after))
    return Step(ranks, tuple(made))


def bound_of(fabric, traffic, *, per_host=1, hosts=None, scattered=False) -> float:
    """The bound with default hosts."""
    routing = Routing.shortest_paths(fabric)
    return lower_bound_us(Problem(routing, traffic, hosts or fabric.hosts, per_host), scattered=scattered)


@settings(max_examples=40)
@given(
    leaves=st.integers(1, 3),
    hosts=st.integers(1, 2),
    speeds=st.lists(st.sampled_from([0.01, 0.05, 0.1, 0.4]), min_size=2, max_size=2),
    per_host=st.integers(1, 2),
    scattered=st.booleans(),
    edges=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=6),
        min_size=1,
        max_size=2,
    ),
)
def test_no_placement_beats_it(clos, leaves, hosts, speeds, per_host, scattered, edges):
    """Over all ways to put the nodes (or every rank by itself) on the hosts and 5 port draws of each."""
    fabric = clos(leaves, 2, hosts, host_gbps=speeds[0], uplink_gbps=speeds[1])
    slots = [host for host in fabric.hosts for _ in range(per_host)]
    phases = [[(a, b, size * 1e5) for a, b, size in found if a != b] for found in edges]
    phases = [found for found in phases if found]
    ranks = max([2, *(1 + max(a, b) for found in phases for a, b, _ in found)])
    if len(slots) < ranks or not phases:
        return
    traffic = step(ranks, *phases)
    routing = Routing.shortest_paths(fabric)

    bound = lower_bound_us(Problem(routing, traffic, fabric.hosts, per_host), scattered=scattered)

    nodes = -(-ranks // per_host)
    maps = (
        set(itertools.permutations(slots, ranks))
        if scattered
        else [
            [host for host in chosen for _ in range(per_host)][:ranks]
            for chosen in itertools.permutations(fabric.hosts, nodes)
        ]
    )
    best = min(
        predict(routing, Placement.of_hosts(fabric, names), traffic, draws=5).time_us[0] for names in maps
    )
    assert bound <= best * (1 + 1e-9)


def test_the_busiest_rank_gets_the_fastest_nic_and_the_next_the_next(clos):
    """Two ranks that send 1 MB on one fast and three slow hosts: the second has a slow one."""
    builder = FabricBuilder()
    builder.node("leaf", NodeKind.SWITCH)
    for host, speed in enumerate([0.4, 0.1, 0.1, 0.1]):
        builder.node(f"n{host}", NodeKind.HOST)
        builder.port(f"n{host}", "eth0", speed_gbps=speed)
        builder.port("leaf", f"d{host}", speed_gbps=speed)
        builder.link((f"n{host}", "eth0"), ("leaf", f"d{host}"))
    fabric = builder.build()

    assert bound_of(fabric, step(4, [(0, 2, 1e6), (1, 3, 1e6)])) == pytest.approx(US_PER_MB_AT_01)
    assert bound_of(fabric, step(4, [(0, 2, 4e6), (1, 2, 1e6)])) == pytest.approx(1.25 * US_PER_MB_AT_01)


def test_ranks_share_the_nics_of_few_hosts(clos):
    """8 ranks on 4 hosts of one NIC that all send 1 MB to ranks two further: no pair can be spared both ways."""
    fabric = clos(1, 1, 4)
    edges = [(rank, (rank + shift) % 8, 1e6) for rank in range(8) for shift in (2, 3)]

    # Ranks that stand anywhere spare at most one of their two partners: 8 MB at least leave over 4 NICs.
    assert bound_of(fabric, step(8, edges), per_host=2, scattered=True) == pytest.approx(2 * US_PER_MB_AT_01)
    # Ranks 0 and 1 share a host as all launchers have it, and both send all they have to other hosts.
    assert bound_of(fabric, step(8, edges), per_host=2) == pytest.approx(4 * US_PER_MB_AT_01)


def test_a_group_larger_than_a_leaf_must_leave_it(clos):
    """A ring of 4 on leaves of 2 with thin uplinks: one edge at least leaves each; of 2 ranks nothing does."""
    fabric = clos(2, 1, 2, uplink_gbps=0.01)
    ring = [(rank, (rank + 1) % 4, 1e6) for rank in range(4)]

    assert bound_of(fabric, step(4, ring)) == pytest.approx(10 * US_PER_MB_AT_01)
    assert bound_of(fabric, step(2, ring[:1])) == pytest.approx(US_PER_MB_AT_01)


def test_the_fastest_leaves_are_taken():
    """A ring of 4 on three leaves of 2 whose uplinks differ: the second fastest must be left, the slowest need not."""
    builder = FabricBuilder()
    builder.node("spine", NodeKind.SWITCH)
    for leaf, speed in enumerate([0.01, 0.02, 0.04]):
        builder.node(f"leaf{leaf}", NodeKind.SWITCH)
        builder.port(f"leaf{leaf}", "u", speed_gbps=speed)
        builder.port("spine", f"d{leaf}", speed_gbps=speed)
        builder.link((f"leaf{leaf}", "u"), ("spine", f"d{leaf}"))
        for host in (2 * leaf, 2 * leaf + 1):
            builder.node(f"n{host}", NodeKind.HOST)
            builder.port(f"n{host}", "eth0", speed_gbps=0.1)
            builder.port(f"leaf{leaf}", f"d{host}", speed_gbps=0.1)
            builder.link((f"n{host}", "eth0"), (f"leaf{leaf}", f"d{host}"))
    ring = [(rank, (rank + 1) % 4, 1e6) for rank in range(4)]

    assert bound_of(builder.build(), step(4, ring)) == pytest.approx(1e6 * 8e-3 / 0.02)


def test_partners_on_one_host_are_spared(clos):
    """The heaviest partner may share the host; the rest crosses."""
    fabric = clos(1, 1, 4)

    assert bound_of(fabric, step(2, [(0, 1, 1e6)]), per_host=2) == 0
    star = step(4, [(0, 1, 5e6), (0, 2, 1e6), (0, 3, 1e6)])
    assert bound_of(fabric, star, per_host=2) == pytest.approx(2 * US_PER_MB_AT_01)
    late = step(4, [(0, 3, 5e6), (0, 2, 1e6), (0, 1, 1e6)])
    assert bound_of(fabric, late, per_host=2, scattered=True) == pytest.approx(2 * US_PER_MB_AT_01)
    assert bound_of(fabric, late, per_host=2) == pytest.approx(6 * US_PER_MB_AT_01)


def test_what_must_cross_shares_all_uplinks(clos):
    """All-to-all of 4 on leaves of 2: each node has one partner beside it, 8 MB cross over two uplinks."""
    edges = [(a, b, 1e6) for a, b in itertools.permutations(range(4), 2)]

    assert bound_of(clos(2, 1, 2, uplink_gbps=0.05), step(4, edges)) == pytest.approx(8 * US_PER_MB_AT_01)


def test_a_ring_leaves_every_piece_that_it_touches():
    """A ring of 8 on pieces of 2 crosses four times at least, and a chain of 8 half as often by the same argument."""
    node = np.arange(8)
    ring = (node, (node + 1) % 8, np.full(8, 1e6))
    chain = (node[:-1], node[1:], np.full(7, 1e6))

    assert crossing_bytes(*ring, 8, np.full(4, 2)) == pytest.approx(4e6)
    assert crossing_bytes(*chain, 8, np.full(4, 2)) >= 2e6
    assert crossing_bytes(*ring, 8, np.array([8, 1])) == 0


def test_computation_holds_a_phase_up(clos):
    """A phase lasts at least as long as what is computed beside it."""
    fabric = clos(1, 1, 2)
    phase = Phase("a", "p2p", 1.0, np.array([0]), np.array([1]), np.array([1e6]), compute_us=5e6)

    assert bound_of(fabric, Step(2, (phase,))) == pytest.approx(5e6)


def test_unknown_speeds_are_refused(clos):
    """Without a single known NIC there is no bound."""
    with pytest.raises(InputError, match="no NIC's speed"):
        bound_of(clos(1, 1, 2, host_gbps=0.0), step(2, [(0, 1, 1e6)]))


def test_parts_are_nics_then_leaves(clos):
    """Levels, number of parts and speeds of a two-tier fabric; a single leaf has nothing above it to cut."""
    fabric = clos(3, 2, 4, uplink_gbps=0.3)
    for families in (nic_parts(fabric), host_parts(fabric)):
        assert [len(parts.names) for parts in families] == [12, 3]
        assert families[0].out_gbps == pytest.approx([0.1] * 12)
        assert families[1].in_gbps == pytest.approx([0.6] * 3)
        assert families[1].names[0].startswith("switch/leaf0")
    assert [parts.level for parts in nic_parts(clos(1, 0, 2))] == ["nic"]


def test_a_cut_without_cables_is_named(clos):
    """Traffic between leaves that nothing joins."""
    fabric = clos(2, 0, 1)
    src, dst = (np.array([fabric.port_row(name, "eth0")]) for name in ("node1", "node2"))
    moved = transfers(
        Phase("a", "p2p", 1.0, np.array([0]), np.array([1]), np.array([1.0])), np.concatenate([src, dst])
    )
    routing = Routing.shortest_paths(fabric)

    with pytest.raises(InputError, match="switch/leaf0, which has no cable that is up"):
        cut_bound(routing, moved, nic_parts(fabric))
