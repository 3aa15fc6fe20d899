"""Paths by port counters: a network that forwards by known hashes and counts, noise and losses, files of readings."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Status
from nettune.errors import InputError, NettuneError
from nettune.lab import Lab, LabSpec
from nettune.launch import run
from nettune.launch.base import Outcome
from topology.discovery.live import discover
from topology.ecmp import HashSpec
from topology.probing.capturefile import read_captures
from topology.probing.counters import CounterPlan, path_by_counters, probe_by_counters
from topology.probing.paths import agreement, plan
from topology.routing import FlowKey, Routing

HASH = HashSpec("linux-multipath-fields", 7)


class Network:
    """Answers the commands of `probe_by_counters`: forwards each packet as the routing's hashes say, and counts it."""

    def __init__(self, routing, *, lost=0.0, noise=0, spray=False, late=0, silent=(), without=()):
        self.routing, self.sent = routing, defaultdict(int)
        self.lost, self.noise, self.spray = lost, noise, spray
        self.late, self.silent, self.without = late, silent, without
        self.waiting, self.reads = 0, 0
        self.shown = {}

    def __call__(self, commands, timeout_s):
        self.reads += commands[0].argv[0] == "cat"
        return [self._cat(one) if one.argv[0] == "cat" else self._send(one) for one in commands]

    def _send(self, command):
        fabric = self.routing.fabric
        (task,) = json.loads(command.stdin[int(command.argv[-1]) :])
        refused, sent = {}, 0
        for index, ((src, sport, dst, dport), count) in enumerate(
            zip(task["flows"], task["counts"], strict=True)
        ):
            if sport in self.silent:
                refused[str(index)] = "Address already in use"
                continue
            sent += count
            pair = fabric.port_of_address(src), fabric.port_of_address(dst)
            if self.spray:
                for probability, links in self.routing.alternatives(*pair):
                    for link in links[1 : task["ttl"]]:
                        self.sent[link] += round(probability * count)
                continue
            for link in self.routing.path(FlowKey(*pair, task["proto"], sport, dport))[1 : task["ttl"]]:
                self.sent[link] += round(count * (1 - self.lost))
        self.waiting = self.late
        done = {"refused": refused, "sent": sent}
        return Outcome(command.host, (), 0, json.dumps([done]), "", False, 0.1)

    def _cat(self, command):
        fabric, host = self.routing.fabric, command.host
        if host in self.silent:
            return Outcome(host, (), 255, "", "ssh: no route\n", False, 0.1)
        if self.waiting:
            self.waiting -= 1
        else:
            self.shown[host] = dict(self.sent)
        lines = ["Inter-|   Receive |  Transmit", " face |bytes packets |bytes packets"]
        for link, (port, _) in enumerate(fabric.directed_ports.tolist()):
            if fabric.nodes.name[fabric.ports.node[port]] == host and host not in self.without:
                self.sent[link] += self.noise
                count = self.shown.get(host, {}).get(link, 0)
                lines.append(f" {fabric.ports.name[port]}: 1 2 0 0 0 0 0 0 99 {count} 0 0 0 0 0 0")
        return Outcome(host, (), 0, "\n".join(lines), "", False, 0.1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def fabric_and_plan(clos, sports, *, parallel=1, **more):
    fabric = clos(3, 3, 1, parallel=parallel)
    routing = Routing.shortest_paths(fabric, HASH)
    nics = [fabric.nics(host)[0] for host in fabric.hosts]
    made = plan(routing, [(nics[0], nics[1]), (nics[2], nics[1])], sports)
    return routing, CounterPlan(made, **more)


@given(first=st.integers(1024, 60000), count=st.integers(1, 13), parallel=st.integers(1, 3))
def test_counters_tell_every_path(clos, first, count, parallel):
    """Parallel cables among them, whatever number of ports shares the last reading."""
    routing, made = fabric_and_plan(clos, range(first, first + count), parallel=parallel)
    network = Network(routing)
    paths, findings = probe_by_counters(network, made, routing)
    assert findings == []
    assert [path.links for path in paths] == [routing.path(path.flow) for path in paths]
    assert len(paths) == 2 * count


def test_what_is_sent_is_what_was_told(clos):
    """Packets of all bursts, and switches that are read, stand in the line before anything is sent."""
    routing, made = fabric_and_plan(clos, range(50000, 50006), burst=16)
    network = Network(routing)
    probe_by_counters(network, made, routing)
    leaves = {row for row, tier in enumerate(routing.fabric.nodes.tier) if tier == 1}
    up = sum(n for link, n in network.sent.items()
             if routing.fabric.ports.node[routing.fabric.directed_ports[link, 0]] in leaves)  # fmt: skip
    assert up == made.packets == 2 * 16 * (15 + 3)
    assert made.describe(routing).startswith(f"{made.packets:,} UDP packets of 37 bytes")
    assert "counters of 5 switches" in made.describe(routing)


def test_late_counters_are_waited_for(clos):
    """A chip that tells its counters late is read again."""
    routing, made = fabric_and_plan(clos, range(50000, 50004))
    paths, findings = probe_by_counters(Network(routing, late=9), made, routing)
    assert findings == []
    assert agreement(paths, routing).equal == 8


@pytest.mark.parametrize(
    ("trouble", "known"), [({"lost": 0.1}, False), ({"spray": True}, False), ({"noise": 1}, True)]
)
def test_what_cannot_be_told_is_not_guessed(clos, trouble, known):
    """Losses and spraying leave paths open, with a finding; a little other traffic does no harm."""
    routing, made = fabric_and_plan(clos, range(50000, 50012))
    paths, findings = probe_by_counters(Network(routing, **trouble), made, routing)
    wrong = [path for path in paths if path.complete and path.links != routing.path(path.flow)]
    assert wrong == []
    assert all(path.complete for path in paths) == known == (findings == [])
    for finding in findings:
        assert (finding.status, finding.required) == (Status.UNKNOWN, False)
        assert "do not tell the path of" in finding.what


def test_links_with_other_traffic_are_told(clos):
    """Their counters are not used, whatever they show."""
    routing, made = fabric_and_plan(clos, range(50000, 50004))
    paths, findings = probe_by_counters(Network(routing, noise=40), made, routing)
    assert "carry other traffic, so they are not counted" in findings[0].what
    assert not any(path.complete for path in paths)


def test_a_port_in_use_costs_only_itself(clos):
    """It has no path, with the reason; others between the same readings are told."""
    routing, made = fabric_and_plan(clos, range(50000, 50004))
    paths, findings = probe_by_counters(Network(routing, silent=(50001,)), made, routing)
    assert [path.flow.sport for path in paths] == [50000, 50002, 50003] * 2
    assert agreement(paths, routing).equal == 6
    assert (
        "1 source ports have no path, since the host refused them: Address already in use" in findings[0].what
    )


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ({"silent": ("leaf0",)}, "leaf0: its counters cannot be read: ssh: no route"),
        ({"without": ("leaf0",)}, "--captures"),
    ],
)
def test_a_switch_that_cannot_be_asked_costs_only_its_pairs(clos, trouble, words):
    """It is UNKNOWN, required, with what it said, and nothing is sent for them; if all pairs fail, that is the error."""
    routing, made = fabric_and_plan(clos, range(50000, 50004))
    paths, findings = probe_by_counters(Network(routing, **trouble), made, routing)
    (finding,) = findings
    assert (finding.status, finding.required) == (Status.UNKNOWN, True)
    assert words in finding.what
    assert {path.flow.src_port for path in paths} == {made.probes.pairs[1][0]}
    network = Network(routing, **{key: (*names, "leaf2") for key, names in trouble.items()})
    with pytest.raises(NettuneError, match="leaf0"):
        probe_by_counters(network, made, routing)
    assert not any(network.sent.values())


