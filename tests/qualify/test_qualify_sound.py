"""The whole ladder on simulated fabrics: no fault is passed, whatever the cabling, and nothing that was bad twice passes."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter

import numpy as np
import pytest

from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.elements import ElementId
from nettune.qualify.campaign import judged
from nettune.qualify.candidates import find_candidates
from nettune.qualify.kinds import Kind
from nettune.qualify.observe import observations, odd_ones, shown_gbps
from nettune.qualify.passes import Looked, first_pass, second_pass
from nettune.qualify.plan import make_plan
from nettune.qualify.verdict import named_elements, sealed

LONG_S = 1e5


def _fabric(made, rng):
    """A random Clos: oversubscribed or the reverse, uneven, parallel cables, one spine, one to four hosts a leaf."""
    leaves = int(rng.integers(2, 5))
    even = rng.random() < 0.6
    per_leaf = int(rng.integers(1, 5)) if even else tuple(int(n) for n in rng.integers(1, 5, leaves))
    uplinks = tuple(float(rate) for rate in rng.choice([0.1, 0.2, 0.25, 0.4], rng.choice([1, 1, 2])))
    return made.clos(
        leaves,
        int(rng.integers(1, 4)),
        per_leaf,
        parallel=int(rng.choice([1, 1, 2])),
        host_gbps=float(rng.choice([0.1, 0.2, 0.4])),
        uplink_gbps=uplinks,
    )


def _qualified(made, fabric, routing, faults, seed, plan=None, busy=0.03):
    plan = plan or make_plan(fabric, routing, fabric.hosts)
    network = made.Network(fabric, faults, seed, busy)
    begun = time.monotonic()

    def say(_line):
        """Progress is not looked at."""

    first_pass(network, plan, LONG_S, begun, say)
    looked = second_pass(network, plan, find_candidates(fabric), {}, (), begun + LONG_S, say)
    return plan, network, worst_first(judged(fabric, plan, network.results, looked))


def _fault(made, fabric, kind, rng):
    cable = int(rng.integers(fabric.directed_count // 2))
    links = frozenset((2 * cable, 2 * cable + 1))
    if kind in {"rate", "loss", "mtu"} and rng.random() < 0.4:
        links = frozenset((2 * cable + int(rng.integers(2)),))
    size = {"rate": rng.uniform(0.1, 0.89), "loss": 10 ** rng.uniform(-3.3, -1.3)}.get(kind, 1.0)
    return cable, made.Fault(kind, links, float(size))


@pytest.mark.slow
def test_no_fault_is_passed_on_any_fabric(made):
    """Over 35 random fabrics with one fault each: never exit 0, but where the PASS says that such a fault is out of reach.

    The true element is first in nine of ten, and first or a named rival in all but one at most.
    """
    rng = np.random.default_rng(17)
    counts: Counter[str] = Counter()
    for trial in range(35):
        fabric, routing = _fabric(made, rng)
        kind = ("rate", "rate", "loss", "mtu", "dead")[trial % 5]
        cable, fault = _fault(made, fabric, kind, rng)
        plan, _, findings = _qualified(made, fabric, routing, (fault,), trial)
        element = fabric.link_element(cable)
        passes = {finding.check: finding for finding in findings if finding.status is Status.PASS}
        about = (trial, kind, fault.size, element)
        if exit_code(findings) == 0:
            if kind == "rate":
                speeds = fabric.directed_gbps
                assert all(
                    fault.size * speeds[link] >= 0.89 * plan.most_gbps[link] for link in fault.links
                ), about
                limited = passes["link-rate"].evidence["limited"]
                assert all(fabric.directed_name(link) in limited for link in fault.links), about
            else:
                assert kind == "loss", about
                assert passes["link-loss"].evidence["detectable_loss"] > fault.size, about
            counts["out of reach"] += 1
            continue
        assert f"link-{kind}" not in passes or kind == "dead", about
        counts[
            "first"
            if findings[0].where == element
            else "named"
            if element in named_elements(findings)
            else "no"
        ] += 1
    told = sum(counts.values()) - counts["out of reach"]
    assert counts["out of reach"] <= 4
    assert counts["first"] >= 0.9 * told
    assert counts["no"] <= 1


def test_sound_fabrics_pass(made):
    """Over 8 random fabrics without a fault, with 3% of flows disturbed, nothing fails and nothing is unknown."""
    rng = np.random.default_rng(23)
    for trial in range(8):
        fabric, routing = _fabric(made, rng)
        _, _, findings = _qualified(made, fabric, routing, (), trial)
        assert exit_code(findings) == 0, [f.what for f in findings if f.status is not Status.PASS]
        assert {"link-rate", "link-loss", "link-mtu", "link-flap"} <= {
            finding.check for finding in findings if finding.status is Status.PASS
        }


@pytest.mark.parametrize("size", [0.3, 0.6, 0.85])
def test_a_nic_slower_than_nominal_but_faster_than_its_uplinks_is_named(made, size):
    """On an oversubscribed fabric only flows at the NIC's own rate show it; sets over both uplinks tell it from its neighbour."""
    fabric, routing = made.clos(4, 2, 2, host_gbps=0.2)
    cable = int(fabric.link_of_port[fabric.port_row("h4", "eth0")])
    fault = made.Fault("rate", frozenset((2 * cable, 2 * cable + 1)), size)
    _, network, findings = _qualified(made, fabric, routing, (fault,), 1)
    first = findings[0]
    assert (first.status, str(first.where)) == (Status.FAIL, "link/h4:eth0--leaf2:d0")
    assert first.evidence["share_of_nominal"] == pytest.approx(size, abs=0.04)
    assert any(flow.flow.fills >= 0 for flow in network.results if flow.stage == 2) or size < 0.5
    assert not any(finding.check == "link-rate" and finding.status is Status.PASS for finding in findings)


