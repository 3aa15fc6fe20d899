"""Nodes, units and slots: what stays together, what pins fix, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.placement.place import METHODS, evaluate, place, problem_of
from topology.placement.slots import derived_ranks_per_host
from topology.routing import Routing

QUICK = [method for method in METHODS if method != "exact"]


def hosts_of(placed):
    return placed.placement.hosts(placed.problem.routing.fabric)


@pytest.mark.parametrize("method", METHODS)
def test_consecutive_ranks_share_a_host(leaves, rings, method):
    """8 ranks at 2 a host: host by host, each with its accelerators in order, as launchers start them."""
    routing = Routing.shortest_paths(leaves([3, 2], rails=2))

    placed = place(routing, rings(8, ([list(range(8))], 1e6)), method, ranks_per_host=2)

    names = hosts_of(placed)
    assert names[::2] == names[1::2]
    assert len(set(names)) == 4
    assert placed.placement.gpu.tolist() == [0, 1] * 4


def test_ranks_of_a_host_are_derived(leaves):
    """Accelerators that the fabric lists; else the domain, shared among hosts of an accelerator domain; else what divides."""
    plain = leaves([2, 2])
    assert derived_ranks_per_host(leaves([2, 2], gpus=4), 16, 1) == 4
    assert derived_ranks_per_host(leaves([2, 2], gpus=4), 2, 1) == 2
    assert derived_ranks_per_host(plain, 32, 8) == 8
    assert derived_ranks_per_host(leaves([2, 2], domains=[0, 0, 1, 1]), 16, 8) == 4
    assert [derived_ranks_per_host(plain, ranks, 1) for ranks in (3, 4, 8, 12, 6)] == [1, 1, 2, 3, 2]


def test_hosts_with_fewer_accelerators_stay_empty(leaves, rings):
    """A host that lacks accelerators cannot take a node."""
    fabric = leaves([2, 2], gpus=2)
    kept = np.flatnonzero((fabric.gpus.host != fabric.node_row("node1")) | (fabric.gpus.index != 1))
    gpus = type(fabric.gpus)(*(column[kept] for column in vars(fabric.gpus).values()))
    damaged = type(fabric)(fabric.nodes, fabric.ports, fabric.links, gpus, fabric.provenance)

    placed = place(Routing.shortest_paths(damaged), rings(6, ([list(range(6))], 1e6)))

    assert set(hosts_of(placed)) == {"node2", "node3", "node4"}


def test_a_rank_uses_the_nic_that_the_fabric_names(leaves, rings):
    """The table of accelerators wins over taking turns: here accelerator 0 is nearest to the second NIC."""
    routing = Routing.shortest_paths(leaves([2], rails=2, gpus=2))

    placed = place(routing, rings(4, ([[0, 2], [1, 3]], 1e6)), "depth-first")

    assert [routing.fabric.ports.name[nic] for nic in placed.placement.nic] == ["eth1", "eth0"] * 2


@pytest.mark.parametrize("method", QUICK)
def test_a_domain_of_hosts_stays_in_one_accelerator_domain(leaves, rings, method):
    """Ranks whose traffic among each other is left out are on hosts that share an accelerator domain, in every method."""
    fabric = leaves([3, 3, 2], domains=[0, 1, 0, 1, 2, 2, 3, 0])
    traffic = rings(6, ([[0, 2, 4], [1, 3, 5]], 1e6), domain=2)

    names = hosts_of(place(Routing.shortest_paths(fabric), traffic, method, ranks_per_host=1))

    domain = [int(fabric.nodes.nvl_domain[fabric.node_row(name)]) for name in names]
    assert domain[::2] == domain[1::2]
    assert len(set(names)) == 6


def test_domains_that_cannot_be_kept_together_are_refused(leaves, rings):
    """No accelerator domains, too few of them, or sizes that do not multiply: today's hidden traffic is an error."""
    traffic = rings(8, ([[0, 4], [1, 5]], 1e6), domain=4)
    plain = Routing.shortest_paths(leaves([4, 4]))
    with pytest.raises(InputError, match="2 times 4 hosts in one accelerator domain"):
        place(plain, traffic, ranks_per_host=1)
    with pytest.raises(InputError, match="domains of 4 ranks do not fit hosts of 3 ranks"):
        place(plain, traffic, ranks_per_host=3)
    few = Routing.shortest_paths(leaves([4, 4], domains=[0, 0, 0, 0, 1, 1, 1, -1]))
    with pytest.raises(InputError, match="the fabric has 1 such places"):
        place(few, traffic, ranks_per_host=1)
    assert set(hosts_of(place(plain, traffic, ranks_per_host=4))) <= set(plain.fabric.hosts)


