from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status, exit_code, worst_first
from topology.builder import FabricBuilder
from topology.discovery.analysis import analyse
from topology.discovery.voting import vote
from topology.ecmp import HashSpec
from topology.fabric import Fabric, LinkState, NodeKind
from topology.routing import NextHops, Routing

Link = tuple[str, str, str, str]


def rail_fabric(
    pods: int = 2,
    hosts: int = 4,
    rails: int = 2,
    *,
    same_leaf: bool = False,
    moved: dict[tuple[str, int], str | None] | None = None,
) -> Fabric:
    """Hosts h0.. pod by pod; NIC r on leaf pod*rails+r, or all on leaf pod; `moved` puts a NIC elsewhere or nowhere."""
    builder = FabricBuilder()
    leaves = pods * (1 if same_leaf else rails)
    for host in range(pods * hosts):
        builder.node(f"h{host}", NodeKind.HOST)
    for number in range(leaves):
        builder.node(f"leaf{number}", NodeKind.SWITCH)
    for spine in range(2):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
    used = 0
    for host in range(pods * hosts):
        for rail in range(rails):
            pod = host // hosts
            leaf = f"leaf{pod if same_leaf else pod * rails + rail}"
            at = (moved or {}).get((f"h{host}", rail), leaf)
            if at is None:
                continue
            builder.port(f"h{host}", f"eth{rail}", rail=rail, speed_gbps=0.1, mtu=1500)
            builder.port(at, f"d{used}", speed_gbps=0.1, mtu=1500)
            builder.link((f"h{host}", f"eth{rail}"), (at, f"d{used}"))
            used += 1
    for number in range(leaves):
        for spine in range(2):
            builder.port(f"leaf{number}", f"u{spine}", speed_gbps=0.1, mtu=1500)
            builder.port(f"spine{spine}", f"d{number}", speed_gbps=0.1, mtu=1500)
            builder.link((f"leaf{number}", f"u{spine}"), (f"spine{spine}", f"d{number}"))
    return builder.build()


