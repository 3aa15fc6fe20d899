from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import NodeKind
from topology.expect import expect
from topology.readers.said import Said

CABLES = [f"h{host}:eth{rail} leaf{rail}:Eth{host}" for host in range(4) for rail in range(2)] + [
    f"leaf{leaf}:up{spine} spine{spine}:d{leaf}" for leaf in range(2) for spine in range(2)
]


def wiring(cables: Iterable[str], source: str = "found", gbps: float = 0.0, *, logical: bool = False) -> Said:
    said = Said(source, "x", logical=logical)
    for cable in cables:
        ends = [(end.split(":", 1)[0], end.split(":", 1)[1]) for end in cable.split()]
        for node, port in ends:
            said.node(node, NodeKind.HOST if node.startswith(("h", "H")) else NodeKind.SWITCH)
            said.port(node, port, speed_gbps=gbps)
        said.link(*ends)
    return said


def changed(**to: str) -> list[str]:
    """The cables with the far ends of some hosts' ports replaced: h3_eth1="leaf1:Eth7", or nothing."""
    result = []
    for cable in CABLES:
        near, far = cable.split()
        far = to.get(near.replace(":", "_"), far)
        result += [f"{near} {far}"] if far else []
    return result


def said_of(findings: list[Finding]) -> list[tuple[str, Status, str]]:
    return [(finding.check, finding.status, str(finding.where)) for finding in findings]


def test_a_plan_that_is_met_is_one_pass():
    """Every cable of the plan is there: one statement with the count."""
    (finding,) = expect(wiring(CABLES), wiring(CABLES, "plan.csv"))
    assert (finding.status, finding.what) == (Status.PASS, "all 12 cables are as plan.csv says")


def test_swapped_cables_are_one_statement():
    """Two hosts' NICs that have each other's place: named once, with both and where they should be."""
    found = wiring(changed(h3_eth1="leaf1:Eth2", h2_eth1="leaf1:Eth3"))
    (finding,) = expect(found, wiring(CABLES, "plan.csv"))
    assert (finding.status, finding.where) == (Status.FAIL, "host/h2/nic/eth1")
    assert finding.what == "h2:eth1 is on leaf1:Eth3, plan.csv says leaf1:Eth2; swapped with h3:eth1"
    assert finding.fix == "swap the cables of h2:eth1 and h3:eth1"


def test_swapped_rails_and_swapped_uplinks():
    """A host's two NICs, and two uplinks of a leaf, are found the same way."""
    found = wiring(changed(h0_eth0="leaf1:Eth0", h0_eth1="leaf0:Eth0"))
    assert said_of(expect(found, wiring(CABLES))) == [("plan-cables", Status.FAIL, "host/h0/nic/eth0")]
    found = wiring(changed(leaf0_up0="spine1:d0", leaf0_up1="spine0:d0"))
    (finding,) = expect(found, wiring(CABLES, "plan"))
    assert finding.what == "leaf0:up0 is on spine1:d0, plan says spine0:d0; swapped with leaf0:up1"


def test_missing_moved_and_extra_cables():
    """A cable that is not there, one on a free port, one in a place that another should have, one nobody planned."""
    plan = wiring(CABLES, "plan")
    (missing,) = expect(wiring(changed(h1_eth0="")), plan)
    assert missing.what == "h1:eth0 has no cable, plan says leaf0:Eth1"
    (moved,) = expect(wiring(changed(h1_eth0="leaf1:Eth9")), plan)
    assert moved.what == "h1:eth0 is on leaf1:Eth9, plan says leaf0:Eth1"
    taken = expect(wiring(changed(h1_eth0="", h2_eth0="leaf0:Eth1")), plan)
    assert {finding.what for finding in taken} == {
        "h1:eth0 has no cable, plan says leaf0:Eth1, where h2:eth0 is",
        "h2:eth0 is on leaf0:Eth1, plan says leaf0:Eth2",
    }
    (extra,) = expect(wiring([*CABLES, "leaf0:x leaf1:x"]), plan)
    assert (extra.status, extra.where) == (Status.WARN, "link/leaf0:x--leaf1:x")


def test_absent_and_unplanned_nodes_are_counted_once():
    """A host that is off is one statement, not one a cable; a host that the plan does not have is a warning."""
    found = wiring([*(cable for cable in CABLES if not cable.startswith("h3:")), "h9:eth0 leaf0:Eth9"])
    findings = expect(found, wiring(CABLES, "plan"))
    assert said_of(findings) == [("plan-nodes", Status.FAIL, "fabric"), ("plan-nodes", Status.WARN, "fabric")]
    assert [finding.evidence["nodes"] for finding in findings] == [["h3"], ["h9"]]


def test_speeds_are_compared():
    """Slower than planned fails, faster warns, not told is nothing."""
    plan = wiring(CABLES, "plan", 400.0)
    slow, fast = wiring(CABLES, gbps=400.0), wiring(CABLES, gbps=400.0)
    slow.ports["h0", "eth0"].speed_gbps = 200.0
    for end in (("h0", "eth0"), ("leaf0", "Eth0")):
        fast.ports[end].speed_gbps = 800.0
    assert said_of(expect(slow, plan)) == [("plan-speed", Status.FAIL, "link/h0:eth0--leaf0:Eth0")]
    assert said_of(expect(fast, plan)) == [("plan-speed", Status.WARN, "link/h0:eth0--leaf0:Eth0")]
    assert said_of(expect(wiring(CABLES), plan)) == [("plan-cables", Status.PASS, "fabric")]


