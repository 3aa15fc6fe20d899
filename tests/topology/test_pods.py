"""Findings about pods of hosts, and no findings where there is nothing to judge."""

from __future__ import annotations

from collections.abc import Mapping

from nettune.checks import Finding, Status
from topology.builder import FabricBuilder
from topology.discovery.analysis import analyse
from topology.discovery.voting import vote
from topology.fabric import Fabric, NodeKind

RAILS = 4


def fabric(
    hosts: Mapping[str, str],
    *,
    moved: Mapping[tuple[str, int], str] | None = None,
    rail_of: Mapping[tuple[str, int], int] | None = None,
    spines: int = 2,
) -> Fabric:
    """Host -> its pod: NIC r on leaf `pod-r`, unless `moved` puts it elsewhere ("" nowhere); every leaf on every spine."""
    builder = FabricBuilder()
    for host in hosts:
        builder.node(host, NodeKind.HOST)
    leaves: dict[str, None] = {}
    used = 0
    for host, pod in hosts.items():
        for rail in range(RAILS):
            leaf = (moved or {}).get((host, rail), f"{pod}-{rail}" if pod else "")
            if not leaf:
                continue
            if leaf not in leaves:
                leaves[leaf] = None
                builder.node(leaf, NodeKind.SWITCH)
            used += 1
            builder.port(host, f"nic{rail}", rail=(rail_of or {}).get((host, rail), rail))
            builder.port(leaf, f"d{used}")
            builder.link((host, f"nic{rail}"), (leaf, f"d{used}"))
    for spine in range(spines):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
        for leaf in leaves:
            builder.port(leaf, f"u{spine}")
            builder.port(f"spine{spine}", f"to-{leaf}")
            builder.link((leaf, f"u{spine}"), (f"spine{spine}", f"to-{leaf}"))
    return builder.build()


def of_check(findings: list[Finding], check: str) -> list[tuple[Status, str, str]]:
    return [(one.status, str(one.where), one.what) for one in findings if one.check == check]


TWO_PODS = {f"h{number}": "a" if number < 8 else "b" for number in range(16)}


def test_a_leaf_that_is_gone_is_one_finding_and_no_miswiring():
    """All hosts of a pod lack rail 2 and none of them anything else: their leaf is the cause, not four NICs."""
    small = {f"h{number}": "ab"[number // 6] for number in range(10)}
    gone = {(host, 2): "" for host, pod in small.items() if pod == "b"}
    found = analyse(fabric(small, moved=gone))
    assert of_check(found, "host-rails") == [
        (
            Status.FAIL,
            "fabric",
            "all 4 hosts on b-0, b-1, b-3 lack rail 2: its leaf is down, or the sources leave it out",
        )
    ]
    assert [status for status, _, _ in of_check(found, "rail-cabling")] == [Status.PASS]


def test_where_one_host_has_the_rail_the_others_nics_are_named():
    """The leaf is there: three of its hosts lack a NIC each."""
    found = analyse(fabric(TWO_PODS, moved={(f"h{number}", 2): "" for number in (9, 10, 11)}))
    assert [where for _, where, _ in of_check(found, "host-rails")] == ["host/h9", "host/h10", "host/h11"]


def test_a_nic_that_is_cabled_but_has_no_rail_is_not_missing():
    """Nobody told its rail, as with an adapter that does not say whose it is: unknown, no failure."""
    found = analyse(fabric(TWO_PODS, rail_of={("h3", 1): -1}))
    ((status, where, what),) = of_check(found, "host-rails")
    assert (status, where) == (Status.UNKNOWN, "host/h3")
    assert what == "no source tells the rail of 1 cabled NIC; others have 4 rails"


def test_a_fabric_manager_among_gpu_nodes_is_not_blamed():
    """Its two NICs are where somebody put them: of its kind there are too few to say where they belong."""
    manager = {("cufm-x", 0): "a-2", ("cufm-x", 1): "a-3", ("cufm-x", 2): "", ("cufm-x", 3): ""}
    found = analyse(fabric({**TWO_PODS, "cufm-x": "a"}, moved=manager))
    assert [(status, where) for status, where, _ in of_check(found, "rail-cabling")] == [
        (Status.UNKNOWN, "host/cufm-x")
    ]
    assert Status.FAIL not in {finding.status for finding in found}


def test_a_host_without_cables_is_no_voter():
    """It is neither counted among the hosts that are cabled alike, nor a vote for any pod."""
    found = analyse(fabric({**TWO_PODS, "h16": ""}))
    assert of_check(found, "rail-cabling")[0][2] == "16 hosts with 4 rails are cabled alike in 2 pods"
    pair = {"h0": (1, 2), "h1": (1, 3), "h2": (None, None), "h3": (None, None)}
    assert {verdict.host for verdict in vote(pair) if verdict.wrong} == set()


def test_no_link_is_no_proof():
    """Nothing is said to be up, fast or of one MTU where there are no links."""
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    builder.port("h0", "mlx5_0", rail=0)
    found = analyse(builder.build())
    assert [(one.check, one.status) for one in found] == [("host-rails", Status.UNKNOWN)]


def test_a_cable_back_to_the_same_switch_is_no_sibling():
    """Three loops at 100 Gbit/s do not make the only real uplink, at 56, slow."""
    builder = FabricBuilder()
    ends = [(("s", f"l{number}"), ("s", f"m{number}")) for number in range(3)] + [(("s", "up"), ("t", "1"))]
    for name in ("s", "t"):
        builder.node(name, NodeKind.SWITCH)
    for link in ends:
        for node, port in link:
            builder.port(node, port, speed_gbps=56.0 if ("s", "up") in link else 100.0)
        builder.link(*link)
    assert Status.FAIL not in {one.status for one in analyse(builder.build()) if one.check == "link-speed"}


def test_a_spine_that_many_leaves_lack_is_one_statement():
    """Twenty leaves without a cable to spine3 are one warning about spine3, and none about their uplinks."""
    builder = FabricBuilder()
    leaves = [f"leaf{number}" for number in range(60)]
    for number, leaf in enumerate(leaves):
        builder.node(f"h{number}", NodeKind.HOST)
        builder.node(leaf, NodeKind.SWITCH)
        builder.port(f"h{number}", "eth0", rail=0)
        builder.port(leaf, "d0")
        builder.link((f"h{number}", "eth0"), (leaf, "d0"))
    for spine in range(4):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
        for leaf in leaves if spine < 3 else leaves[20:]:
            builder.port(leaf, f"u{spine}")
            builder.port(f"spine{spine}", leaf)
            builder.link((leaf, f"u{spine}"), (f"spine{spine}", leaf))
    found = analyse(builder.build())
    ((status, where, what),) = of_check(found, "parallel-links")
    assert (status, where) == (Status.WARN, "switch/spine3")
    assert what.startswith("no cable to 20 switches below (leaf0, leaf1, leaf2, leaf3, leaf4 and 15 more)")
    assert of_check(found, "switch-uplinks") == []
