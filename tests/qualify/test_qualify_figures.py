"""Small functions between the hosts' figures and the findings."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from nettune.checks import Status
from nettune.qualify.candidates import find_candidates
from nettune.qualify.coverage import not_shown, passed
from nettune.qualify.flows import FlowState
from nettune.qualify.infer import infer
from nettune.qualify.linkstate import state_findings
from nettune.qualify.passes import Weighed
from nettune.qualify.plan import make_plan
from nettune.qualify.session import flow_state, stream_figures
from nettune.qualify.stragglers import CpuResult, cpu_findings
from nettune.qualify.thresholds import THRESHOLDS, limit
from nettune.qualify.verdict import link_findings, loss_interval


def test_rate_and_gap_of_a_steady_stream():
    """12.5 MB/s arrive as 0.1 Gbit/s without a gap."""
    samples = [(i * 0.01, i * 125_000) for i in range(1, 30)]
    rate, gap = stream_figures(samples, 0.1, 0.25)
    assert rate == pytest.approx(0.1)
    assert gap == pytest.approx(0.0, abs=1e-9)


def test_late_reading_is_no_gap_but_a_pause_is():
    """A reader that slept finds all bytes at once; a sender that paused leaves time without bytes."""
    slept = [(0.05, 625_000), (0.15, 1_875_000), (0.25, 3_125_000)]
    paused = [(0.05, 625_000), (0.15, 626_000), (0.25, 1_876_000)]
    assert stream_figures(slept, 0.1, 0.25)[1] < 0.001
    assert stream_figures(paused, 0.1, 0.25)[1] == pytest.approx(0.1, abs=0.001)


def test_no_bytes_is_a_gap_of_the_whole_time():
    """A stream without data has rate 0."""
    assert stream_figures([], 0.1, 0.25) == (0.0, 0.25)


@pytest.mark.parametrize(
    ("sent", "received", "rate", "gap", "state"),
    [
        ({"connected": False, "error": ""}, 0, 0.0, 0.25, FlowState.DEAD),
        ({"connected": False, "error": "EHOSTUNREACH"}, 0, 0.0, 0.25, FlowState.DEAD),
        ({"connected": False, "error": "EADDRINUSE"}, 0, 0.0, 0.25, FlowState.ERROR),
        ({"connected": False, "error": "ECONNREFUSED"}, 0, 0.0, 0.25, FlowState.ERROR),
        ({"connected": True, "error": ""}, 8, 0.0, 0.25, FlowState.STALLED),
        ({"connected": True, "error": ""}, 10**6, 0.05, 0.1, FlowState.GAP),
        ({"connected": True, "error": ""}, 10**6, 0.09, 0.001, FlowState.OK),
    ],
)
def test_states_of_a_flow(sent, received, rate, gap, state):
    """A local error is no evidence against the network; silence is."""
    assert flow_state(sent, {"bytes": received}, rate, 0.09, gap) is state


def test_loss_interval_holds_the_rate_and_touches_zero():
    """Clopper and Pearson's limits for 0 of 3000 and 30 of 3000."""
    low, high = loss_interval(0, 3000)
    assert low == 0.0
    assert high == pytest.approx(0.00123, rel=0.01)
    low, high = loss_interval(30, 3000)
    assert low < 0.01 < high


def test_every_threshold_says_why():
    """No limit without a reason and a unit."""
    assert all(threshold.why and threshold.unit for threshold in THRESHOLDS.values())
    assert limit("link-rate-fail") < limit("link-rate-warn")


def _suspicion(made, kind="rate", size=0.5, retest=True):
    fabric, routing = made.clos(4, 2, 2)
    plan = make_plan(fabric, routing, fabric.hosts)
    cable = int(fabric.link_of_port[fabric.port_row("h4", "eth0")])
    fault = (made.Fault(kind, frozenset((2 * cable, 2 * cable + 1)), size),)
    rng = np.random.default_rng(0)
    results = [
        made.measured(f, fault, rng, number=n, busy=0) for n, flows in enumerate(plan.rounds) for f in flows
    ]
    suspects = infer(results, find_candidates(fabric), fabric.directed_gbps, at_least=4.6)
    return fabric, plan, results, [Weighed(s, 9.0 if retest else None) for s in suspects]