def test_the_plans_own_names_of_nics_are_understood():
    """`rail1` is eth1 on most hosts, so a swap is still a swap, and the plan's domain and case do not matter."""
    cables = [cable.replace("eth", "rail").replace("h2:", "H2.example.com:") for cable in CABLES]
    plan = wiring(cables, "plan")
    assert said_of(expect(wiring(CABLES), plan)) == [("plan-cables", Status.PASS, "fabric")]
    found = wiring(changed(h3_eth1="leaf1:Eth2", h2_eth1="leaf1:Eth3"))
    (finding,) = expect(found, plan)
    assert finding.what == "h2:eth1 is on leaf1:Eth3, plan says leaf1:Eth2; swapped with h3:eth1"


def test_a_schedulers_tree_as_a_plan_fails_where_hosts_are_elsewhere():
    """A logical plan has no cables to compare: hosts under another leaf fail."""
    one_rail = [f"h{host}:eth0 leaf{host // 4}:Eth{host}" for host in range(8)]
    leaves = {f"leaf{host // 4}": host for host in range(8)}
    assert len(leaves) == 2
    plan = wiring(
        [f"h{host}:t leaf{0 if host < 5 else 1}:h{host}" for host in range(8)], "topology.conf", logical=True
    )
    findings = expect(wiring(one_rail), plan)
    assert said_of(findings) == [("scheduler-tree", Status.FAIL, "host/h4")]


def test_a_plan_without_cables_is_no_pass():
    """Nothing to compare is told as such."""
    plan = Said("plan", "x")
    plan.node("h0", NodeKind.HOST)
    assert Status.PASS not in {finding.status for finding in expect(wiring(CABLES[:1]), plan)}
    found = Said("found", "x")
    found.node("h0", NodeKind.HOST)
    (finding,) = expect(found, plan)
    assert (finding.status, finding.required) == (Status.UNKNOWN, False)


@given(data=st.data())
def test_every_swap_of_two_cables_is_one_failure_about_both(data):
    """Any two cables of hosts whose switch ends are exchanged: one FAIL that names both."""
    first, second = sorted(data.draw(st.sets(st.integers(0, 7), min_size=2, max_size=2)))
    cables = list(CABLES)
    (near_a, far_a), (near_b, far_b) = cables[first].split(), cables[second].split()
    cables[first], cables[second] = f"{near_a} {far_b}", f"{near_b} {far_a}"
    (finding,) = expect(wiring(cables), wiring(CABLES, "plan"))
    assert finding.status is Status.FAIL
    assert {near_a, near_b} == {finding.what.split(" is on ")[0], finding.what.split("swapped with ")[1]}


def test_the_plan_has_the_last_word():
    """What a majority says of a planned cable, host or switch gives way: one fault is told once, an intention never."""
    judged = [
        Finding(check=check, status=status, where=where, what="as most others are", evidence=evidence)
        for check, status, where, evidence in (
            ("rail-cabling", Status.FAIL, ElementId.nic("h3", "eth1"), {}),
            ("rail-cabling", Status.UNKNOWN, ElementId.host("h2"), {}),
            ("host-rails", Status.FAIL, ElementId.fabric(), {"hosts": ["h0", "h1"]}),
            ("parallel-links", Status.WARN, ElementId.switch("leaf0"), {}),
            ("switch-uplinks", Status.WARN, ElementId.switch("leaf1"), {}),
            ("link-speed", Status.FAIL, ElementId.link("h0", "eth0", "leaf0", "Eth0"), {}),
        )
    ]
    others = [
        Finding(check="host-rails", status=Status.FAIL, where=ElementId.host("h9"), what="not in the plan"),
        Finding(check="link-state", status=Status.FAIL, where=ElementId.switch("leaf0"), what="it is down"),
        Finding(check="rail-cabling", status=Status.PASS, where=ElementId.fabric(), what="alike"),
    ]
    told = expect(wiring(CABLES, gbps=100.0), wiring(CABLES, "plan", gbps=100.0), [*judged, *others])
    assert told[:-1] == others
    assert (told[-1].check, told[-1].status) == ("plan-cables", Status.PASS)
    hosts_only = wiring([cable for cable in CABLES if cable.startswith("h")], "plan")
    kept = expect(wiring(CABLES, gbps=100.0), hosts_only, judged)
    assert {finding.check for finding in kept if finding in judged} == {
        "parallel-links",
        "switch-uplinks",
        "link-speed",
    }


def test_a_plan_with_its_own_names_at_both_ends():
    """rail0 and 3 for eth0 and Eth3: cables between the same two nodes are the same, and the others still differ."""
    plan = [
        cable.replace("eth", "rail").replace("Eth", "").replace("up", "9/").replace("d", "swp")
        for cable in CABLES
    ]
    assert said_of(expect(wiring(CABLES), wiring(plan, "plan"))) == [("plan-cables", Status.PASS, "fabric")]
    lacking = wiring(changed(h3_eth1=""))
    assert said_of(expect(lacking, wiring(plan, "plan"))) == [
        ("plan-cables", Status.FAIL, "host/h3/nic/rail1")
    ]


def test_speeds_that_nobody_told_are_not_as_planned():
    """The plan has speeds, the captures have none: the cables agree, and that is all that is said."""
    (told,) = expect(wiring(CABLES), wiring(CABLES, "plan", gbps=400.0))
    assert told.what == "all 12 cables are as plan says; speeds of 12 are not known"
