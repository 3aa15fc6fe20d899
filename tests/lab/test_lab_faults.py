"""Every fault is seen by a real transfer or a counter, and is gone after its undo."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nettune.elements import ElementId
from nettune.errors import InputError, UnavailableError
from nettune.lab import Lab, LabSpec
from nettune.lab.faults.registry import FAULTS

pytestmark = pytest.mark.lab

NOMINAL_GBPS = 0.05

SEND_UDP = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], 7000))
for n in range(int(sys.argv[2])):
    sock.send(b"x" * 400)
    if n % 10 == 9:
        time.sleep(0.001)
"""
COUNT_UDP = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
sock.bind(("", 7000))
print("ready", flush=True)
n = 0
try:
    while sock.recv(1000):
        n += 1
        sock.settimeout(0.7)
except TimeoutError:
    print(n)
"""
SPIN = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
print(time.process_time() / float(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def untouched(lab):
    return snapshot(lab)


@pytest.fixture(autouse=True)
def _whole_again(lab, untouched):
    """After each test no fault is active and every port, route and rule is as it was at first."""
    faults_before = lab._site.state.counter
    yield
    lab.faults.undo("all")
    assert lab.faults.active() == []
    if lab._site.state.counter == faults_before:
        return
    deadline = time.monotonic() + 5
    while (now := snapshot(lab)) != untouched:
        assert time.monotonic() < deadline, set(now) ^ set(untouched)
        time.sleep(0.05)


# Port states, MTUs, routes, rules and queues of every node; which plain queue stands in a bucket does not matter.
SNAPSHOT = """
for node in $(ls /run/netns); do
    ip -n $node -o link | sed "s/^[0-9]*: /$node link /; s/link.ether.*//; s/@if[0-9]*//"
    ip -n $node -o route | sed "s/^/$node route /"
    ip -n $node rule | sed "s/^/$node rule /"
    tc -n $node qdisc | grep -v bfifo | sed "s/^/$node /"
