from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status
from topology.builder import FabricBuilder
from topology.discovery.analysis import analyse
from topology.discovery.analysis_common import kinds_of, majority, numbered
from topology.discovery.analysis_summary import summarise
from topology.fabric import Fabric, LinkState, NodeKind
from topology.merge import merge
from topology.readers.said import Said

Pair = tuple[str, str]


def clos(
    counts: dict[Pair, int] | None = None,
    *,
    leaves: int = 4,
    spines: int = 4,
    hosts: int = 2,
    cores: int = 0,
    parallel: int = 2,
) -> Fabric:
    """Hosts with one rail, `parallel` cables between each leaf and spine (spine and core); `counts` has the exceptions."""
    builder = FabricBuilder()
    switches = [(f"leaf{n}", leaves) for n in range(leaves)] + [(f"spine{n}", spines) for n in range(spines)]
    for number in range(leaves * hosts):
        builder.node(f"h{number}", NodeKind.HOST)
    for name, _ in [*switches, *((f"core{n}", 0) for n in range(cores))]:
        builder.node(name, NodeKind.SWITCH)
    pairs = [(f"h{number}", f"leaf{number // hosts}", 1) for number in range(leaves * hosts)]
    pairs += [(f"leaf{a}", f"spine{b}", parallel) for a in range(leaves) for b in range(spines)]
    pairs += [(f"spine{a}", f"core{b}", parallel) for a in range(spines) for b in range(cores)]
    for low, high, usual in pairs:
        for number in range((counts or {}).get((low, high), usual)):
            builder.port(low, f"{high}.{number}", rail=0 if low.startswith("h") else -1, speed_gbps=400.0)
            builder.port(high, f"{low}.{number}", speed_gbps=400.0)
            builder.link((low, f"{high}.{number}"), (high, f"{low}.{number}"))
    return builder.build()


def of_check(fabric: Fabric, check: str) -> list[Finding]:
    return [finding for finding in analyse(fabric) if finding.check == check]


def test_equal_pairs_and_tiers_pass():
    """Three tiers with as many cables everywhere: every rule holds, and says how many it looked at."""
    fabric = clos(cores=2)
    (pairs,) = of_check(fabric, "parallel-links")
    assert (pairs.status, pairs.what) == (
        Status.PASS,
        "all 24 pairs of switches have as many cables as their like",
    )
    assert [finding.status for finding in of_check(fabric, "switch-uplinks")] == [Status.PASS]
    assert [finding.status for finding in of_check(fabric, "connected")] == [Status.PASS]


def test_a_missing_parallel_cable_names_its_leaf():
    """One of two cables between leaf1 and spine2 is out: the lower switch and the pair are named, and nothing else."""
    fabric = clos({("leaf1", "spine2"): 1})
    (finding,) = of_check(fabric, "parallel-links")
    assert (finding.status, finding.where) == (Status.WARN, "switch/leaf1")
    assert finding.what == "cables: 1 to spine2 (usual 2)"
    assert (
        of_check(fabric, "switch-uplinks") == []
    )  # told already; to say that all have as many would be false


def test_the_spines_pairs_vote_where_a_leaf_has_too_few():
    """With two spines a leaf's pairs are too few for a vote; those of the spine with the other leaves decide."""
    (finding,) = of_check(clos({("leaf1", "spine1"): 1}, spines=2), "parallel-links")
    assert (finding.where, finding.what) == ("switch/leaf1", "cables: 1 to spine1 (usual 2)")


def test_a_spine_with_fewer_cables_to_all_is_one_statement():
    """spine3 has one cable to every leaf where others have two: that is about spine3."""
    fabric = clos({(f"leaf{leaf}", "spine3"): 1 for leaf in range(4)})
    (finding,) = of_check(fabric, "parallel-links")
    assert (finding.where, finding.what) == (
        "switch/spine3",
        "1 cables to each of 4 switches below, others of its tier 2",
    )


def test_a_leaf_without_any_cable_to_a_spine_is_told():
    """In an InfiniBand dump a dead cable is only absent: leaves that share the neighbours tell what is missing."""
    fabric = clos({("leaf2", "spine0"): 0})
    (finding,) = of_check(fabric, "parallel-links")
    assert (finding.where, finding.what) == (
        "switch/leaf2",
        "no cable to spine0; 3 of 4 switches with the same neighbours have one",
    )


