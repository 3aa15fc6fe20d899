"""Probing where something is not as it should be: hosts that fail, ports in use, ways of unequal length, odd routers."""

from __future__ import annotations

import json
import socket
import sys
from functools import partial
from typing import Any

import pytest

from nettune.checks import Status
from nettune.errors import NettuneError
from nettune.lab import Lab, LabSpec
from nettune.launch import Command, LocalLauncher, run
from nettune.launch.base import Outcome
from topology.discovery.live import discover
from topology.ecmp import HashSpec
from topology.probing import prober
from topology.probing.learned import learn
from topology.probing.paths import agreement, plan
from topology.probing.run import probe
from topology.routing import Routing


def nics(fabric, *hosts):
    return tuple(fabric.nics(host)[0] for host in hosts)


@pytest.fixture
def two_pairs(clos):
    """A plan from two hosts, and its fabric."""
    fabric = clos(2, 2, 2)
    routing = Routing.shortest_paths(fabric, HashSpec("ideal", 1))
    names = fabric.hosts
    made = plan(routing, [nics(fabric, names[0], names[2]), nics(fabric, names[1], names[3])], [50000])
    return made, fabric, names


def ended(command, *, rc=0, stdout="", stderr="", timed_out=False):
    return Outcome(command.host, tuple(command.argv), rc, stdout, stderr, timed_out, 0.1)


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "ssh": (
        {"rc": 255, "stderr": "ssh: connect to host node2 port 22: No route to host\n"},
        "probing failed: ssh: connect to host node2 port 22: No route to host",
    ),
    "no Python": ({"rc": 127, "stderr": "sh: 1: exec: python3: not found\n"}, "exec: python3: not found"),
    "killed": ({"rc": -9}, "probing failed: it said nothing"),
    "time": ({"rc": None, "timed_out": True}, "did not end in its time"),
    "cut": ({"stdout": '[{"answers": [[0, 1'}, "was its output cut?"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_host_that_fails_costs_only_its_pairs(two_pairs, case):
    """It is UNKNOWN, required, with what it said; the other host's paths are kept. If all fail, that is the error."""
    made, fabric, names = two_pairs
    failure, words = FAILURES[case]
    good = json.dumps([{"answers": [], "refused": {}, "sent": 3}])

    def one_fails(commands, timeout_s):
        return [ended(c, **failure) if c.host == names[1] else ended(c, stdout=good) for c in commands]

    paths, findings = probe(one_fails, made, fabric)
    assert [fabric.nodes.name[fabric.ports.node[path.flow.src_port]] for path in paths] == [names[0]]
    (broken,) = [finding for finding in findings if finding.required]
    assert (broken.status, str(broken.where)) == (Status.UNKNOWN, f"host/{names[1]}")
    assert words in broken.what
    with pytest.raises(NettuneError, match=names[0]):
        probe(lambda commands, timeout_s: [ended(c, **failure) for c in commands], made, fabric)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_in_use_is_refused_and_the_others_go_on(kind):
    """The reason is the kernel's; nothing is sent for it."""
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        task = {
            "flows": [["127.0.0.1", port, "127.0.0.1", 9], ["127.0.0.1", 0, "127.0.0.1", 9]],
            "hops": 1,
            "most": 1,
            "ends": [],
            "dscp": 0,
            "packets_per_s": 1000,
            "wait_s": 0.05,
            "tries": 2,
            "proto": 17 if kind == socket.SOCK_DGRAM else 6,
        }
        (done,) = run(
            LocalLauncher(["here"]),
            [Command("here", [sys.executable, prober.__file__], stdin=json.dumps([task]).encode())],
            30,
        )
    assert done.ok, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["refused"] == {"0": "Address already in use"}
    assert 1 <= result["sent"] <= 2


@pytest.mark.lab
def test_ways_of_different_length(tmp_path):
    """spine1 reaches leaf1 only by leaf2 and spine0: its flows cross five routers, the others three; TCP never arrives."""
    with Lab.up(LabSpec(name="uneven", leaves=3, spines=2, hosts_per_leaf=1, hash_seed=5)) as lab:
        wiring = lab.wiring
        far = {(one.lower.node, one.upper.node): one for one in wiring.links}
        for node, gateway in (
            ("spine1", far["leaf2", "spine1"].lower.address),
            ("leaf2", far["leaf2", "spine0"].upper.address),
        ):
            done = lab.exec(
                node, ["ip", "route", "replace", wiring.prefix("leaf1"), "via", gateway, "proto", "static"]
            )
            assert done.returncode == 0, done.stderr
        runner = partial(run, lab.launcher())
        routing = discover(runner, lab.nodes).routing
        for proto in (17, 6):
            made = plan(
                routing,
                [nics(routing.fabric, "h0", "h1")],
                range(40000, 40040),
                proto=proto,
                packets_per_s=5000,
            )
            assert (made.hops, made.longest) == ((3,), (5,))
            paths, findings = probe(runner, made, routing.fabric)
            assert findings == []
            assert {len(path.links) for path in paths} == {4, 6}
            seen = agreement(paths, routing)
            assert (seen.compared, seen.equal) == (40, 40)


@pytest.mark.lab
def test_answers_from_another_interface_are_doubted():
    """Linux' default among parallel cables: wrong cables are named; the known hash shows it, and the advice says why."""
    with Lab.up(LabSpec(name="odd", leaves=2, spines=2, hosts_per_leaf=1, parallel_uplinks=2)) as lab:
        runner = partial(run, lab.launcher())
        routing = discover(runner, lab.nodes).routing
        for switch in lab.switches:
            words = "echo 0 > /proc/sys/net/ipv4/icmp_errors_use_inbound_ifaddr"
            assert lab.exec(switch, ["sh", "-c", words]).returncode == 0
        made = plan(routing, [nics(routing.fabric, "h0", "h1")], range(40000, 40060), packets_per_s=5000)
        paths, findings = probe(runner, made, routing.fabric)
    assert findings == []
    (warned,) = agreement(paths, routing).findings()
    assert "icmp_errors_use_inbound_ifaddr=1" in warned.fix
    unknown = [
        one for one in learn(paths, routing, seeds=range(64)).findings() if one.status is Status.UNKNOWN
    ]
    assert unknown
    assert "the wrong one of parallel cables" in unknown[0].fix
    assert "seeds 0 to 63 were tried" in unknown[0].fix
