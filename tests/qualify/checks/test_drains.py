"""Who is drained: hosts with a fault of their own; nobody where a fault of many is no fault of each."""

from __future__ import annotations

import json

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.checks import judge
from nettune.qualify.drains import decide, leaves_cabled, leaves_heard, withheld_finding
from nettune.qualify.folding import folded
from topology.builder import FabricBuilder
from topology.fabric import NodeKind

HOSTS = [f"h{n}" for n in range(100)]
LEAVES = {host: {"eth0": f"leaf{n // 10}", "mlx5_0": f"leaf{n // 10}"} for n, host in enumerate(HOSTS)}


def fault(where, check="port-state", status=Status.FAIL):
    """A finding."""
    return Finding(check=check, status=status, where=where, what="is bad", fix="mend it")


def of_host(host, **fields):
    """A finding about a host's NIC."""
    return fault(ElementId.nic(host, "mlx5_0"), **fields)


def test_a_host_with_a_fault_is_drained_others_are_not():
    """Of FAIL only; of a cable the end that is a host; nothing of switches, the fabric and hosts that were not judged."""
    cable = fault(ElementId.link("h7", "eth0", "leaf0", "p7"))
    other = [fault(ElementId.switch("leaf3")), fault(ElementId.fabric()), of_host("stranger")]
    harmless = [of_host("h2", status=Status.UNKNOWN), of_host("h3", status=Status.WARN)]
    decided = decide([of_host("h1"), cable, *other, *harmless], HOSTS, LEAVES)

    assert decided.names == ["h1", "h7"]
    assert not decided.withheld
    assert decided.hosts[0].element == "host/h1/nic/mlx5_0"


def test_the_share_is_a_limit_on_each_side():
    """5 of 100 are drained, 6 are not; the first host always is, unless the share is 0."""
    spread = [of_host(f"h{10 * n}") for n in range(6)]
    assert len(decide(spread[:5], HOSTS, LEAVES).names) == 5
    withheld = decide(spread, HOSTS, LEAVES)
    assert withheld.names == []
    assert withheld.withheld.startswith(
        "6 of 100 hosts (6%) would be drained, more than 5%; 6 of them fail port-state"
    )
    assert len(decide(spread, HOSTS, LEAVES, 0.06).names) == 6
    assert decide(spread[:1], ["h0", "h1"], {}).names == ["h0"]
    assert decide(spread[:1], ["h0", "h1"], {}, 0.0).withheld
    assert decide([], [], {}).names == []


def test_a_whole_leaf_is_withheld_and_named():
    """Few enough by their share, but all of one switch: the switch is the common element."""
    some = [fault(ElementId.host(f"h{n}"), check="mtu") for n in range(40, 50)]
    decided = decide([*some, of_host("h3")], HOSTS, LEAVES, 0.5)

    assert "all of leaf4" in decided.withheld
    assert decided.common == "switch/leaf4"
    assert "10 of them fail mtu, 10 of those on leaf4" in decided.withheld
    assert decide(some[:9], HOSTS, LEAVES, 0.5).names == [f"h{n}" for n in range(40, 49)]
    assert withheld_finding(decided).status is Status.FAIL


def test_without_a_common_switch_it_is_the_fabric():
    """Every tenth host fails the same check: a setting, not a leaf."""
    decided = decide([of_host(host, check="mtu") for host in HOSTS[::7]], HOSTS, LEAVES)

    one_switch = decide(
        [of_host(host) for host in HOSTS[:9]], HOSTS, {host: {"mlx5_0": "sw"} for host in HOSTS}
    )

    assert (decided.common, one_switch.common) == ("fabric", "fabric")
    assert "15 of them fail mtu" in decided.withheld
    apart = decide([of_host("h1", check="mtu"), of_host("h2", check="xid")], HOSTS[:9], LEAVES)
    assert apart.withheld.endswith("each for another check: mtu, xid")


def test_the_rail_of_the_faulty_nics_is_the_common_element():
    """With a leaf a rail all hosts are on all leaves: the NICs that fail tell which."""
    rails = {host: {f"mlx5_{rail}": f"rail{rail}" for rail in range(8)} for host in HOSTS}
    decided = decide([fault(ElementId.nic(host, "mlx5_5")) for host in HOSTS[:60]], HOSTS, rails)

    assert decided.common == "switch/rail5"


def test_leaves_of_captures_and_of_a_fabric(sound):
    """What LLDP heard, under the names of interface and RDMA device; the cables of a fabric."""
    heard = leaves_heard([sound(0)])["h0"]
    assert (heard["eth1"], heard["mlx5_1"]) == ("leaf1", "leaf1")

    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    builder.node("sw", NodeKind.SWITCH)
    builder.port("h0", "eth0")
    builder.port("h0", "eth1")
    builder.port("sw", "p0")
    builder.link(("h0", "eth0"), ("sw", "p0"))
    assert leaves_cabled(builder.build()) == {"h0": {"eth0": "sw"}}


def test_hostile_names_of_neighbours_are_no_leaves(sound):
    """What cannot name an element is left out, and nothing is raised."""
    text = json.dumps({"lldp": [{"interface": [{"name": "eth0", "via": "LLDP", "chassis": [{"name": [{"value": "a b\x1b"}]}],
                       "port": [{"id": [{"type": "ifname", "value": "x"}]}]}]}]})  # fmt: skip
    heard = leaves_heard([sound(0, commands={"lldpcli -f json0 show neighbors details": text})])
    assert "eth0" not in heard["h0"]


def test_what_many_hosts_say_is_said_once(sound):
    """With a hostlist; single hosts and other sentences stay."""
    same = [of_host(f"h{n}") for n in range(3)]
    few = folded([*same, of_host("h9", check="mtu")])

    assert [one.what for one in few] == ["nic/mlx5_0 of 3 hosts (h[0-2]): is bad", "is bad"]
    assert few[0].evidence["hosts"] == ["h0", "h1", "h2"]
    found = judge([sound(n) for n in range(4)])
    assert len(folded(found)) < len(found)
