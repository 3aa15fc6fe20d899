"""Loads of many transfers at once: the same as one transfer after another, and what random ECMP is known to lose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.fabric import LinkState, NodeKind
from topology.loads import drawn_loads, exact_loads, expected_loads, job_loads, link_loads, predict
from topology.placement.mapping import Placement
from topology.routing import NextHops, Routing, UnknownPathError
from topology.traffic import Phase, Transfers, merged, transfers


def plain_expected(routing, moved):
    """Mean bytes, one transfer after another."""
    loads = np.zeros(routing.fabric.directed_count)
    for src, dst, carried in zip(moved.src_port, moved.dst_port, moved.bytes_, strict=True):
        for link, probability in routing.spread(int(src), int(dst)).items():
            loads[link] += probability * carried
    return loads


def plain_drawn(routing, moved, draws, seed):
    """Bytes of each draw, one transfer after another: a path by the cumulative probabilities of all of them."""
    loads = np.zeros((draws, routing.fabric.directed_count))
    connections = int(moved.connection.max()) + 1
    count = (int(moved.edge.max()) + 1) * connections
    # The layout of the random numbers, restated: a stream for each draw, a number for each edge and connection in turn.
    uniform = np.array([np.random.default_rng((seed, draw)).random(count) for draw in range(draws)])
    for row in range(len(moved.edge)):
        paths = routing.alternatives(int(moved.src_port[row]), int(moved.dst_port[row]))
        steps = np.cumsum([probability for probability, _ in paths])
        number = uniform[:, moved.edge[row] * connections + moved.connection[row]]
        picked = np.minimum(np.searchsorted(steps, number, side="right"), len(paths) - 1)
        for draw in range(draws):
            loads[draw, list(paths[picked[draw]][1])] += moved.bytes_[row]
    return loads


def three_tiers(generator):
    """Pods of leaves and spines under cores, with missing and dead cables, hosts with one to three NICs."""
    builder = FabricBuilder()
    pods, leaves, spines, cores = (int(generator.integers(1, 4)) for _ in range(4))

    def cable(one, other, *, up=True):
        names = [f"p{next(count)}" for count in (numbers, numbers)]
        for node, name in zip((one, other), names, strict=True):
            builder.port(node, name, speed_gbps=100, rail=0 if node.startswith("h") else -1)
        builder.link((one, names[0]), (other, names[1]), state=LinkState.UP if up else LinkState.DOWN)

    numbers = iter(range(10_000))
    hosts = 0
    for core in range(cores):
        builder.node(f"core{core}", NodeKind.SWITCH)
    for pod in range(pods):
        for spine in range(spines):
            builder.node(f"spine{pod}-{spine}", NodeKind.SWITCH)
            for core in range(cores):
                cable(f"spine{pod}-{spine}", f"core{core}", up=core == 0 or generator.random() > 0.2)
        for leaf in range(leaves):
            builder.node(f"leaf{pod}-{leaf}", NodeKind.SWITCH)
            for spine in range(spines):
                for _ in range(int(generator.integers(1, 3))):
                    cable(f"leaf{pod}-{leaf}", f"spine{pod}-{spine}")
            for _ in range(int(generator.integers(1, 3))):
                builder.node(f"h{hosts}", NodeKind.HOST)
                for _ in range(int(generator.integers(1, 4))):
                    cable(f"h{hosts}", f"leaf{pod}-{leaf}")
                hosts += 1
    return builder.build()


def weighted(routing, generator):
    """The same next hops with weights of 1 to 3."""
    table = {
        key: NextHops(hops.links, tuple(int(generator.integers(1, 4)) for _ in hops.links))
        for key, hops in routing.table.items()
    }
    return Routing(routing.fabric, routing.group, table)


def some_transfers(fabric, generator, edges):
    """Edges between NICs chosen at random, each with the same number of connections."""
    nics = np.flatnonzero(fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST)
    connections = int(generator.integers(1, 4))
    edge = np.repeat(np.arange(edges), connections)
    src, dst = (generator.choice(nics, edges)[edge] for _ in range(2))
    return Transfers(
        src, dst, generator.random(edges)[edge] + 0.1, edge, np.tile(np.arange(connections), edges)
    )


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), edges=st.integers(1, 20), weights=st.booleans())
def test_vectorised_loads_equal_the_plain_ones(seed, edges, weights):
    """On random fabrics, with dead cables, weights and several connections: every link, every draw."""
    generator = np.random.default_rng(seed)
    routing = Routing.shortest_paths(three_tiers(generator))
    if weights:
        routing = weighted(routing, generator)
    moved = some_transfers(routing.fabric, generator, edges)

    assert expected_loads(routing, moved) == pytest.approx(plain_expected(routing, moved), abs=1e-12)
    assert np.allclose(drawn_loads(routing, moved, 7, seed), plain_drawn(routing, moved, 7, seed), atol=1e-12)


def test_the_draws_do_not_depend_on_the_blocks(clos, monkeypatch):
    """Few draws at a time give the same loads as all at once, and more draws start with the same ones."""
    routing = Routing.shortest_paths(clos(4, 4, 4))
    moved = some_transfers(routing.fabric, np.random.default_rng(1), 60)
    whole = drawn_loads(routing, moved, 30, 5)

    monkeypatch.setattr("topology.draws._BLOCK", 100)
    monkeypatch.setattr("topology.draws._KEPT", 0)

    assert np.array_equal(drawn_loads(routing, moved, 30, 5), whole)
    assert np.array_equal(drawn_loads(routing, moved, 9, 5), whole[:9])


@given(seed=st.integers(0, 10**6))
def test_no_byte_is_lost(seed):
    """Every NIC sends and receives its bytes, and every switch lets out what comes in."""
    generator = np.random.default_rng(seed)
    fabric = three_tiers(generator)
    routing, moved = Routing.shortest_paths(fabric), some_transfers(fabric, generator, 12)
    away = fabric.ports.node[moved.src_port] != fabric.ports.node[moved.dst_port]
    balance = np.zeros(len(fabric.nodes.name))
    np.add.at(balance, fabric.ports.node[moved.dst_port[away]], moved.bytes_[away])
    np.add.at(balance, fabric.ports.node[moved.src_port[away]], -moved.bytes_[away])

    for loads in (expected_loads(routing, moved), drawn_loads(routing, moved, 3)[2]):
        found = np.zeros(len(fabric.nodes.name))
        np.add.at(found, fabric.ports.node[fabric.directed_ports[:, 1]], loads)
        np.add.at(found, fabric.ports.node[fabric.directed_ports[:, 0]], -loads)
        assert found == pytest.approx(balance, abs=1e-9)


@pytest.mark.parametrize(
    ("flows", "uplinks", "efficiency"),
    [(8, 8, 0.385), (16, 8, 0.478), (32, 8, 0.569), (32, 32, 0.282), (128, 32, 0.462), (256, 32, 0.557)],
)
def test_random_ecmp_loses_what_is_known(clos, flows, uplinks, efficiency):
    """Mean load over the mean of the busiest uplink's, 4000 port draws: known values, within five standard errors."""
    fabric = clos(2, uplinks, flows)
    routing = Routing.shortest_paths(fabric)
    ports = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    edge = np.arange(flows)
    moved = Transfers(ports[:flows], ports[flows:], np.ones(flows), edge, np.zeros_like(edge))
    up = [fabric.out_of_port[fabric.port_row("leaf0", f"u{number}")] for number in range(uplinks)]

    busiest = drawn_loads(routing, moved, 4000, 3)[:, up].max(axis=1)

    found = flows / uplinks / busiest.mean()
    # The known values have three digits and come from 4000 trials themselves.
    error = 5 * found * busiest.std() / busiest.mean() * np.sqrt(2 / 4000) + 5e-4
    assert found == pytest.approx(efficiency, abs=error)