def test_two_designs_are_no_asymmetry():
    """Two leaves with two spines, two with four: no majority, nothing is said against either."""
    fabric = clos({(f"leaf{leaf}", f"spine{spine}"): 0 for leaf in (0, 1) for spine in (2, 3)})
    assert [finding.status for finding in of_check(fabric, "parallel-links")] == [Status.PASS]
    assert [finding.status for finding in of_check(fabric, "switch-uplinks")] == [Status.UNKNOWN]


def test_a_leaf_without_uplinks_is_told_by_its_tier():
    """No pair exists whose cables could be counted; and its hosts are a part of their own."""
    fabric = clos({("leaf1", f"spine{spine}"): 0 for spine in range(4)})
    (finding,) = of_check(fabric, "switch-uplinks")
    assert (finding.where, finding.what) == ("switch/leaf1", "0 uplinks, 3 of 4 leaves have 8")
    (parts,) = of_check(fabric, "connected")
    assert (parts.status, parts.evidence) == (Status.WARN, {"hosts_of_parts": [6, 2]})
    assert "h2, h3" in parts.what


def test_oversubscription_of_every_tier():
    """Down over up of leaves and of spines; the core has no tier above."""
    (finding,) = of_check(clos(hosts=16, cores=2), "oversubscription")
    assert finding.evidence["tiers"] == {
        "1": {"min": 2.0, "median": 2.0, "max": 2.0},
        "2": {"min": 2.0, "median": 2.0, "max": 2.0},
    }
    assert finding.what == "4 leaves: 2:1; 4 switches of tier 2: 2:1 (host links over uplinks)"


def test_oversubscription_by_cables_where_no_speed_is_known():
    """A cabling plan without speeds: the ratio is of cables, and says so."""
    fabric = clos()
    unknown = replace(fabric, ports=replace(fabric.ports, speed_gbps=np.zeros(len(fabric.ports.name))))
    (finding,) = of_check(unknown, "oversubscription")
    assert finding.evidence["tiers"]["1"]["max"] == 0.25
    assert "speeds are not known" in finding.what


def test_login_nodes_are_not_measured_by_gpu_nodes():
    """Hosts of another kind have another number of rails and another speed, as long as their own kind agrees."""
    builder = FabricBuilder()
    builder.node("leaf0", NodeKind.SWITCH)
    for number in range(12):
        kind, rails, gbps = ("dgx", 4, 400.0) if number < 8 else ("login", 1, 100.0)
        host = f"{kind}{number:03}"
        builder.node(host, NodeKind.HOST)
        for rail in range(3 if number == 5 else rails):
            builder.port(host, f"mlx5_{rail}", rail=rail, speed_gbps=gbps, mtu=4092)
            builder.port("leaf0", f"{number}/{rail}", speed_gbps=gbps, mtu=4092)
            builder.link((host, f"mlx5_{rail}"), ("leaf0", f"{number}/{rail}"))
    fabric = builder.build()
    (finding,) = of_check(fabric, "host-rails")
    assert (finding.where, finding.what) == (
        "host/dgx005",
        "3 rails, 7 of 8 hosts of kind dgx# have 4; missing: rail 3",
    )
    assert [f.status for f in of_check(fabric, "link-speed")] == [Status.PASS]


def test_kinds_of_hosts():
    """Digits do not tell kinds apart; where all names differ, or are hardware identities, there is one kind."""
    assert kinds_of(["g1", "g2", "g03", "login1"]) == ["g#", "g#", "g#", "login#"]
    assert kinds_of(["alpha", "beta", "gamma"]) == [""] * 3
    assert (
        len(
            set(
                kinds_of(["H-e09d730300155c4a", "H-e09d73030037867e", "H-e09d7303007a5bec", "g1", "g2", "g3"])
            )
        )
        == 2
    )


def test_a_host_that_the_cables_source_never_saw_is_not_blamed():
    """nvidia-smi's g9 may be called otherwise in the dump of cables: UNKNOWN; one that the dump has without a cable fails."""
    said = Said("cables.txt", "x")
    for host in range(3):
        said.node(f"g{host}", NodeKind.HOST)
        said.port(f"g{host}", "ib0", rail=0)
        said.node("leaf0", NodeKind.SWITCH)
        if host:
            said.link((f"g{host}", "ib0"), ("leaf0", f"{host}"))
    smi = Said("g9.txt", "x")
    smi.node("g9", NodeKind.HOST)
    smi.port("g9", "ib0", rail=0)
    found = of_check(merge([said, smi]).to_fabric(), "host-rails")
    assert [(finding.status, str(finding.where)) for finding in found] == [
        (Status.UNKNOWN, "fabric"),
        (Status.FAIL, "host/g0"),
    ]
    assert found[0].evidence == {"hosts": ["g9"]}


