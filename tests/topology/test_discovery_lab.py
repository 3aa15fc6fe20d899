from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from nettune.checks import Finding, Status
from nettune.lab import Lab, LabSpec
from nettune.launch import Command, run
from topology.discovery import Discovery, discover
from topology.discovery.collect import collect
from topology.discovery.counters import link_bytes, port_counters
from topology.fabric import Fabric, NodeKind
from topology.routing import FlowKey, Routing

pytestmark = pytest.mark.lab

# Runs on a host: sends packets whose time to live ends at each hop of a flow; routers answer with the address of the
# port that the packet came in by. Standard input: [[proto, saddr, daddr, sport, dport], ...].
PROBER = r"""
import json, select, socket, struct, sys, time
HOPS = 3
flows = json.load(sys.stdin)
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
back = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
back.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
back.setblocking(False)
answers = {}
def packet(number, ttl):
    proto, src, dst, sport, dport = flows[number]
    if proto == 17:
        inner = struct.pack("!HHHH", sport, dport, 8, 0)
    else:
        inner = struct.pack("!HHIIBBHHH", sport, dport, 1, 0, 0x50, 2, 1000, 0, 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(inner), number * 4 + ttl, 0, ttl, proto, 0,
                       socket.inet_aton(src), socket.inet_aton(dst))
    return head + inner, (dst, 0)
def listen(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(answers) < len(flows) * HOPS:
        if select.select([back], [], [], max(0, until - time.monotonic()))[0]:
            data, (router, _) = back.recvfrom(2048)
            at = (data[0] & 15) * 4
            if data[at] == 11:
                ident = struct.unpack("!H", data[at + 12 : at + 14])[0]
                answers[ident] = router
before = -1
while before < len(answers):
    before = len(answers)
    for number in range(len(flows)):
        for ttl in range(1, HOPS + 1):
            if number * 4 + ttl not in answers:
                out.sendto(*packet(number, ttl))
        if number % 16 == 15:
            listen(0.002)
    listen(0.3)
print(json.dumps([[answers.get(n * 4 + ttl) for ttl in range(1, HOPS + 1)] for n in range(len(flows))]))
"""


def discovered(lab: Lab) -> Discovery:
    # A lab's hosts may inherit ip_forward=1 from a machine that runs containers: roles are given, as an inventory does.
    roles = dict.fromkeys(lab.hosts, "host") | dict.fromkeys(lab.switches, "switch")
    return discover(partial(run, lab.launcher()), lab.nodes, roles=roles)


def nic_of(fabric: Fabric, host: str, rail: int = 0) -> int:
    return fabric.nics(host)[rail]


def random_flows(fabric: Fabric, source: str, count: int, seed: int) -> list[FlowKey]:
    draw = random.Random(seed)
    others = [host for host in fabric.hosts if host != source]
    return [
        FlowKey(
            nic_of(fabric, source),
            nic_of(fabric, draw.choice(others)),
            draw.choice((6, 17)),
            draw.randrange(1024, 65536),
            draw.randrange(1024, 65536),
        )
        for _ in range(count)
    ]


def probed(lab: Lab, fabric: Fabric, source: str, flows: Sequence[FlowKey]) -> list[list[str | None]]:
    """Addresses of the ports that the routers on the way received each flow by."""
    address = fabric.ports.address
    wanted = [[f.proto, address[f.src_port], address[f.dst_port], f.sport, f.dport] for f in flows]
    command = Command(source, [sys.executable, "-I", "-S", "-c", PROBER], stdin=json.dumps(wanted).encode())
    (outcome,) = run(lab.launcher(), [command], 60)
    assert outcome.ok, outcome.stderr
    found: list[list[str | None]] = json.loads(outcome.stdout)
    return found


def predicted(routing: Routing, flows: Sequence[FlowKey]) -> list[list[str]]:
    """The same out of the routing; the last link leads to the host, which does not answer."""
    fabric = routing.fabric
    receivers = fabric.directed_ports[:, 1]
    return [
        [fabric.ports.address[int(receivers[link])] for link in path[:-1]] for path in routing.paths(flows)
    ]