def pairs(*ends, size=1e6, **options):
    """One phase of transfers."""
    src, dst = (np.array(column) for column in zip(*ends, strict=True))
    return Phase("p", "p2p", size, src, dst, np.full(len(ends), float(size)), **options)


class Step:
    """A step of one phase."""

    def __init__(self, ranks, *phases):
        self.ranks, self.phases = ranks, phases


def test_background_is_added_to_every_kind_of_load(clos):
    """Other jobs' bytes are on the links that they use, whatever the method."""
    fabric = clos()
    routing, other = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, ["node1", "node2"])
    background = job_loads(
        routing, [(Step(2, pairs((0, 1))), other), (Step(2, pairs((0, 1), size=3.0)), other)]
    )
    moved = transfers(pairs((0, 1)), Placement.of_hosts(fabric, ["node3", "node4"]).nic)
    alone = expected_loads(routing, moved)

    assert background.sum() == pytest.approx(2 * (1e6 + 3))
    assert np.allclose(expected_loads(routing, moved, background=background), alone + background)
    assert np.allclose(drawn_loads(routing, moved, 2, background=background), alone + background)
    assert np.allclose(link_loads(routing, [moved], draws=3, background=background).p95, alone + background)
    assert np.array_equal(exact_loads(routing, [], [], background=background), background)
    with pytest.raises(InputError, match="background"):
        expected_loads(routing, moved, background=np.zeros(3))
    with pytest.raises(InputError, match="2 ranks"):
        job_loads(routing, [(Step(3), other)])


