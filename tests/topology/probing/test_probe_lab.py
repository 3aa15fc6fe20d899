"""Probing in the lab: real packets, real ICMP, the kernel's own choice of next hops."""

from __future__ import annotations

import pytest

from nettune.lab import Lab, LabSpec
from nettune.launch import Agents, Command, run
from topology.discovery.live import discover
from topology.probing.paths import agreement, plan
from topology.probing.run import probe

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab():
    with Lab.up(LabSpec(name="probe", leaves=3, spines=3, hosts_per_leaf=1, parallel_uplinks=2)) as up:
        yield up


@pytest.fixture(scope="module")
def found(lab):
    launcher = lab.launcher()
    return discover(lambda commands, timeout_s: run(launcher, commands, timeout_s=timeout_s), list(lab.nodes))


@pytest.mark.parametrize("proto", [17, 6])
def test_the_probed_path_is_the_kernels(lab, found, proto):
    """Of 1,000 tuples over six next hops, parallel cables among them, at least 99% are found as predicted."""
    fabric = found.fabric
    pairs = [(fabric.port_row("h0", "eth0"), fabric.port_row(host, "eth0")) for host in ("h1", "h2")]
    made = plan(found.routing, pairs, range(30000, 30500), proto=proto, dscp=26, packets_per_s=5000)
    with Agents(lab.launcher(), ["h0"]) as agents:
        paths, findings = probe(agents, ["h0"], made, fabric)
    assert findings == []
    assert sum(path.complete for path in paths) >= 990
    seen = agreement(paths, found.routing)
    assert seen.compared >= 990
    assert seen.equal >= 0.99 * seen.compared
    assert len({path.links[1] for path in paths}) == 6


def test_a_silent_router_is_told(lab, found):
    """A spine that sends no ICMP leaves its flows open, with a finding; the others' paths are kept."""
    fabric = found.fabric
    launcher = lab.launcher()

    def says_nothing(value):
        line = f"echo {value} > /proc/sys/net/ipv4/icmp_ratelimit; echo {value and 2048} > /proc/sys/net/ipv4/icmp_ratemask"
        (outcome,) = run(launcher, [Command("spine1", ["sh", "-c", line])], 10)
        assert outcome.ok, outcome.stderr

    pair = (fabric.port_row("h0", "eth0"), fabric.port_row("h1", "eth0"))
    made = plan(found.routing, [pair], range(31000, 31060), packets_per_s=5000)
    says_nothing(60000)
    try:
        with Agents(launcher, ["h0"]) as agents:
            paths, findings = probe(agents, ["h0"], made, fabric)
    finally:
        says_nothing(0)
    open_ones = [path for path in paths if not path.complete]
    assert open_ones
    assert any(path.complete for path in paths)
    assert "no answer from router 2" in findings[0].what
    spine = fabric.node_row("spine1")
    for path in open_ones:
        assert fabric.ports.node[fabric.directed_ports[found.routing.path(path.flow)[1], 1]] == spine