def test_counters_that_contradict_each_other_tell_nothing(clos):
    """A leaf that sent the packets to a spine which did not; a tier without readings is no contradiction."""
    routing, made = fabric_and_plan(clos, [50000])
    ways = routing.alternatives(*made.probes.pairs[0])
    first, up, down, last = ways[0][1]
    assert path_by_counters(ways, {up: True, down: False}, 3) == (first, -1, -1, last)
    assert path_by_counters(ways, {up: True}, 3) == (first, up, down, last)
    assert path_by_counters(ways, {links[1]: False for _, links in ways[1:]}, 3) == (first, -1, -1, last)


@pytest.mark.parametrize(("burst", "words"), [(7, "8 at least"), (100_000, "more than 1,000,000")])
def test_bounds_of_bursts(clos, burst, words):
    """Too small to be seen, or more packets than are ever sent."""
    with pytest.raises(InputError, match=words):
        fabric_and_plan(clos, range(50000, 50064), burst=burst)


HEAD = "src,dst,sport,packets,port,before,after\n"


def test_a_file_of_readings(clos, tmp_path):
    """Full readings tell the path, those of one tier its part; sums that are no burst tell nothing."""
    routing, _ = fabric_and_plan(clos, [50000])
    fabric, file = routing.fabric, tmp_path / "readings.csv"
    h0, h1 = fabric.hosts[:2]
    rows = []
    for sport, tiers, packets in ((50000, (1, 2), 1000), (50001, (1,), 1000), (50002, (1, 2), 500)):
        flow = FlowKey(fabric.nics(h0)[0], fabric.nics(h1)[0], 17, sport, 4791)
        for link, (port, _) in enumerate(fabric.directed_ports.tolist()):
            node = int(fabric.ports.node[port])
            if fabric.nodes.tier[node] in tiers:
                after = 77 + (packets if link in routing.path(flow) else 3)
                rows.append(
                    f"{h0},{h1},{sport},1000,{fabric.nodes.name[node]}:{fabric.ports.name[port]},77,{after}"
                )
    file.write_text(HEAD + "\n".join(rows), encoding="utf-8")
    paths = read_captures(file, routing, 17, 4791)
    predicted = [routing.path(path.flow) for path in paths]
    assert paths[0].links == predicted[0]
    # One spine with one cable a leaf: the leaf's choice is the path.
    assert paths[1].links == predicted[1]
    assert paths[2].links == (predicted[2][0], -1, -1, predicted[2][-1])