done
"""


def snapshot(lab):
    done = subprocess.run(
        lab.launcher().root_argv(["sh", "-c", SNAPSHOT]), capture_output=True, text=True, check=True
    )
    return sorted(done.stdout.splitlines())


def test_slow_link_both_ways_keeps_the_nominal_rate_of_the_port(lab, transfer, ip_json):
    """A host link at 30%: both directions give about that; the root qdisc still tells 50 Mbit/s; a bystander is fast."""
    fault = lab.faults.apply("slow-link", link="h4", to="30%")
    rates = transfer(lab, [("h4", "h0"), ("h2", "h4"), ("h6", "h7")])
    rates[2] = max(rates[2], *transfer(lab, [("h6", "h7")], full=True))
    root = [row for row in ip_json(lab, "h4", "qdisc", "show", tool="tc") if row.get("root")]

    assert fault.where == ("link/h4:eth0--leaf2:d0",)
    for rate in rates[:2]:
        assert 0.2 * NOMINAL_GBPS < rate < 0.31 * NOMINAL_GBPS
    assert rates[2] > 0.85 * NOMINAL_GBPS
    assert [row["options"]["rate"] * 8 for row in root if row["kind"] == "tbf"] == [50e6]

    lab.faults.undo(fault.id)

    assert transfer(lab, [("h4", "h0")], full=True)[0] > 0.85 * NOMINAL_GBPS


def test_one_way_slow_is_slow_one_way(lab, transfer):
    """Away from the host slow, towards it fast; the guilty port is named first."""
    fault = lab.faults.apply("one-way-slow", link="h4", to=40)
    away = transfer(lab, [("h4", "h0")])[0]
    towards = transfer(lab, [("h0", "h4")], full=True)[0]

    assert fault.where == ("host/h4/nic/eth0", "link/h4:eth0--leaf2:d0")
    assert 0.3 * NOMINAL_GBPS < away < 0.41 * NOMINAL_GBPS
    assert towards > 0.85 * NOMINAL_GBPS


def test_slow_uplink_named_by_its_ends(lab, transfer):
    """An uplink is hit by its name, in the grammar of findings too."""
    link = ElementId.link("leaf0", "u0", "spine0", "d0")
    lab.faults.apply("slow-link", link=link, to="20%")
    lab.faults.apply("link-down", link="leaf0:u1")  # so that all traffic of leaf0 takes the slow one

    assert 0.1 * NOMINAL_GBPS < transfer(lab, [("h0", "h7")])[0] < 0.21 * NOMINAL_GBPS


@pytest.mark.parametrize("loss", [0.05, 0.01])
def test_lossy_link_loses_the_stated_share(lab, loss):
    """Datagrams that arrive are fewer by the loss, within five standard deviations."""
    count = 6000
    lab.faults.apply("lossy-link", link="h4", loss=f"{loss * 100}%", direction="down")
    receiver = subprocess.Popen(
        lab.launcher().argv("h4", [sys.executable, "-c", COUNT_UDP]), stdout=subprocess.PIPE, text=True
    )
    assert receiver.stdout.readline() == "ready\n"
    sent = lab.exec("h5", [sys.executable, "-c", SEND_UDP, "h4", str(count)], timeout_s=30)
    arrived = int(receiver.communicate(timeout=30)[0])

    assert sent.returncode == 0
    deviation = (count * loss * (1 - loss)) ** 0.5
    assert abs(count - arrived - count * loss) < 5 * deviation


def test_lossy_link_slows_tcp_and_counts_wire_packets(lab, transfer):
    """5% both ways: reno falls well below the rate; the drops are 5% of the packets that arrived at the port."""
    before = lab.counters()["leaf2", "d0"]
    fault = lab.faults.apply("lossy-link", link="h4", loss=5)
    rate = transfer(lab, [("h4", "h0")], 1.5)[0]
    packets = lab.counters()["leaf2", "d0"][2] - before[2]
    dropped = lab._site.ask("dropped", node="leaf2", table="nettune_loss_d0")

    assert rate < 0.75 * NOMINAL_GBPS
    assert packets > 800
    assert abs(dropped - 0.05 * packets) < 5 * (0.05 * packets) ** 0.5

    lab.faults.undo(fault.id)

    assert transfer(lab, [("h4", "h0")], full=True)[0] > 0.85 * NOMINAL_GBPS


def test_refused_nf_tables_part_is_named(lab):
    """What nf_tables refuses is told by the name of the part: here the hook, on a port whose name cannot be."""
    with pytest.raises(
        UnavailableError, match="this kernel lacks nf_tables random drop: netdev ingress hook"
    ):
        lab._site.ask("drop", node="h0", iface="n" * 20, table="nettune_loss_none", per_million=10)


def test_fault_that_fails_half_way_is_put_right(lab, monkeypatch):
    """The second port refuses: the first is as before, and nothing is recorded."""
    ask = lab._site.ask

    def refuse(op, **request):
        if op == "drop" and request["node"] == "leaf2":
            return ask(op, **{**request, "iface": "n" * 20})
        return ask(op, **request)

    monkeypatch.setattr(lab._site, "ask", refuse)
    with pytest.raises(UnavailableError, match="netdev ingress hook"):
        lab.faults.apply("lossy-link", link="h4")
    monkeypatch.undo()

    assert lab.faults.active() == []
    lab._site.ask("drop", node="h4", iface="eth0", table="nettune_loss_eth0", per_million=10)
    assert lab._site.ask("dropped", node="h4", table="nettune_loss_eth0") == 0
    lab._site.ask("undrop", node="h4", table="nettune_loss_eth0")


def test_mtu_mismatch_is_a_black_hole_for_large_packets(lab, transfer):
    """Small packets pass, a TCP transfer towards the small end stalls, and its port counts drops."""
    lab.faults.apply("mtu", link="h4", mtu=1000)
    before = lab.counters()["leaf2", "d0"]
    rate = transfer(lab, [("h4", "h0")], 0.6)[0]
    after = lab.counters()["leaf2", "d0"]
    small = lab.exec("h4", [sys.executable, "-c", SEND_UDP, "h0", "1"])

    assert rate == pytest.approx(0, abs=0.02 * NOMINAL_GBPS)
    assert after[4] > before[4]
    assert small.returncode == 0


def test_link_down_is_routed_around_by_all_leaves(lab, transfer, ip_json):
    """Every leaf stops using the spine towards the leaf that it lost; traffic flows; undo brings routes back."""
    fault = lab.faults.apply("link-down", link="leaf0:u0")
    far = [row for row in ip_json(lab, "leaf2", "route") if row["dst"] == "10.0.0.0/24"]
    near = [row for row in ip_json(lab, "leaf0", "link") if row["ifname"] == "u0"]
    rates = transfer(lab, [("h0", "h5"), ("h6", "h2")], full=True)

    assert [row.get("dev") for row in far] == ["u1"]
    assert "NO-CARRIER" in near[0]["flags"]
    assert min(rates) > 0.85 * NOMINAL_GBPS

    lab.faults.undo(fault.id)

    back = [row for row in ip_json(lab, "leaf2", "route") if row["dst"] == "10.0.0.0/24"]
    assert [hop["dev"] for hop in back[0]["nexthops"]] == ["u0", "u1"]


def test_all_uplinks_of_a_leaf_down_and_up_again(lab, transfer):
    """The kernel deletes the leaf's routes with its last uplink; undo re-adds them."""
    first = lab.faults.apply("link-down", link="leaf1:u0")
    second = lab.faults.apply("link-down", link="leaf1:u1")
    assert transfer(lab, [("h2", "h3")], full=True)[0] > 0.85 * NOMINAL_GBPS

    lab.faults.undo(first.id)
    lab.faults.undo(second.id)

    assert transfer(lab, [("h2", "h0")], full=True)[0] > 0.85 * NOMINAL_GBPS