def of_check(findings: list[Finding], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


def with_column(fabric: Fabric, table: str, column: str, row: int, value: float) -> Fabric:
    part = getattr(fabric, table)
    values = getattr(part, column).copy()
    values[row] = value
    return replace(fabric, **{table: replace(part, **{column: values})})


def link_row(fabric: Fabric, element: str) -> int:
    return [str(fabric.link_element(row)) for row in range(len(fabric.links.port_a))].index(element)


@pytest.mark.parametrize("same_leaf", [False, True])
@pytest.mark.parametrize("rails", [1, 2, 4])
def test_a_sound_fabric_passes_every_rule(same_leaf, rails):
    """Each rule that applies says that it held; a fabric with one rail has nothing to vote on."""
    fabric = rail_fabric(rails=rails, same_leaf=same_leaf)
    findings = analyse(fabric, Routing.shortest_paths(fabric, HashSpec("linux-multipath", 1)))
    status = {finding.check: finding.status for finding in findings}
    assert status.pop("rail-cabling") is (Status.PASS if rails > 1 else Status.UNKNOWN)
    if same_leaf or rails == 1:  # two leaves are too few for a vote
        assert status.pop("switch-uplinks") is Status.UNKNOWN
    assert set(status) | {"switch-uplinks"} == {
        "host-rails",
        "link-state",
        "link-mtu",
        "link-speed",
        "parallel-links",
        "switch-uplinks",
        "connected",
        "oversubscription",
        "next-hops",
        "ecmp-hash",
        "ecmp-polarization",
    }
    assert set(status.values()) == {Status.PASS}
    assert exit_code(findings) == 0


@given(data=st.data())
def test_one_miswired_nic_is_named_whatever_its_leaf(data):
    """In equal pods of at least three hosts, one NIC on any other leaf is found, and nothing else is blamed."""
    same_leaf, rails = data.draw(st.booleans()), data.draw(st.integers(2, 4))
    pods, hosts = (
        data.draw(st.integers(1 if rails > 1 and not same_leaf else 2, 4)),
        data.draw(st.integers(3, 5)),
    )
    host, rail = data.draw(st.integers(0, pods * hosts - 1)), data.draw(st.integers(0, rails - 1))
    home = host // hosts if same_leaf else host // hosts * rails + rail
    wrong = data.draw(
        st.integers(0, pods * (1 if same_leaf else rails) - 1).filter(lambda leaf: leaf != home)
    )
    fabric = rail_fabric(pods, hosts, rails, same_leaf=same_leaf, moved={(f"h{host}", rail): f"leaf{wrong}"})
    (finding,) = of_check(analyse(fabric), "rail-cabling")
    assert (finding.status, finding.where) == (Status.FAIL, f"host/h{host}/nic/eth{rail}")
    assert (finding.evidence["is_on"], finding.evidence["should_be_on"]) == (f"leaf{wrong}", f"leaf{home}")
    assert f"cabled to leaf{wrong}" in finding.what
    assert f"should be on leaf{home}" in finding.what


def test_swapped_rails_are_both_named():
    """A host whose two cables are swapped has both NICs on the wrong leaf of its own pod."""
    fabric = rail_fabric(moved={("h1", 0): "leaf1", ("h1", 1): "leaf0"})
    found = of_check(analyse(fabric), "rail-cabling")
    assert {(f.where, f.evidence["should_be_on"]) for f in found} == {
        ("host/h1/nic/eth0", "leaf0"),
        ("host/h1/nic/eth1", "leaf1"),
    }


def test_cables_swapped_between_pods_are_told_by_the_names_around():
    """Where sizes do not tell whose rail is wrong, a host that stands among a pod's names belongs to that pod."""
    fabric = rail_fabric(moved={("h1", 1): "leaf3", ("h6", 1): "leaf1"})
    found = of_check(analyse(fabric), "rail-cabling")
    assert {(f.where, f.evidence["should_be_on"]) for f in found} == {
        ("host/h1/nic/eth1", "leaf1"),
        ("host/h6/nic/eth1", "leaf3"),
    }


@pytest.mark.parametrize(
    ("hosts", "moved", "why"),
    [
        (2, {("h1", 1): "leaf3"}, "a vote needs 3"),
        (4, {("h2", 1): "leaf3", ("h3", 1): "leaf3"}, "as many hosts"),
        (4, {("h0", 1): "leaf3", ("h7", 1): "leaf1"}, "claim it equally"),
    ],
)
def test_ties_and_too_few_voters_claim_nothing(hosts, moved, why):
    """Without a majority no NIC is blamed: the hosts are UNKNOWN, and that alone does not fail a run."""
    found = of_check(analyse(rail_fabric(hosts=hosts, moved=moved)), "rail-cabling")
    assert {f.status for f in found} == {Status.UNKNOWN}
    assert exit_code(found) == 0
    assert any(why in f.what for f in found)
    assert {f.where for f in found} >= {f"host/{host}" for host, _ in moved}


def test_a_missing_rail_is_no_miswiring():
    """A host with one NIC fewer is named by host-rails with the rail that is missing, and by nothing else."""
    findings = analyse(rail_fabric(moved={("h2", 0): None}))
    (missing,) = of_check(findings, "host-rails")
    assert (missing.status, missing.where, missing.evidence["missing"]) == (Status.FAIL, "host/h2", [0])
    assert [f.status for f in of_check(findings, "rail-cabling")] == [Status.PASS]


def test_no_majority_of_rails_is_unknown():
    """Half of the hosts with one rail and half with two is no majority."""
    moved: dict[tuple[str, int], str | None] = {(f"h{host}", 1): None for host in range(4)}
    (finding,) = of_check(analyse(rail_fabric(moved=moved)), "host-rails")
    assert (finding.status, finding.required) == (Status.UNKNOWN, False)


@given(shuffle=st.integers(0, 99))
def test_the_vote_does_not_depend_on_the_order_of_hosts(shuffle):
    """Any order of the hosts gives the same verdicts."""
    signatures = {f"h{n}": (0, 1) for n in range(4)} | {f"h{n}": (2, 3) for n in range(4, 8)}
    signatures |= {"h2": (0, 3), "h5": (0, 1)}
    names = list(signatures)
    random.Random(shuffle).shuffle(names)
    verdicts = {one.host: one for one in vote({name: signatures[name] for name in names})}
    assert verdicts == {one.host: one for one in vote(signatures)}


def test_a_link_that_is_down_is_named_with_the_reason():
    """link-state names the cable and quotes how it was learned."""
    fabric = rail_fabric()
    row = link_row(fabric, "link/leaf1:u0--spine0:d1")
    down = with_column(fabric, "links", "state", row, LinkState.DOWN)
    (finding,) = of_check(
        analyse(down, reasons={"link/leaf1:u0--spine0:d1": "spine0:d1 set down"}), "link-state"
    )
    assert (finding.status, finding.where) == (Status.FAIL, "link/leaf1:u0--spine0:d1")
    assert "spine0:d1 set down" in finding.what


def test_a_switch_without_any_link_up_is_one_finding():
    """All cables of a spine down is a statement about the spine, not one about each cable."""
    fabric = rail_fabric()
    for row in [row for row in range(len(fabric.links.port_a)) if "spine1" in fabric.link_element(row)]:
        fabric = with_column(fabric, "links", "state", row, LinkState.DOWN)
    findings = analyse(fabric, Routing.shortest_paths(fabric))
    failed = [f for f in findings if f.status is Status.FAIL]
    assert [(f.check, f.where) for f in failed] == [("link-state", "switch/spine1")]


def test_the_smaller_mtu_end_is_named():
    """link-mtu names the cable, and in it the end that drops."""
    fabric = rail_fabric()
    port = fabric.port_row("spine0", "d2")
    (finding,) = of_check(analyse(with_column(fabric, "ports", "mtu", port, 1000)), "link-mtu")
    assert (finding.status, finding.where) == (Status.FAIL, "link/leaf2:u0--spine0:d2")
    assert finding.evidence["smaller_end"] == "switch/spine0/port/d2"
    assert "1000 at spine0:d2" in finding.what
    unknown = of_check(analyse(with_column(fabric, "ports", "mtu", port, 0)), "link-mtu")
    assert [f.status for f in unknown] == [Status.UNKNOWN]


def test_a_slower_link_is_named_among_its_siblings():
    """A cable below the strict majority of its switch's cables of that tier fails; ends that differ fail too."""
    fabric = rail_fabric()
    ports = [
        fabric.port_row("h3", "eth1"),
        fabric.port_row("leaf1", fabric.ports.name[far(fabric, "h3", "eth1")]),
    ]
    slow = fabric
    for port in ports:
        slow = with_column(slow, "ports", "speed_gbps", port, 0.01)
    (finding,) = of_check(analyse(slow), "link-speed")
    assert finding.status is Status.FAIL
    assert "h3:eth1" in finding.where
    assert "10 Mbit/s, 3 of 4 siblings have 100 Mbit/s" in finding.what
    (ends,) = of_check(analyse(with_column(fabric, "ports", "speed_gbps", ports[0], 0.025)), "link-speed")
    assert (ends.status, ends.where) == (Status.FAIL, finding.where)


def far(fabric: Fabric, node: str, port: str) -> int:
    out = int(fabric.out_of_port[fabric.port_row(node, port)])
    return int(fabric.directed_ports[out, 1])


def test_the_slower_of_two_parallel_links_is_a_warning():
    """Two parallel cables cannot outvote each other: the slower one is pointed at, not failed."""
    builder = FabricBuilder()
    for name, kind in (("h0", NodeKind.HOST), ("leaf0", NodeKind.SWITCH), ("spine0", NodeKind.SWITCH)):
        builder.node(name, kind)
    for a, b, gbps in (
        ("h0:eth0", "leaf0:d0", 1.0),
        ("leaf0:u0", "spine0:d0", 1.0),
        ("leaf0:u1", "spine0:d1", 0.4),
    ):
        ends = [tuple(end.split(":")) for end in (a, b)]
        for node, port in ends:
            builder.port(node, port, speed_gbps=gbps, mtu=1500)
        builder.link((ends[0][0], ends[0][1]), (ends[1][0], ends[1][1]))
    found = of_check(analyse(builder.build()), "link-speed")
    assert [(f.status, f.where) for f in found] == [(Status.WARN, "link/leaf0:u1--spine0:d1")]


def test_oversubscription_is_a_fact_per_leaf():
    """Host capacity over uplink capacity, of links that are up."""
    fabric = rail_fabric()
    (finding,) = of_check(analyse(fabric), "oversubscription")
    assert finding.evidence["leaves"] == {f"leaf{leaf}": 2.0 for leaf in range(4)}
    down = with_column(fabric, "links", "state", link_row(fabric, "link/leaf0:u0--spine0:d0"), LinkState.DOWN)
    (finding,) = of_check(analyse(down), "oversubscription")
    assert finding.evidence["leaves"]["leaf0"] == 4.0
    assert finding.status is Status.PASS


def changed(routing: Routing, row: int, group: int, hops: NextHops | None) -> Routing:
    table = {key: value for key, value in routing.table.items() if key != (row, group)}
    return replace(routing, table=table if hops is None else {**table, (row, group): hops})


def test_unequal_next_hop_groups_are_pointed_at():
    """Fewer next hops than the tier has, unequal weights and a missing route each name the router and the target."""
    fabric = rail_fabric()
    routing = Routing.shortest_paths(fabric, HashSpec("linux-multipath", 3))
    leaf0, leaf2 = fabric.node_row("leaf0"), fabric.node_row("leaf2")
    hops = routing.table[leaf0, leaf2]
    cases = {
        "fewer": (NextHops(hops.links[:1], (1,)), Status.WARN),
        "unequal": (NextHops(hops.links, (1, 3)), Status.WARN),
        "none": (None, Status.FAIL),
    }
    for kind, (instead, status) in cases.items():
        (finding,) = of_check(analyse(fabric, changed(routing, leaf0, leaf2, instead)), "next-hops")
        assert (finding.status, finding.where, finding.evidence["kind"]) == (status, "switch/leaf0", kind)
        assert "leaf2" in finding.what


def test_next_hops_into_a_dead_link_fail():
    """A router that still hashes onto a cable that is down loses those flows: that is a failure of its own."""
    fabric = rail_fabric()
    routing = Routing.shortest_paths(fabric)
    row = link_row(fabric, "link/leaf1:u0--spine0:d1")
    down = with_column(fabric, "links", "state", row, LinkState.DOWN)
    found = of_check(analyse(down, replace(routing, fabric=down)), "next-hops")
    assert {f.where for f in found if f.status is Status.FAIL} == {"switch/leaf1", "switch/spine0"}


def test_unknown_and_shared_hashes_are_told():
    """Routers with several next hops need a known hash; two tiers with one seed polarise."""
    fabric = rail_fabric()
    (unknown,) = of_check(analyse(fabric, Routing.shortest_paths(fabric)), "ecmp-hash")
    assert (unknown.status, unknown.required) == (Status.UNKNOWN, False)
    assert unknown.evidence["routers"] == ["leaf0", "leaf1", "leaf2", "leaf3"]
    builder = FabricBuilder()
    for name, kind in (("h0", 0), ("h1", 0), ("leaf0", 1), ("leaf1", 1), ("spine0", 1), ("spine1", 1)):
        builder.node(name, NodeKind(kind))
    cables = [("h0", "leaf0"), ("h1", "leaf1")]
    cables += [(f"leaf{leaf}", f"spine{spine}") for leaf in (0, 1) for spine in (0, 1) for _ in (0, 1)]
    for number, (a, b) in enumerate(cables):
        builder.port(a, f"p{number}", address=f"10.0.0.{2 * number}")
        builder.port(b, f"p{number}", address=f"10.0.0.{2 * number + 1}")
        builder.link((a, f"p{number}"), (b, f"p{number}"))
    parallel = builder.build()
    shared = Routing.shortest_paths(parallel, HashSpec("linux-multipath", 9))
    (finding,) = of_check(analyse(parallel, shared), "ecmp-polarization")
    assert (finding.status, finding.evidence["reached"]) == (Status.FAIL, 1)
    spines = {parallel.node_row(name) for name in ("spine0", "spine1")}
    apart = {
        row: HashSpec("linux-multipath", 8) if row in spines else spec for row, spec in shared.hashes.items()
    }
    found = analyse(parallel, replace(shared, hashes=apart))
    assert [
        finding.status for check in ("ecmp-hash", "ecmp-polarization") for finding in of_check(found, check)
    ] == [
        Status.PASS,
        Status.PASS,
    ]


def test_an_empty_fabric_and_lone_nodes_are_analysed():
    """Nothing to look at is no crash, and never a failure."""
    builder = FabricBuilder()
    for name in ("h0", "h1"):
        builder.node(name, NodeKind.HOST)
    for fabric in (FabricBuilder().build(), builder.build()):
        findings = worst_first(analyse(fabric, Routing.shortest_paths(fabric)))
        assert all(f.status is not Status.FAIL for f in findings)
    assert np.array_equal(builder.build().nodes.tier, [0, 0])