MISTAKES = {
    "empty": ("", ":1: its first line must name the columns src, dst, sport, packets, port, before, after"),
    "head only": (HEAD, "holds no readings"),
    "column": (HEAD.replace("port,", "prt,"), "must name the columns"),
    "number": (HEAD + "node1,node2,50000,many,leaf0:s0,1,2", ":2: packets 'many' is no number"),
    "huge": (HEAD + f"node1,node2,50000,{'9' * 5000},leaf0:s0,1,2", ":2: packets '99999999999999999999' is no number"),
    "none": (HEAD + "node1,node2,50000,0,leaf0:s0,1,2", ":2: 0 packets"),
    "back": (HEAD + "node1,node2,50000,9,leaf0:s0,5,2", ":2: the counter went back, from 5 to 2"),
    "host": (HEAD + "node9,node2,50000,9,leaf0:s0,1,2", "'node9' is no NIC"),
    "self": (HEAD + "node1,node1,50000,9,leaf0:s0,1,2", "are of one host"),
    "port": (HEAD + "node1,node2,50000,9,leaf0:s9,1,2", ":2: port 'leaf0:s9': the fabric has no port 's9'"),
    "switch": (HEAD + "node1,node2,50000,9,leaf9,1,2", ":2: port 'leaf9': the fabric has no node 'leaf9'"),
    "twice": (HEAD + 2 * "node1,node2,50000,9,leaf0:d0,1,2\n", ":3: leaf0:d0 is given twice for source port 50000"),
    "short": (HEAD + "node1,node2", ":2: sport '' is no number"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_a_file_of_readings(clos, tmp_path, case):
    """One line with the file and its line."""
    routing, _ = fabric_and_plan(clos, [50000])
    text, words = MISTAKES[case]
    file = tmp_path / "readings.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_captures(file, routing, 17, 4791)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.lab
@pytest.mark.parametrize(("proto", "ports"), [(17, 200), (6, 40)])
def test_the_path_is_the_kernels_where_routers_are_silent(proto, ports):
    """Tuples over four next hops, two of them parallel cables, every TTL-exceeded dropped: all as the kernel chose."""
    rules = "table inet silent { chain out { type filter hook output priority 0 ; icmp type time-exceeded drop ; } ; }"
    with Lab.up(LabSpec(name="counted", leaves=2, spines=2, hosts_per_leaf=1, parallel_uplinks=2)) as lab:
        for switch in lab.switches:
            assert lab.exec(switch, ["nft", rules]).returncode == 0
        runner = partial(run, lab.launcher())
        routing = discover(runner, lab.nodes).routing
        nics = [routing.fabric.nics(host)[0] for host in lab.hosts]
        asked = plan(
            routing,
            [(nics[0], nics[1])],
            range(30000, 30000 + ports),
            proto=proto,
            dscp=26,
            packets_per_s=20000,
        )
        paths, findings = probe_by_counters(runner, CounterPlan(asked, burst=16), routing)
    assert findings == []
    seen = agreement(paths, routing)
    assert (seen.compared, seen.equal) == (ports, ports)
    assert len({path.links[1] for path in paths}) == 4
