"""Inference on made-up transfers: the element at fault comes first, and a sound fabric accuses nobody."""

from __future__ import annotations

import numpy as np
import pytest

from nettune.qualify.candidates import find_candidates
from nettune.qualify.infer import infer
from nettune.qualify.kinds import Kind
from nettune.qualify.plan import make_plan
from nettune.qualify.retest import plan_retest

KINDS = {"rate": Kind.RATE, "loss": Kind.LOSS, "mtu": Kind.MTU, "flap": Kind.FLAP, "dead": Kind.DEAD}
SHAPES = [(2, 1, 3), (3, 2, 2), (4, 2, 2), (4, 3, 1), (5, 2, 3)]


class Bench:
    """A fabric with its plan; runs the first pass with faults and infers."""

    def __init__(self, made, *shape, **more):
        self.made = made
        self.fabric, self.routing = made.clos(*shape, **more)
        self.plan = make_plan(self.fabric, self.routing, self.fabric.hosts)
        self.candidates = find_candidates(self.fabric)

    def results(self, faults, rng, **more):
        return [
            self.made.measured(flow, faults, rng, number=number, **more)
            for number, flows in enumerate(self.plan.rounds)
            for flow in flows
        ]

    def suspects(self, results, at_least=1.5, **more):
        return infer(results, self.candidates, self.fabric.directed_gbps, at_least=at_least, **more)

    def signatures(self, element):
        """Sets of flows that the element touches: equal sets cannot be told apart by any transfer."""
        flows = [flow for flows in self.plan.rounds for flow in flows]
        return {
            tuple(flow.crosses(c.links) for flow in flows)
            for c in self.candidates
            if c.element == element and c.one_way is None
        }


@pytest.fixture(scope="module")
def benches(made):
    return [Bench(made, *shape) for shape in SHAPES]


@pytest.fixture(scope="module")
def demo(made):
    return Bench(made, 4, 2, 2)