def test_spine_out_moves_all_traffic_to_the_other(lab, transfer):
    """No packet meets the spine that is out, and nothing stalls."""
    fault = lab.faults.apply("spine-out", spine="spine1")
    before = lab.counters()
    rates = transfer(lab, [("h0", "h2"), ("h4", "h6")], full=True)
    after = lab.counters()

    assert fault.where == ("switch/spine1",)
    assert min(rates) > 0.85 * NOMINAL_GBPS
    for port in range(4):
        assert after["spine1", f"d{port}"][2] == before["spine1", f"d{port}"][2]
        assert after["spine0", f"d{port}"][2] > before["spine0", f"d{port}"][2] + 100


def test_flap_is_seen_as_lost_carrier_and_lost_rate(lab, transfer, ip_json):
    """The host's NIC counts carrier changes while a transfer over the link suffers."""
    lab.faults.apply("flap", link="h4", down="50ms", every="0.25s")
    before = int(lab.exec("h4", ["cat", "/proc/net/dev"]).returncode)
    changes = [carrier_changes(ip_json, lab)]
    rate = transfer(lab, [("h4", "h0")], 1.2)[0]
    changes.append(carrier_changes(ip_json, lab))

    assert before == 0
    assert changes[1] >= changes[0] + 4
    assert rate < 0.8 * NOMINAL_GBPS


def carrier_changes(ip_json, lab):
    rows = ip_json(lab, "h4", "-d", "-s", "-s", "link", "show", "eth0")
    return int(rows[0]["stats64"]["tx"]["carrier_changes"])


def test_flapping_uplink_gets_its_routes_back_each_time(lab, ip_json):
    """The spine's only route to the leaf goes with its port; between outages it is there again."""
    lab.faults.apply("flap", link="leaf0:u0", down="20ms", every="200ms")
    seen: set[bool] = set()
    deadline = time.monotonic() + 10
    while len(seen) < 2 and time.monotonic() < deadline:
        routes = ip_json(lab, "spine0", "route")
        seen.add(any(row["dst"] == "10.0.0.0/24" and row.get("dev") == "d0" for row in routes))

    assert seen == {True, False}


METHODS = ["signals"] + (["cgroup"] if os.geteuid() == 0 else [])


@pytest.mark.parametrize("method", METHODS)
def test_straggler_holds_for_running_and_for_new_processes(lab, method):
    """A host at 20% of a CPU: a process that ran before and one that comes later get less than half of one."""
    early = subprocess.Popen(
        lab.launcher().argv("h4", [sys.executable, "-c", SPIN, "1.5"]), stdout=subprocess.PIPE, text=True
    )
    fault = lab.faults.apply("straggler", host="h4", cpu="20%", method=method)
    early_share = float(early.communicate(timeout=20)[0])
    share = float(lab.exec("h4", [sys.executable, "-c", SPIN, "1"]).stdout)
    lab.faults.undo(fault.id)

    assert early_share < 0.5
    assert 0.03 < share < 0.45
    assert lab.exec("h4", ["true"]).returncode == 0