@pytest.mark.parametrize("method", QUICK)
def test_even_pods(leaves, rings, method):
    """With even_pods every pod has an even number of the job's nodes, also where its hosts are odd in number."""
    fabric = leaves([3, 2, 3, 2], pods=2)
    routing = Routing.shortest_paths(fabric)
    traffic = rings(6, ([[0, 3], [1, 4], [2, 5]], 1e6))

    names = hosts_of(place(routing, traffic, method, ranks_per_host=1, even_pods=True))

    second = sum(int(name.removeprefix("node")) > 5 for name in names)
    assert second % 2 == 0
    with pytest.raises(InputError, match="5 nodes cannot be an even number in every pod"):
        place(routing, rings(5, ([list(range(5))], 1e6)), method, ranks_per_host=1, even_pods=True)


@pytest.mark.parametrize("method", METHODS)
def test_pins_are_honoured(leaves, rings, method):
    """A pinned rank takes its node along; nobody else gets that host."""
    routing = Routing.shortest_paths(leaves([3, 3]))
    traffic = rings(8, ([[0, 2, 4, 6], [1, 3, 5, 7]], 1e6))

    placed = place(routing, traffic, method, ranks_per_host=2, pins={5: "node1", 0: "node6"})

    names = hosts_of(placed)
    assert names[4:6] == ["node1"] * 2
    assert names[:2] == ["node6"] * 2
    assert len(set(names)) == 4
    assert placed.placement.pinned == (0, 5)


def test_pins_inside_a_unit(leaves, rings):
    """A pinned node draws its partners into the same accelerator domain."""
    fabric = leaves([4, 2], domains=[0, 0, 1, 1, 2, 2])
    traffic = rings(4, ([[0, 2], [1, 3]], 1e6), domain=2)

    names = hosts_of(place(Routing.shortest_paths(fabric), traffic, ranks_per_host=1, pins={3: "node5"}))

    assert names[2:] == ["node6", "node5"]


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({0: "nobody"}, "no node 'nobody'"),
        ({9: "node1"}, "the job has ranks 0 to 3"),
        ({0: "node4"}, "'node4' is excluded"),
        ({0: "node1", 1: "node1"}, "nodes 0 and 1 cannot both be on 'node1'"),
    ],
)
def test_bad_pins_are_refused(leaves, rings, pins, message):
    """Unknown hosts and ranks, excluded hosts, two nodes on one host: one line each."""
    routing = Routing.shortest_paths(leaves([3, 3]))
    with pytest.raises(InputError, match=message):
        place(routing, rings(4, ([[0, 1, 2, 3]], 1e6)), ranks_per_host=1, pins=pins, excluded=("node4",))


def test_a_node_on_two_hosts_is_refused(leaves, rings):
    """Ranks of one node pinned apart."""
    routing = Routing.shortest_paths(leaves([3, 3]))
    with pytest.raises(InputError, match="cannot be on both 'node1' and 'node2'"):
        place(routing, rings(4, ([[0, 2]], 1e6)), ranks_per_host=2, pins={0: "node1", 1: "node2"})