def test_no_cables_are_no_verdict():
    """Hosts out of nvidia-smi alone: nothing passes, nothing fails."""
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    builder.port("h0", "mlx5_0")
    statuses = {finding.check: finding.status for finding in analyse(builder.build())}
    assert statuses["host-rails"] is Status.UNKNOWN
    assert Status.FAIL not in statuses.values()


def test_summary_counts():
    """The figures of the first screen, counted by hand: 8 hosts, 4 leaves x 4 spines x 2, 4 x 2 x 2 to the cores."""
    fabric = clos(cores=2)
    fabric = replace(
        fabric,
        links=replace(fabric.links, state=np.r_[LinkState.DOWN, fabric.links.state[1:]].astype(np.int64)),
    )
    summary = summarise(fabric)
    assert (summary.hosts, summary.switches, summary.links, summary.links_down) == (8, 10, 8 + 32 + 16, 1)
    assert [(tier.tier, tier.switches, tier.down_cables) for tier in summary.tiers] == [
        (1, 4, (2, 2)),
        (2, 4, (8, 8)),
        (3, 2, (8, 8)),
    ]
    assert (summary.leaves, summary.rails, summary.planes, summary.parts) == (4, 1, 0, 1)
    assert (summary.nic_speeds, summary.trunk_speeds) == ({400.0: 8}, {400.0: 48})
    assert summary.to_json()["nic_speeds"] == [{"gbps": 400.0, "links": 8}]


def test_summary_of_domains_and_of_hosts_without_cable():
    """NVLink domains of unequal size, a host that nothing is cabled to, an empty fabric."""
    builder = FabricBuilder()
    for number in range(5):
        builder.node(f"h{number}", NodeKind.HOST, nvl_domain=number // 3)
    summary = summarise(builder.build())
    assert summary.nvl_domains == {"count": 2, "least_hosts": 2, "most_hosts": 3}
    assert len(summary.hosts_without_cable) == 5
    assert summarise(FabricBuilder().build()).tiers == ()


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1.0, 2.0, 4.0]))))
def test_majority_is_what_counting_says(rows):
    """The vectorised vote equals a count in plain Python, group by group."""
    groups = np.array([group for group, _ in rows], dtype=np.int64)
    values = np.array([value for _, value in rows], dtype=np.float64)
    said = majority(groups, values)
    for at, (group, _) in enumerate(rows):
        own = [value for other, value in rows if other == group]
        votes = max(own.count(value) for value in own)
        assert (said.voters[at], said.votes[at]) == (len(own), votes)
        assert own.count(float(said.usual[at])) == votes
        assert said.decided[at] == (len(own) >= 3 and 2 * votes > len(own))


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), min_size=1))
def test_numbers_tell_rows_apart(rows):
    """Equal rows have equal numbers, other rows other ones."""
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    numbers = numbered(*columns).tolist()
    for a, number in enumerate(numbers):
        assert [number == other for other in numbers] == [rows[a] == row for row in rows]


def test_large_fabrics_are_judged_as_small_ones(rail_fabric):
    """512 hosts with 8 rails: one moved NIC and one slow uplink are found among 8,192 cables."""
    fabric = rail_fabric(512)
    speeds = fabric.ports.speed_gbps.copy()
    up = int(fabric.links.port_a[5000])
    speeds[up] = 200.0
    ports = fabric.links.port_b.copy()
    ports[[3, 1003]] = ports[[1003, 3]]  # rail 3 of h0 with rail 3 of h125
    broken = replace(
        fabric,
        ports=replace(fabric.ports, speed_gbps=speeds),
        links=replace(fabric.links, port_b=ports),
    )
    failed = {str(finding.where) for finding in analyse(broken) if finding.status is Status.FAIL}
    assert failed == {"host/h0/nic/r3", "host/h125/nic/r3", str(fabric.link_element(5000))}
