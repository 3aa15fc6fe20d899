"""What probes would be sent, and what their answers are taken for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.probing.paths import (
    MAX_PACKETS,
    Agreement,
    ProbePlan,
    agreement,
    observations,
    plan,
    read_answers,
    tasks,
    to_json,
)
from topology.routing import FlowKey, NextHops, Routing


def two_tiers(parallel: int = 1):
    """Leaves a and b under spines s0 and s1, one host each; every port has an address."""
    builder = FabricBuilder()
    for name in ("h0", "h1"):
        builder.node(name, NodeKind.HOST)
    for name in ("a", "b", "s0", "s1"):
        builder.node(name, NodeKind.SWITCH)
    number = iter(range(1, 250))

    def cable(one, other):
        for node, port in (one, other):
            builder.port(node, port, speed_gbps=100.0, address=f"10.0.0.{next(number)}")
        builder.link(one, other)

    cable(("h0", "eth0"), ("a", "d0"))
    cable(("h1", "eth0"), ("b", "d0"))
    for leaf in ("a", "b"):
        for spine in ("s0", "s1"):
            for copy in range(parallel):
                cable((leaf, f"{spine}.{copy}"), (spine, f"{leaf}.{copy}"))
    return builder.build()


@pytest.fixture
def routing():
    return Routing.shortest_paths(two_tiers())


def ends(routing):
    fabric = routing.fabric
    return fabric.port_row("h0", "eth0"), fabric.port_row("h1", "eth0")


def address(routing, node, port):
    return routing.fabric.ports.address[routing.fabric.port_row(node, port)]


def named(routing, path):
    return [None if link < 0 else routing.fabric.directed_name(link) for link in path.links]


def test_a_plan_counts_its_packets(routing):
    """Source ports times routers, times tries at most; the description says both, and where they go."""
    made = plan(routing, [ends(routing)], range(20000, 20064), dscp=26)
    assert made.hops == (3,)
    assert made.packets == 64 * 3 * made.tries
    words = made.describe(routing.fabric)
    assert "192 UDP packets" in words
    assert "host/h0/nic/eth0 to host/h1/nic/eth0" in words
    assert "DSCP 26" in words


@pytest.mark.parametrize("address", ["", "fe80::1", "2001:db8::1", "10.0.0.256"])
def test_a_nic_without_an_ipv4_address_cannot_be_probed(routing, address):
    """It is named before anything is sent."""
    fabric = routing.fabric
    src, dst = ends(routing)
    ports = replace(
        fabric.ports, address=(*fabric.ports.address[:dst], address, *fabric.ports.address[dst + 1 :])
    )
    with pytest.raises(InputError, match="host/h1/nic/eth0 has no IPv4 address"):
        plan(replace(routing, fabric=replace(fabric, ports=ports)), [(src, dst)], [50000])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sports": ()}, "needs source ports"),
        ({"sports": (0,)}, "from 1 to 65535"),
        ({"dport": 70000}, "from 1 to 65535"),
        ({"dscp": 64}, "DSCP 64"),
        ({"proto": 1}, "cannot be probed"),
        ({"packets_per_s": 0.0}, "above 0"),
        ({"sports": tuple(range(1, 65536)), "tries": 9, "longest": (MAX_PACKETS,)}, "more than"),
    ],
)
def test_plans_that_cannot_be_are_refused(change, words):
    """Numbers outside their range, and more packets than the bound, are one line."""
    base = {
        "pairs": ((0, 1),),
        "sports": (1000,),
        "proto": 17,
        "dport": 4791,
        "dscp": 0,
        "hops": (3,),
        "longest": (3,),
    }
    with pytest.raises(InputError, match=words):
        ProbePlan(**(base | change))


def test_one_host_needs_no_network(routing):
    """A pair on one host is refused."""
    src, _ = ends(routing)
    with pytest.raises(InputError, match="one host"):
        plan(routing, [(src, src)], [1000])


def test_answers_become_paths(routing):
    """The interface that answered tells the link into its router; the cables of the two NICs are known anyway."""
    made = plan(routing, [ends(routing)], [1000, 1001])
    answers = [
        [0, 1, address(routing, "a", "d0")],
        [0, 2, address(routing, "s1", "a.0")],
        [0, 3, address(routing, "b", "s1.0")],
        [1, 2, "192.0.2.1"],
    ]
    first, second = read_answers(made, ends(routing), {"answers": answers, "refused": {}}, routing.fabric)
    assert named(routing, first) == [
        "h0:eth0 > a:d0",
        "a:s1.0 > s1:a.0",
        "s1:b.0 > b:s1.0",
        "b:d0 > h1:eth0",
    ]
    assert first.complete
    assert not second.complete
    assert dict(second.unknown) == {2: "192.0.2.1"}
    table = to_json(made, [first, second], routing.fabric)
    assert table["pairs"][0]["ports"]["1000"] == named(routing, first)


def test_a_router_that_answers_from_another_interface():
    """With one cable between two routers the link is told by the routers; with parallel ones it stays unknown."""
    for parallel, known in ((1, True), (2, False)):
        routing = Routing.shortest_paths(two_tiers(parallel))
        made = plan(routing, [ends(routing)], [1000])
        # s1 answers from its port to b although the packet came from a.
        answers = [[0, 2, address(routing, "s1", "b.0")], [0, 3, address(routing, "b", "s1.0")]]
        (path,) = read_answers(made, ends(routing), {"answers": answers, "refused": {}}, routing.fabric)
        assert (path.links[1] >= 0) is known
        assert path.links[2] >= 0


def test_refused_ports_have_no_path(routing):
    """A source port that could not be bound is left out, not taken for a silent one."""
    made = plan(routing, [ends(routing)], [1000, 1001])
    result = {"answers": [], "refused": {"0": "Address already in use"}}
    (only,) = read_answers(made, ends(routing), result, routing.fabric)
    assert only.flow.sport == 1001


def test_observations_are_the_choices(routing):
    """Each switch with several next hops is seen with the index that the flow took; others are not."""
    made = plan(routing, [ends(routing)], [1000])
    answers = [[0, 2, address(routing, "s1", "a.0")], [0, 3, address(routing, "b", "s1.0")]]
    paths = read_answers(made, ends(routing), {"answers": answers, "refused": {}}, routing.fabric)
    seen = observations(paths, routing)
    leaf = routing.fabric.node_row("a")
    src, dst = ends(routing)
    assert seen == {leaf: [(FlowKey(src, dst, 17, 1000, 4791), int(routing.group[dst]), 1)]}
    assert agreement(paths, routing).unpredictable == 1


def test_ways_of_different_length_are_followed_to_their_end():
    """A flow goes on beyond the shortest way as long as another router than the last answers."""
    builder = FabricBuilder()
    for name, kind in (("h0", 0), ("h1", 0), ("a", 1), ("b", 1), ("s0", 1), ("s1", 1), ("c", 1)):
        builder.node(name, NodeKind(kind))
    ends_of = [("h0", "a"), ("h1", "b"), ("a", "s0"), ("s0", "b"), ("a", "s1"), ("s1", "c"), ("c", "b")]
    for number, (one, other) in enumerate(ends_of):
        for node, far, byte in ((one, other, 2 * number), (other, one, 2 * number + 1)):
            builder.port(node, far, speed_gbps=100.0, address=f"10.0.0.{byte}")
        builder.link((one, other), (other, one))
    fabric = builder.build()
    routing = Routing.shortest_paths(fabric)
    rows = {name: fabric.node_row(name) for name in ("a", "s1", "c")}
    src, dst = fabric.port_row("h0", "a"), fabric.port_row("h1", "b")
    group = int(routing.group[dst])

    def out(node, far):
        return int(fabric.out_of_port[fabric.port_row(node, far)])

    longer = {
        **routing.table,
        (rows["a"], group): NextHops((out("a", "s0"), out("a", "s1")), (1, 1)),
        (rows["s1"], group): NextHops((out("s1", "c"),), (1,)),
        (rows["c"], group): NextHops((out("c", "b"),), (1,)),
    }
    routing = replace(routing, table=longer)
    made = plan(routing, [(src, dst)], [1000, 1001, 1002])
    assert (made.hops, made.longest, made.packets) == ((3,), (4,), 3 * 4 * made.tries)
    (task,) = tasks(made, fabric)["h0"]
    assert (task["hops"], task["most"]) == (3, 4)
    assert sorted(task["ends"]) == ["10.0.0.13", "10.0.0.3", "10.0.0.7"]
    answers = [
        *([0, 2, address(routing, "s0", "a")], [0, 3, address(routing, "b", "s0")]),
        *(
            [1, 2, address(routing, "s1", "a")],
            [1, 3, address(routing, "c", "s1")],
            [1, 4, address(routing, "b", "c")],
        ),
        *([2, 2, address(routing, "s1", "a")], [2, 3, address(routing, "c", "s1")]),
    ]
    short, long, cut = read_answers(made, (src, dst), {"answers": answers, "refused": {}}, fabric)
    assert [len(path.links) for path in (short, long)] == [4, 5]
    assert short.complete
    assert long.complete
    assert not cut.complete


def test_a_pair_that_is_given_twice_is_probed_once(routing):
    """Its flows would be the same."""
    assert plan(routing, [ends(routing)] * 3, [1000]).pairs == (ends(routing),)


def test_paths_that_no_hash_predicts_are_told(routing):
    """What was seen is not what the known hashes and routes say: a warning that tells both numbers."""
    assert Agreement(8, 8, 1).findings() == []
    (finding,) = Agreement(8, 5, 0).findings()
    assert finding.status is Status.WARN
    assert finding.what.startswith("3 of 8 probed paths are not")