@pytest.mark.parametrize(
    ("spines", "parallel", "seed"), [(2, 1, 1), (3, 1, 77), (4, 1, 4294967295), (3, 2, 5)]
)
def test_predicted_paths_are_those_that_packets_take(spines, parallel, seed):
    """Routing.paths equals the routers' answers for random TCP and UDP 5-tuples, over every number of next hops."""
    spec = LabSpec(
        name="disc-paths",
        leaves=3,
        spines=spines,
        hosts_per_leaf=2,
        parallel_uplinks=parallel,
        hash_seed=seed,
    )
    with Lab.up(spec) as lab:
        found = discovered(lab)
        flows = random_flows(found.fabric, "h0", 240, seed)
        answers = probed(lab, found.fabric, "h0", flows)
        expected = predicted(found.routing, flows)
    assert all(None not in path[: len(want)] for path, want in zip(answers, expected, strict=True))
    wrong = [n for n, want in enumerate(expected) if answers[n][: len(want)] != want]
    assert wrong == []
    used = {answer[1] for answer, want in zip(answers, expected, strict=True) if len(want) == 3}
    assert len(used) == spines * parallel, "the flows must have tried every uplink"


def test_paths_follow_the_routes_around_a_link_that_is_down():
    """After a link is withdrawn the discovered routing is that of the remaining links, exactly."""
    with Lab.up(LabSpec(name="disc-down", leaves=2, spines=3, hosts_per_leaf=2)) as lab:
        lab.faults.apply("link-down")
        found = discovered(lab)
        flows = random_flows(found.fabric, "h0", 120, 3)
        answers = probed(lab, found.fabric, "h0", flows)
        expected = predicted(found.routing, flows)
    assert [a[: len(want)] for a, want in zip(answers, expected, strict=True)] == expected
    assert worst(found).check == "link-state"
    assert str(worst(found).where).startswith("link/")


@pytest.mark.parametrize(
    "spec",
    [
        LabSpec(name="disc-same", leaves=3, spines=2, hosts_per_leaf=2, rails=2, parallel_uplinks=2),
        LabSpec(
            name="disc-rail",
            leaves=4,
            spines=2,
            hosts_per_leaf=3,
            rails=2,
            rail_wiring="per-rail",
            host_rate="200mbit",
            uplink_rate="50mbit",
            mtu=9000,
            host_names="node{n}",
        ),
        LabSpec(name="disc-one", leaves=1, spines=0, hosts_per_leaf=3),
    ],
)
def test_discovery_finds_what_the_lab_built(spec):
    """Nodes, cables, addresses, speeds, MTU and rails of the fabric are those of the lab, and nothing is wrong."""
    with Lab.up(spec) as lab:
        wiring = lab.wiring
        found = discovered(lab)
    fabric = found.fabric
    assert fabric.hosts == tuple(wiring.hosts)
    assert fabric.switches == (*wiring.leaves, *wiring.spines)
    expected = {link.key: link for link in wiring.links}
    assert {str(fabric.link_element(row))[5:] for row in range(len(fabric.links.port_a))} == set(expected)
    for link in wiring.links:
        for end in link.ends:
            port = fabric.port_row(end.node, end.iface)
            assert fabric.ports.address[port] == end.address
            assert fabric.ports.speed_gbps[port] == pytest.approx(link.rate_gbps)
            assert fabric.ports.mtu[port] == spec.mtu
            rail = int(end.iface[3:]) if end.node in wiring.hosts else -1
            assert fabric.ports.rail[port] == rail
    tiers = {"leaf": 1, "spin": 2}
    assert all(fabric.nodes.tier[row] == tiers.get(name[:4], 0) for row, name in enumerate(fabric.nodes.name))
    assert [f for f in found.findings if f.status in {Status.FAIL, Status.WARN}] == []
    reference = Routing.shortest_paths(fabric)
    nics = np.flatnonzero(fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST).tolist()
    for src in nics[:3]:
        for dst in nics:
            if fabric.ports.node[src] != fabric.ports.node[dst]:
                assert found.routing.spread(src, dst) == pytest.approx(reference.spread(src, dst))