def test_straggler_holds_for_a_process_that_enters_by_entry(lab):
    """The control group of the host's `Entry` exists while the fault is active and is gone after it."""
    if os.geteuid() != 0:
        pytest.skip("control groups of the machine belong to root")
    fault = lab.faults.apply("straggler", host="h1", cpu="10%", method="cgroup")
    procs = lab.launcher().entry("h1").cgroup_procs
    code = f"open({procs!r}, 'w').write('0')\n" + SPIN
    share = float(
        subprocess.run(
            lab.launcher().root_argv([sys.executable, "-c", code, "1"]),
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    lab.faults.undo(fault.id)

    assert share < 0.3
    assert not Path(procs).exists()


def test_miswired_host_talks_through_the_wrong_leaf(lab, transfer, ip_json):
    """The host sits in the other leaf's prefix, reaches all others and is found by its name."""
    fault = lab.faults.apply("miswire", host="h4", leaf="leaf0")
    addresses = [a["local"] for row in ip_json(lab, "h4", "address") for a in row["addr_info"]]

    assert fault.where == ("host/h4/nic/eth0", "switch/leaf0")
    assert ("h4", "eth0", "leaf0", "d2") in lab.links
    assert "10.0.0.5" in addresses
    assert min(transfer(lab, [("h4", "h7"), ("h0", "h4")])) > 0.8 * NOMINAL_GBPS

    lab.faults.undo(fault.id)

    assert ("h4", "eth0", "leaf2", "d0") in lab.links
    assert transfer(lab, [("h0", "h4")], full=True)[0] > 0.85 * NOMINAL_GBPS


def test_miswired_second_rail_keeps_its_own_route():
    """On two rails only the moved NIC changes; what is bound to it still leaves by it."""
    code = "import socket; socket.create_connection(('h0', 22), 3, ('h4-eth1', 0))"
    with Lab.up(LabSpec(name="miswired", leaves=2, spines=2, hosts_per_leaf=3, rails=2)) as lab:
        lab.faults.apply("miswire", host="h4", rail=1)
        before = lab.counters()["h4", "eth1"][3]
        assert ("h4", "eth1", "leaf0", "d6") in lab.links
        assert "refused" in lab.exec("h4", [sys.executable, "-c", code], timeout_s=10).stderr
        assert lab.counters()["h4", "eth1"][3] > before
        lab.faults.undo("all")
        assert "refused" in lab.exec("h4", [sys.executable, "-c", code], timeout_s=10).stderr


def test_another_process_sees_and_undoes_a_fault(lab):
    """Faults are kept in the lab's state, ids are not used twice, and undo works from anywhere."""
    first = lab.faults.apply("mtu", link="h1")
    other = Lab.load(lab.name)

    assert other.faults.active() == [first]
    assert other.faults.undo(first.id) == [first]
    other.close()
    assert lab.faults.active() == []
    assert lab.faults.apply("mtu", link="h1").id != first.id


def test_fault_in_the_way_of_another_is_refused(lab):
    """Two faults on one thing could not be undone apart."""
    lab.faults.apply("slow-link", link="h4")
    with pytest.raises(InputError, match=r"fault f\d+ \(slow-link\) is in the way: .*; undo it first"):
        lab.faults.apply("one-way-slow", link="h4")
    with pytest.raises(InputError, match="is in the way"):
        lab.faults.apply("miswire", host="h4")
    lab.faults.apply("mtu", link="h4")


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        ("meteor", {}, "unknown fault 'meteor'; known: slow-link"),
        ("slow-link", {"size": 3}, "slow-link has no parameter 'size'; it has link, to"),
        ("slow-link", {"to": "90%"}, "to=90% is out of range; use 10% to 85%"),
        ("slow-link", {"to": "fast"}, "to='fast' is no percentage"),
        ("slow-link", {"to": "nan"}, "out of range"),
        ("slow-link", {"link": "h99"}, "no link 'h99'"),
        ("one-way-slow", {"direction": "left"}, "direction='left' is unknown; use up, down"),
        ("lossy-link", {"loss": "6%"}, "use 0.05% to 5%"),
        ("lossy-link", {"loss": 0.01}, "use 0.05% to 5%"),
        ("mtu", {"mtu": 1500}, "use 576 to 1499"),
        ("mtu", {"mtu": "²"}, "out of range"),
        ("flap", {"down": "1s", "every": "0.5s"}, "use 5ms <= down < every"),
        ("flap", {"down": "1"}, "no known unit of time"),
        ("straggler", {"host": "leaf0"}, "no host 'leaf0'"),
        ("spine-out", {"spine": "spine9"}, "no spine 'spine9'; it has spine0, spine1"),
        ("miswire", {"leaf": "leaf2"}, "leaf=leaf2 is no other leaf"),
        ("miswire", {"rail": 1}, "h4 has rails 0 to 0"),
    ],
)
def test_bad_parameter_is_one_line_and_changes_nothing(lab, kind, params, words):
    """A fault that cannot be is refused before anything is touched."""
    with pytest.raises(InputError) as caught:
        lab.faults.apply(kind, **params)

    assert words in str(caught.value)
    assert lab.faults.active() == []


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_every_kind_works_with_its_defaults_and_is_undone(lab, kind):
    """The contract of a fault: apply without parameters, recorded with valid element names, undone without trace."""
    fault = lab.faults.apply(kind)

    assert [ElementId(name) for name in fault.where]
    assert fault in lab.faults.active()
    assert "\n" not in fault.what
