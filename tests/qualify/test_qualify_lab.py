"""Qualification of a real emulated fabric: faults are found and named first, and a sound one passes."""

from __future__ import annotations

import os

import pytest

from nettune.checks import Status
from nettune.lab import Lab, LabSpec
from nettune.launch import Agents, run
from nettune.qualify import qualify
from topology.discovery.live import discover

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FAULTS = [
    ("slow-link", {"link": "leaf1:u0", "to": "85%"}),
    ("one-way-slow", {"direction": "down"}),
    ("lossy-link", {"link": "leaf0:u1", "loss": "0.3%"}),
    ("mtu", {}),
    ("flap", {}),
    ("straggler", {}),
]


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(LabSpec(name=f"tq{os.getpid()}", leaves=3, spines=2, hosts_per_leaf=2))
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def agents(lab):
    with Agents(
        lab.launcher(), lab.hosts, preload=["nettune.qualify.probe", "nettune.qualify.cpu"]
    ) as agents:
        yield agents


@pytest.fixture(scope="module")
def found(lab):
    launcher = lab.launcher()
    return discover(lambda commands, timeout_s: run(launcher, commands, timeout_s=timeout_s), lab.nodes)


def test_sound_fabric_has_no_failure(agents, found):
    """Every pair is measured and nothing fails."""
    result = qualify(found.fabric, found.routing, agents)
    assert [finding.what for finding in result.findings if finding.status is Status.FAIL] == []
    assert result.exit_code == 0
    measured = result.matrix_gbps[~(result.matrix_gbps != result.matrix_gbps)]
    assert len(measured) == 30


@pytest.mark.parametrize(("kind", "params"), FAULTS)
def test_fault_is_named_first(lab, agents, found, kind, params):
    """The first finding fails and names the element that the lab has hurt."""
    fault = lab.faults.apply(kind, **params)
    try:
        result = qualify(found.fabric, found.routing, agents)
    finally:
        lab.faults.undo("all")
    first = result.findings[0]
    assert first.status is Status.FAIL, first.what
    assert str(first.where) in fault.where
    assert result.exit_code == 1


def test_a_slow_nic_behind_slower_uplinks_is_named():
    """On an oversubscribed lab no single flow from another leaf shows it; sets over both uplinks do."""
    spec = LabSpec(
        name=f"to{os.getpid()}",
        leaves=3,
        spines=2,
        hosts_per_leaf=2,
        host_rate="200mbit",
        uplink_rate="100mbit",
    )
    lab = Lab.up(spec)
    try:
        launcher = lab.launcher()
        lab.faults.apply("slow-link", link="h3:eth0", to="70%")
        with Agents(launcher, lab.hosts, preload=["nettune.qualify.probe", "nettune.qualify.cpu"]) as agents:
            found = discover(
                lambda commands, timeout_s: run(launcher, commands, timeout_s=timeout_s), lab.nodes
            )
            result = qualify(found.fabric, found.routing, agents)
    finally:
        lab.down()
    first = result.findings[0]
    assert (first.status, str(first.where)) == (Status.FAIL, "link/h3:eth0--leaf1:d1"), first.what
    assert first.evidence["share_of_nominal"] == pytest.approx(0.7, abs=0.05)
    assert not any(f.check == "link-rate" and f.status is Status.PASS for f in result.findings)