def test_rivals_that_no_transfer_tells_apart_are_named(made):
    """With one spine and one host a leaf, a host's link and its leaf's only uplink are crossed by the same transfers."""
    fabric, routing = made.clos(3, 1, 1)
    cable = int(fabric.link_of_port[fabric.port_row("h1", "eth0")])
    fault = made.Fault("rate", frozenset((2 * cable, 2 * cable + 1)), 0.5)
    first = _qualified(made, fabric, routing, (fault,), 3)[2][0]
    both = {"link/h1:eth0--leaf1:d0", "link/leaf1:u0--spine0:d1"}
    assert first.status is Status.FAIL
    assert both <= {str(first.where), *first.evidence["rivals"]}
    assert first.what.startswith("it or ")
    assert next(iter(both - {str(first.where)})) in first.what


def test_the_limit_of_what_the_fabric_brings_is_stated(made):
    """A NIC behind a slower uplink passes up to that rate, and the sentence says so."""
    fabric, routing = made.clos(3, 1, 1, host_gbps=0.2)
    findings = _qualified(made, fabric, routing, (), 4)[2]
    rate = next(finding for finding in findings if finding.check == "link-rate")
    assert rate.status is Status.PASS
    assert "up to 100 Mbit/s of 200 Mbit/s only" in rate.what
    assert len(rate.evidence["limited"]) == 6


@pytest.mark.parametrize("known", [True, False])
def test_a_link_that_was_not_filled_is_unknown(made, known):
    """Sets that did not run, or could not be planned because paths are not known, leave the rate UNKNOWN, with both figures."""
    fabric, routing = made.clos(3, 2, 1, host_gbps=0.2, known=known)
    plan = make_plan(fabric, routing, fabric.hosts)
    singles = tuple(flows for flows in plan.rounds if all(flow.fills < 0 for flow in flows))
    network = made.Network(fabric, (), 5, 0.0)
    first_pass(
        network, dataclasses.replace(plan, rounds=singles), LONG_S, time.monotonic(), lambda _line: None
    )
    findings = judged(fabric, plan, network.results, Looked((), (), ()))
    rate = next(finding for finding in findings if finding.check == "link-rate")
    assert (rate.status, rate.required) == (Status.UNKNOWN, True)
    assert " of 200 Mbit/s" in rate.what
    assert exit_code(findings) == 2