def test_true_element_is_first_in_95_of_100_random_faults(made, benches):
    """Over random Clos fabrics, kinds, sizes and directions, with 3% of flows disturbed, the culprit is named first."""
    rng = np.random.default_rng(7)
    hits = runs = 0
    for trial in range(100):
        bench = benches[trial % len(benches)]
        kind = list(KINDS)[trial // len(benches) % len(KINDS)]
        cable = int(rng.integers(bench.fabric.directed_count // 2))
        one_way = kind in {"rate", "loss", "mtu"} and rng.random() < 0.4
        links = (
            frozenset((2 * cable + int(rng.integers(2)),))
            if one_way
            else frozenset((2 * cable, 2 * cable + 1))
        )
        size = {
            "rate": rng.uniform(0.1, 0.85),
            "loss": 10 ** rng.uniform(-3.0, -1.3),
            "flap": rng.uniform(0.3, 0.9),
        }
        found = bench.suspects(bench.results((made.Fault(kind, links, size.get(kind, 1.0)),), rng))
        element = bench.fabric.link_element(cable)
        first = found[0].candidate.element if found else None
        runs += 1
        hits += first == element or (
            first is not None and bench.signatures(first) == bench.signatures(element)
        )
    assert hits / runs >= 0.95


def test_sound_fabric_reaches_no_verdict(benches):
    """With 3% of flows disturbed and no fault, no suspect in 40 runs comes near the odds of a verdict."""
    rng = np.random.default_rng(3)
    odds = [
        suspect.log_odds
        for trial in range(40)
        for suspect in benches[trial % len(benches)].suspects(
            benches[trial % len(benches)].results((), rng), 1.5
        )
    ]
    assert len(odds) <= 8
    assert all(value < 4.6 for value in odds)


@pytest.mark.parametrize("kind", list(KINDS))
def test_kind_and_size_are_told(made, demo, kind):
    """The kind of fault on an uplink is recognised, and the size of a slow or lossy one is about right."""
    rng = np.random.default_rng(11)
    size = {"rate": 0.4, "loss": 0.01, "flap": 0.5}.get(kind, 1.0)
    cable = int(demo.fabric.link_of_port[demo.fabric.port_row("leaf1", "u1")])
    suspect = demo.suspects(
        demo.results((made.Fault(kind, frozenset((2 * cable, 2 * cable + 1)), size),), rng)
    )[0]
    assert suspect.candidate.element == "link/leaf1:u1--spine1:d1"
    assert suspect.kind is KINDS[kind]
    assert suspect.probability > 0.9
    if kind in {"rate", "loss"}:
        assert suspect.size == pytest.approx(size, rel=0.35)


def test_slow_direction_is_told(made, demo):
    """A link that is slow one way is accused for that direction only."""
    rng = np.random.default_rng(5)
    way = int(demo.fabric.out_of_port[demo.fabric.port_row("h4", "eth0")])
    suspect = demo.suspects(demo.results((made.Fault("rate", frozenset((way,)), 0.5),), rng))[0]
    assert suspect.candidate.one_way == way
    assert str(suspect.candidate.element) == "link/h4:eth0--leaf2:d0"


def test_two_faults_are_found_one_after_the_other(made, demo):
    """A slow host link and a lossy uplink elsewhere are both named."""
    rng = np.random.default_rng(9)
    slow, lossy = (
        int(demo.fabric.link_of_port[demo.fabric.port_row(*port)])
        for port in (("h1", "eth0"), ("leaf3", "u0"))
    )
    faults = tuple(
        made.Fault(kind, frozenset((2 * cable, 2 * cable + 1)), size)
        for kind, cable, size in (("rate", slow, 0.3), ("loss", lossy, 0.01))
    )
    found = {suspect.candidate.element: suspect.kind for suspect in demo.suspects(demo.results(faults, rng))}
    assert found[demo.fabric.link_element(slow)] is Kind.RATE
    assert found[demo.fabric.link_element(lossy)] is Kind.LOSS


def test_a_slow_switch_is_named_instead_of_its_links(made):
    """When all links of a spine are slow, the spine explains it better than any link."""
    bench = Bench(made, 4, 2, 2)
    spine = next(c for c in bench.candidates if c.element == "switch/spine1")
    found = bench.suspects(bench.results((made.Fault("rate", spine.links, 0.4),), np.random.default_rng(2)))
    assert found[0].candidate.element == "switch/spine1"


def test_a_host_with_all_rails_slow_is_named(made):
    """With two rails, a host whose both NICs are slow is the culprit, not one cable."""
    bench = Bench(made, 4, 2, 3, rails=2)
    host = next(c for c in bench.candidates if c.element == "host/h2")
    found = bench.suspects(bench.results((made.Fault("rate", host.links, 0.4),), np.random.default_rng(2)))
    assert found[0].candidate.element == "host/h2"


def test_unknown_hash_still_names_a_host_link(made):
    """Without the hash, paths are probabilities; a slow host link is named all the same."""
    bench = Bench(made, 4, 2, 2, known=False)
    cable = int(bench.fabric.link_of_port[bench.fabric.port_row("h4", "eth0")])
    faults = (made.Fault("rate", frozenset((2 * cable, 2 * cable + 1)), 0.3),)
    found = bench.suspects(bench.results(faults, np.random.default_rng(4)))
    assert found[0].candidate.element == bench.fabric.link_element(cable)


def test_a_busy_machine_is_not_a_fault(demo):
    """Rounds in which every flow is slowed alike accuse no link."""
    rng = np.random.default_rng(6)
    slowed = []
    for result in demo.results((), rng, busy=0.0):
        factor = 0.6 if result.round % 3 == 0 else 1.0
        values = {
            **vars(result),
            "delivered_gbps": result.delivered_gbps * factor,
            "share": result.share * factor,
        }
        slowed.append(type(result)(**values))
    assert demo.suspects(slowed, 4.6) == []


def test_carrier_changes_point_at_the_flapping_link(demo):
    """A hint from carrier counters decides between elements that few hit flows leave open."""
    rng = np.random.default_rng(1)
    element = demo.fabric.link_element(3)
    assert demo.suspects(demo.results((), rng), 4.6, hints={element: 12.0})[0].candidate.element == element


def test_retest_crosses_the_suspect_in_both_directions_with_few_flows(made, demo):
    """The second pass sends over the suspect each way between different hosts, at most two flows at a time."""
    rng = np.random.default_rng(8)
    cable = int(demo.fabric.link_of_port[demo.fabric.port_row("leaf0", "u0")])
    links = frozenset((2 * cable, 2 * cable + 1))
    found = demo.suspects(demo.results((made.Fault("rate", links, 0.5),), rng))
    retest = plan_retest(found[:1], demo.candidates, demo.plan, demo.fabric.directed_gbps, set())
    flows = [flow for flows in retest.rounds for flow in flows]
    assert all(len(flows) <= 2 for flows in retest.rounds)
    for link in links:
        crossing = [flow for flow in flows if link in flow.links]
        assert len({flow.src_port for flow in crossing}) >= 2