def test_a_confirmed_suspect_fails_and_is_described(made):
    """The finding has the element, the share of nominal, the flows and the probability."""
    fabric, _, _, weighed = _suspicion(made)
    finding = link_findings(fabric, weighed, [])[0]
    assert (finding.status, finding.where) == (Status.FAIL, "link/h4:eth0--leaf2:d0")
    assert finding.evidence["share_of_nominal"] == pytest.approx(0.5, abs=0.05)
    assert finding.evidence["bad_flows"] == finding.evidence["flows"] == 14
    assert finding.probability is not None
    assert finding.probability > 0.95


def test_without_a_second_test_nothing_fails(made):
    """A suspect that could not be tested again is a warning."""
    fabric, _, _, weighed = _suspicion(made, retest=False)
    finding = link_findings(fabric, weighed, [])[0]
    assert finding.status is Status.WARN
    assert "not tested again" in finding.what


def test_the_link_of_a_slow_host_is_not_accused(made):
    """Slow transfers of a host whose processor is slow are explained by it."""
    fabric, _, _, weighed = _suspicion(made)
    assert link_findings(fabric, weighed, ["h4"])[0].status is Status.WARN


def test_what_passed_leaves_out_what_is_accused(made):
    """PASS findings count other flows and give the smallest loss that would have shown."""
    fabric, plan, results, weighed = _suspicion(made)
    findings = passed(fabric, results, plan, {weighed[0].suspect.candidate.element}, {"link-rate"})
    names = {finding.check: finding for finding in findings}
    assert "link-rate" not in names
    assert names["pairs"].evidence["pairs"] == 42
    assert 0 < names["link-loss"].evidence["detectable_loss"] < 0.01
    assert all(finding.status is Status.PASS for finding in findings)


def test_links_that_nothing_crossed_are_unknown(made):
    """A probe that did not run, or failed on its own host, is UNKNOWN and required, never a pass."""
    fabric, plan, results, _ = _suspicion(made)
    kept = [r for r in results if not any(link // 2 == 0 for link in r.flow.links)]
    kept[0] = dataclasses.replace(kept[0], state=FlowState.ERROR, note="EADDRINUSE")
    findings = not_shown(fabric, kept, plan, set(), ["h7"])
    assert {(f.check, str(f.where)) for f in findings} >= {
        ("link-cover", str(fabric.link_element(0))),
        ("host-agent", "host/h7"),
    }
    assert any("EADDRINUSE" in finding.what for finding in findings)
    assert all(finding.status is Status.UNKNOWN and finding.required for finding in findings)


def test_down_links_are_named_and_a_spine_stands_for_its_own(made):
    """One link down is named itself; a spine whose links are all down is named instead of them."""
    fabric, _ = made.clos(2, 2, 2, down=("leaf0:u0--spine0:d0",))
    assert [str(f.where) for f in state_findings(fabric)] == ["link/leaf0:u0--spine0:d0"]
    fabric, _ = made.clos(2, 2, 2, down=("leaf0:u0--spine0:d0", "leaf1:u0--spine0:d1"))
    assert [str(f.where) for f in state_findings(fabric)] == ["switch/spine0"]
    assert state_findings(made.clos(2, 2, 2)[0])[0].status is Status.PASS


def _cpu(host, slowness, *, retested):
    return CpuResult(host, 1.0, 1.0, slowness, retested, None)


def test_only_a_second_test_convicts_a_slow_host():
    """Slow in the first look is a warning at most; slow against a control host fails."""
    hosts = ["h0", "h1", "h2", "h3"]
    sound = [_cpu(host, 1.0, retested=False) for host in hosts[:3]]
    once = cpu_findings([*sound, _cpu("h3", 3.0, retested=False)], hosts)
    twice = cpu_findings([*sound, _cpu("h3", 3.0, retested=True)], hosts)
    assert [f.status for f in once if str(f.where) == "host/h3"] == [Status.WARN]
    assert [f.status for f in twice if str(f.where) == "host/h3"] == [Status.FAIL]


def test_an_untested_processor_is_unknown():
    """A host without a result is UNKNOWN."""
    findings = cpu_findings([_cpu(f"h{i}", 1.0, retested=False) for i in range(3)], ["h0", "h1", "h2", "h3"])
    assert [str(f.where) for f in findings if f.status is Status.UNKNOWN] == ["host/h3"]


def test_a_flow_without_a_known_speed_has_no_ratio(made):
    """Where nothing was expected, nothing is judged; JSON has null and no NaN."""
    _, _, results, _ = _suspicion(made)
    result = dataclasses.replace(results[0], offered_gbps=0.0, share=math.nan)
    assert math.isnan(result.ratio)
    assert result.to_json()["share"] is None