def test_a_slow_spine_that_all_cross_is_no_busy_machine(made):
    """When every transfer of a round is slow, tests alone decide; on one spine that is the spine."""
    fabric, routing = made.clos(3, 1, 2)
    spine = next(c for c in find_candidates(fabric) if c.element == "switch/spine0")
    findings = _qualified(made, fabric, routing, (made.Fault("rate", spine.links, 0.6),), 6)[2]
    assert exit_code(findings) == 1
    assert ElementId.switch("spine0") in named_elements(findings)


def test_the_sum_of_a_set_is_judged_and_not_its_parts(made):
    """Flows that share a link unevenly are one observation; the link's rate adds up over the round."""
    fabric, routing = made.clos(3, 2, 1, host_gbps=0.2)
    plan = make_plan(fabric, routing, fabric.hosts)
    flows = next(flows for flows in plan.rounds if any(flow.fills >= 0 for flow in flows))
    network = made.Network(fabric, (), 7, 0.0)
    rows = observations(network.run(flows, 0.25, pace=0.92))
    sums = [row for row in rows if row.flow.parts]
    assert {row.flow.fills for row in sums} == {flow.fills for flow in flows if flow.fills >= 0}
    assert all(np.isnan(row.ratio) for row in rows if row.flow.fills >= 0 and not row.flow.parts)
    for row in sums:
        assert row.ratio == pytest.approx(1.0, abs=0.02)
        assert shown_gbps(network.results, fabric.directed_gbps)[row.flow.fills] == pytest.approx(
            0.184, abs=0.004
        )


def _repeated(made, kind, size):
    fabric, routing = made.clos(2, 1, 2)
    plan = make_plan(fabric, routing, fabric.hosts)
    network = made.Network(fabric, (made.Fault(kind, frozenset((0, 1)), size),), 8, 0.0)
    flow = next(flow for flows in plan.rounds for flow in flows if 0 in flow.links)
    for stage in (1, 2, 2):
        network.run((flow,), 0.4, stage=stage, pace=0.92)
    return fabric, [one for one in odd_ones(network.results) if one.repeated]


@pytest.mark.parametrize(("kind", "size"), [("rate", 0.5), ("loss", 0.02), ("mtu", 1.0), ("dead", 1.0)])
def test_what_was_bad_again_is_never_sealed_as_a_pass(made, kind, size):
    """Whatever the inference said, a way that was bad again alone gets a finding, and its check no PASS."""
    fabric, repeats = _repeated(made, kind, size)
    given = [Finding(check=str(k), status=Status.PASS, where=ElementId.fabric(), what="") for k in Kind]
    findings = sealed(fabric, given, repeats)
    checks = {str(kind) for odd in repeats for kind in odd.kinds}
    assert checks
    assert not any(finding.status is Status.PASS and finding.check in checks for finding in findings)
    bad = [finding for finding in findings if finding.status in {Status.FAIL, Status.WARN}]
    assert bad
    assert fabric.link_element(0) in named_elements(bad)
    assert all(str(name) in bad[0].what for name in bad[0].evidence["rivals"])


def test_a_sound_second_test_clears(made):
    """Slow once and well when tested alone is no repeat; slow beside a slow control is no test."""
    fabric, routing = made.clos(2, 1, 2)
    plan = make_plan(fabric, routing, fabric.hosts)
    flow = plan.rounds[0][0]
    slow = made.Network(fabric, (made.Fault("rate", flow.links, 0.5),), 9, 0.0)
    sound = made.Network(fabric, (), 9, 0.0)
    first, again = (slow.run((flow,), 0.4, stage=stage, pace=0.92)[0] for stage in (1, 2))
    well = sound.run((flow,), 0.4, stage=2, pace=0.92)[0]
    assert [one.repeated for one in odd_ones([first, again])] == [True]
    assert odd_ones([first, well]) == []
    disturbed = dataclasses.replace(again, disturbed=True)
    assert [(one.repeated, one.tests) for one in odd_ones([first, disturbed])] == [(False, 0)]