def test_background_slows_only_what_shares_a_link(clos):
    """As many foreign bytes on the same cable double the time, shared over the phases; elsewhere they cost nothing."""
    fabric = clos(1, 1, 4)
    routing = Routing.shortest_paths(fabric)
    here, there = (Placement.of_hosts(fabric, list(fabric.hosts[at : at + 2])) for at in (0, 2))
    step = Step(2, pairs((0, 1)), replace(pairs((0, 1)), name="q", after=("p",)))
    same, elsewhere = (job_loads(routing, [(step, one)]) for one in (here, there))

    alone = predict(routing, here, step, draws=2)

    assert predict(routing, here, step, draws=2, background=elsewhere).time_us == alone.time_us
    slowed = predict(routing, here, step, draws=2, background=same)
    assert slowed.time_us == pytest.approx(tuple(2 * time for time in alone.time_us))
    assert np.array_equal(slowed.link_bytes, alone.link_bytes)


def test_percentiles_of_links_are_those_of_the_draws(clos):
    """Mean, median and p95 of two phases together, against numpy on the draws themselves."""
    routing = Routing.shortest_paths(clos(4, 2, 4))
    generator = np.random.default_rng(4)
    phases = [some_transfers(routing.fabric, generator, 30) for _ in range(2)]

    found = link_loads(routing, phases[:1], draws=40, seed=2)

    assert np.all(found.p50 <= found.p95 + 1e-9)
    both = link_loads(routing, phases, draws=400, seed=2)
    means = np.sum([expected_loads(routing, moved) for moved in phases], axis=0)
    assert both.mean == pytest.approx(means, abs=0.1 * means.max())
    nic = routing.fabric.out_of_port[phases[0].src_port[0]]
    assert both.mean[nic] == pytest.approx(both.p95[nic])
    assert both.mean[nic] == pytest.approx(means[nic])


def test_an_accelerator_domain_is_one_node(clos):
    """Hosts of one domain exchange bytes without the network."""
    fabric = clos()
    nodes = fabric.nodes
    domain = nodes.nvl_domain.copy()
    domain[[fabric.node_row(host) for host in ("node1", "node8")]] = 5
    joined = type(fabric)(
        type(nodes)(nodes.name, nodes.kind, nodes.tier, domain), fabric.ports, fabric.links, fabric.gpus
    )
    placement = Placement.of_hosts(joined, ["node1", "node8", "node2"])
    routing = Routing.shortest_paths(joined)

    assert expected_loads(routing, transfers(pairs((0, 1)), placement.nic)).sum() == 0
    assert expected_loads(routing, transfers(pairs((0, 2)), placement.nic)).sum() > 0


def test_computation_beside_a_phase_hides_it(clos):
    """A phase is over when both are: the longer of the two counts."""
    fabric = clos(1, 1, 2)
    routing, placement = Routing.shortest_paths(fabric), Placement.of_hosts(fabric, list(fabric.hosts))
    times = [
        predict(routing, placement, Step(2, pairs((0, 1), compute_us=compute)), draws=2).time_us[1]
        for compute in (0.0, 70e3, 90e3)
    ]

    assert times == pytest.approx([80e3, 80e3, 90e3])


def test_a_missing_route_is_named(clos):
    """Bytes that cannot arrive are refused, by the mean and by the draws, with both ends in words."""
    fabric = clos()
    whole = Routing.shortest_paths(fabric)
    placement = Placement.of_hosts(fabric, ["node1", "node8"])
    spine, leaf = fabric.node_row("spine1"), fabric.leaf_of(int(placement.nic[1]))
    for lost in ((spine, leaf), (fabric.leaf_of(int(placement.nic[0])), leaf)):
        routing = Routing(
            fabric, whole.group, {key: hops for key, hops in whole.table.items() if key != lost}
        )
        moved = transfers(pairs((0, 1)), placement.nic)
        for loads in (expected_loads, lambda r, m: drawn_loads(r, m, 40)):
            with pytest.raises(UnknownPathError, match=r"has no route to host/node8/nic/eth0"):
                loads(routing, moved)


def test_merged_transfers_carry_the_same_bytes(clos):
    """One row for each pair of NICs, the same mean on every link."""
    routing = Routing.shortest_paths(clos())
    moved = some_transfers(routing.fabric, np.random.default_rng(2), 200)

    few = merged(moved)

    assert len(few.edge) == len({*zip(moved.src_port.tolist(), moved.dst_port.tolist(), strict=True)})
    assert expected_loads(routing, few) == pytest.approx(expected_loads(routing, moved))