def test_a_fabric_in_two_pieces(leaves, rings):
    """Refused where the job needs both; where one piece is enough, or pins choose one, the job is placed in it."""
    routing = Routing.shortest_paths(leaves([3, 2], spines=0))
    with pytest.raises(InputError, match=r"in 2 pieces .* needs 4 hosts in one piece, and the largest has 3"):
        place(routing, rings(4, ([[0, 1, 2, 3]], 1e6)), ranks_per_host=1)
    pair = rings(2, ([[0, 1]], 1e6))
    assert set(hosts_of(place(routing, pair, ranks_per_host=1))) < {"node1", "node2", "node3"}
    assert set(hosts_of(place(routing, pair, ranks_per_host=1, pins={0: "node4"}))) == {"node4", "node5"}
    with pytest.raises(InputError, match="in 2 pieces"):
        place(routing, pair, ranks_per_host=1, pins={0: "node4", 1: "node1"})


def test_other_bad_input(leaves, rings):
    """Everything excluded, names twice, no rank on a host: one line each."""
    routing = Routing.shortest_paths(leaves([2, 2]))
    traffic = rings(2, ([[0, 1]], 1e6))
    with pytest.raises(InputError, match="no host is left"):
        place(routing, traffic, excluded=routing.fabric.hosts)
    with pytest.raises(InputError, match="no node 'gone'"):
        place(routing, traffic, excluded=("gone",))
    with pytest.raises(InputError, match="both must be 1 or more"):
        place(routing, traffic, ranks_per_host=0)
    with pytest.raises(InputError, match="'node1' is named twice"):
        type(problem_of(routing, traffic))(routing, traffic, ("node1", "node1"))


def test_a_map_made_elsewhere_is_priced(leaves, rings):
    """By rank or by node, with the price that place gives the same map; maps that hide traffic or do not fit are refused."""
    routing = Routing.shortest_paths(leaves([2, 2]))
    traffic = rings(4, ([[0, 2], [1, 3]], 1e6), domain=2)

    by_node = evaluate(routing, traffic, ["node3", "node1"])
    by_rank = evaluate(routing, traffic, ["node3", "node3", "node1", "node1"])

    assert by_node.placement.method == "given"
    assert by_node.cost_us == by_rank.cost_us
    assert by_node.cost_us >= by_node.bound_us > 0
    for hosts, message in (
        (["node1", "node2", "node3"], "3 hosts for 4 ranks"),
        ([], "0 hosts"),
        (["node1", "node1"], "'node1' for two nodes"),
        (["node1", "node2", "node3", "node4"], "splits ranks 0 to 1"),
        (["node1", "gone"], "no node 'gone'"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(routing, traffic, hosts)


@given(st.data())
def test_scattered_maps_never_beat_their_bound(leaves, rings, data):
    """Any list of hosts for the ranks, also one that splits nodes."""
    routing = Routing.shortest_paths(leaves([2, 1], up_gbps=[20, 50]))
    traffic = rings(4, ([[0, 1, 2, 3]], 1e6), ([[0, 2], [1, 3]], 3e6))
    names = data.draw(st.permutations(["node1", "node1", "node2", "node2", "node3", "node3"]))[:4]

    placed = evaluate(routing, traffic, names, draws=10)

    assert placed.predicted.time_us[0] >= placed.bound_us * (1 - 1e-9)


def test_other_jobs_load_is_avoided(leaves, rings):
    """Two of three leaves are enough; the one whose uplinks another job fills stays empty."""
    fabric = leaves([2, 2, 2], up_gbps=[50, 50, 50])
    routing = Routing.shortest_paths(fabric)
    background = np.zeros(fabric.directed_count)
    sender = fabric.ports.node[fabric.directed_ports[:, 0]]
    background[sender == fabric.node_row("leaf0")] = 1e8
    traffic = rings(4, ([[0, 2], [1, 3]], 1e6), ([[0, 1, 2, 3]], 1e6))

    names = hosts_of(place(routing, traffic, ranks_per_host=1, background=background))

    assert set(names) == {"node3", "node4", "node5", "node6"}