def worst(found: Discovery) -> Finding:
    return found.findings[0]


@pytest.mark.parametrize(
    ("wiring", "host", "rail", "leaf"),
    [
        ("per-rail", "h1", "1", "leaf0"),
        ("per-rail", "h4", "0", "leaf0"),
        ("per-rail", "h5", "1", "leaf1"),
        ("same-leaf", "h4", "1", "leaf2"),
        ("same-leaf", "h0", "0", "leaf3"),
        ("same-leaf", "h11", "1", "leaf0"),
    ],
)
def test_a_miswired_rail_is_named(wiring, host, rail, leaf):
    """A NIC cabled to another leaf is the first finding: it names the NIC, the leaf it is on and where it belongs."""
    spec = LabSpec(name="disc-wrong", leaves=4, spines=2, hosts_per_leaf=3, rails=2, rail_wiring=wiring)
    with Lab.up(spec) as lab:
        nic = f"eth{rail}"
        home = next(
            link.upper.node for link in lab.wiring.links if (link.lower.node, link.lower.iface) == (host, nic)
        )
        lab.faults.apply("miswire", host=host, rail=rail, leaf=leaf)
        found = discovered(lab)
    failed = [finding for finding in found.findings if finding.status is Status.FAIL]
    assert [(f.check, str(f.where)) for f in failed] == [("rail-cabling", f"host/{host}/nic/{nic}")]
    assert failed[0].evidence["is_on"] == leaf
    assert failed[0].evidence["should_be_on"] == home


def test_faults_of_links_and_spines_are_named_and_go_with_their_undo():
    """An MTU mismatch and a spine that is out are each the only failure found, and none is left after undo."""
    with Lab.up(LabSpec(name="disc-faults", leaves=2, spines=2, hosts_per_leaf=2)) as lab:
        seen = {}
        for kind in ("mtu", "spine-out", "slow-link"):
            fault = lab.faults.apply(kind)
            failures = [f for f in discovered(lab).findings if f.status is Status.FAIL]
            seen[kind] = [(f.check, str(f.where)) for f in failures]
            expected = {str(element) for element in fault.where}
            lab.faults.undo(fault.id)
            if kind != "slow-link":
                assert len(seen[kind]) == 1
                assert seen[kind][0][1] in expected
        assert [f for f in discovered(lab).findings if f.status is Status.FAIL] == []
    assert seen["mtu"][0][0] == "link-mtu"
    assert seen["spine-out"] == [("link-state", "switch/spine1")]
    assert seen["slow-link"] == [], "a slow link keeps its nominal speed; only transfers show it"


def test_counters_of_captures_tell_the_bytes_of_a_transfer():
    """Between two captures a burst of UDP shows on exactly the links of its predicted path."""
    sender = (
        "import socket,sys; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind((sys.argv[1],40001)); "
        "[s.sendto(bytes(1000),(sys.argv[2],40002)) for _ in range(30)]"
    )
    with Lab.up(LabSpec(name="disc-count", leaves=2, spines=2, hosts_per_leaf=2)) as lab:
        through = partial(run, lab.launcher())
        found = discovered(lab)
        fabric = found.fabric
        src, dst = nic_of(fabric, "h0"), nic_of(fabric, "h3")
        before = port_counters(collect(through, lab.nodes), fabric)
        ends = [fabric.ports.address[src], fabric.ports.address[dst]]
        (sent,) = through([Command("h0", [sys.executable, "-I", "-S", "-c", sender, *ends])], 20)
        assert sent.ok, sent.stderr
        after = port_counters(collect(through, lab.nodes), fabric)
    moved = link_bytes(fabric, before, after)
    path = found.routing.path(FlowKey(src, dst, 17, 40001, 40002))
    assert set(np.flatnonzero(moved >= 30 * 1000).tolist()) == set(path)
