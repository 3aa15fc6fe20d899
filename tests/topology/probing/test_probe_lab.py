"""Probing in the lab: real packets, real ICMP, the kernel's own choice of next hops."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.lab import Lab, LabSpec
from nettune.launch import Command, run
from topology.discovery.live import discover
from topology.probing import prober
from topology.probing.learned import learn
from topology.probing.paths import agreement, plan
from topology.probing.run import probe

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab():
    with Lab.up(LabSpec(name="probe", leaves=3, spines=3, hosts_per_leaf=1, parallel_uplinks=2)) as up:
        yield up


@pytest.fixture(scope="module")
def found(lab):
    return discover(partial(run, lab.launcher()), lab.nodes)


@pytest.mark.parametrize("proto", [17, 6])
def test_the_probed_path_is_the_kernels(lab, found, proto):
    """Of 1,000 tuples over six next hops, parallel cables among them, at least 99% are found as predicted."""
    fabric = found.fabric
    pairs = [(fabric.port_row("h0", "eth0"), fabric.port_row(host, "eth0")) for host in ("h1", "h2")]
    made = plan(found.routing, pairs, range(30000, 30500), proto=proto, dscp=26, packets_per_s=5000)
    paths, findings = probe(partial(run, lab.launcher()), made, fabric)
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
        paths, findings = probe(partial(run, launcher), made, fabric)
    finally:
        says_nothing(0)
    open_ones = [path for path in paths if not path.complete]
    assert open_ones
    assert any(path.complete for path in paths)
    assert "no answer from router 2" in findings[0].what
    spine = fabric.node_row("spine1")
    for path in open_ones:
        assert fabric.ports.node[fabric.directed_ports[found.routing.path(path.flow)[1], 1]] == spine


@pytest.mark.parametrize("seed", [4711, 3_000_000_000])
def test_a_hidden_hash_is_fitted_or_refused(seed):
    """The fitted preset predicts 200 further flows; a seed that is none of those tried is said to be none."""
    with Lab.up(LabSpec(name="probe-fit", leaves=2, spines=4, hosts_per_leaf=2, hash_seed=seed)) as lab:
        runner = partial(run, lab.launcher())
        known = discover(runner, lab.nodes).routing
        hidden = replace(known, hashes={})
        fabric = known.fabric
        pair = (fabric.port_row("h0", "eth0"), fabric.port_row("h2", "eth0"))
        paths, _ = probe(runner, plan(hidden, [pair], range(30000, 30100), packets_per_s=5000), fabric)
        learned = learn(paths, hidden)
        further, _ = probe(runner, plan(hidden, [pair], range(50000, 50200), packets_per_s=5000), fabric)
    leaf = fabric.node_row("leaf0")
    (finding,) = learned.findings()
    if seed < 1 << 16:
        assert learned.routing.hashes[leaf] == known.hashes[leaf]
        assert agreement(further, learned.routing).equal == 200
    else:
        assert finding.status is Status.UNKNOWN
        assert "its hash is not known: none of" in finding.what
        assert "seeds 0 to 65535 were tried, --seeds tries others" in finding.fix
        assert agreement(further, learned.routing).unpredictable == 200


def test_the_prober_is_of_python_36():
    """What is sent to hosts parses with Python 3.6's grammar and imports the standard library only."""
    source = Path(prober.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names}
    assert imported <= set(sys.stdlib_module_names)
