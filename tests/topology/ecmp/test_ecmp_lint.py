"""What is wrong with a fabric's ECMP, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nettune.checks import Finding, Status
from topology.builder import FabricBuilder
from topology.ecmp import HashSpec
from topology.ecmp.capacity import mismatches
from topology.ecmp.connections import QpSettings, across_leaves
from topology.ecmp.lint import lint_ecmp, queue_pairs
from topology.ecmp.lint_flows import shared_links, source_ports
from topology.ecmp.walk import paths, walked_loads
from topology.fabric import LinkState, NodeKind
from topology.routing import NextHops, Routing

SOUND = HashSpec("ideal", 1)


def findings(routing, **options):
    """Check -> its findings."""
    found: dict[str, list[Finding]] = {}
    for finding in lint_ecmp(routing, draws=40, **options):
        found.setdefault(finding.check, []).append(Finding.from_json(finding.to_json()))
    return found


def each_its_own(routing, family="ideal", **parameters):
    """Every switch with a seed of its own."""
    return replace(routing, hashes={node: HashSpec(family, node, **parameters) for node in routing.hashes})


def without(fabric, *cables):
    """The fabric with some cables down, by a port of each."""
    state = fabric.links.state.copy()
    for node, port in cables:
        state[fabric.link_of_port[fabric.port_row(node, port)]] = LinkState.DOWN
    return replace(fabric, links=replace(fabric.links, state=state))


def test_a_sound_fabric_passes(clos, roce_flows):
    """Own seeds, many QPs, a port for each flow: all five rules on the fabric hold, no UNKNOWN among them."""
    fabric = clos(4, 2, 4, parallel=2)
    routing = each_its_own(Routing.shortest_paths(fabric, SOUND))
    nics = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    flows = roce_flows(np.repeat(nics[:4], 8), np.repeat(nics[4:8], 8), sport=np.arange(50000, 50032))

    found = findings(routing, settings=QpSettings(64), flows=flows)

    del found["ecmp-flows"]  # where these very flows meet is luck
    assert sorted(found) == [
        "ecmp-fields",
        "ecmp-polarization",
        "ecmp-qps",
        "ecmp-source-ports",
        "ecmp-weights",
    ]
    assert {each.status for every in found.values() for each in every} == {Status.PASS}


@pytest.mark.parametrize(
    ("high", "fix"),
    [
        (HashSpec("rtag7-crc16-bisync", 1), "offset or function; another seed alone does not help"),
        (HashSpec("rtag7-crc16-bisync", 99), "offset or function; another seed alone does not help"),
    ],
)
def test_polarized_tiers_are_named(three_tiers, by_tier, high, fix):
    """Both switches, what is reached, the loss, and a cure that cures."""
    low = HashSpec("rtag7-crc16-bisync", 1)
    routing = by_tier(Routing.shortest_paths(three_tiers, low), {1: low, 2: high, 3: SOUND})

    (finding,) = findings(routing)["ecmp-polarization"]

    assert finding.status is Status.WARN
    assert fix in finding.fix
    assert "use 1 of 4 next hops of agg" in finding.what
    assert ("another seed, which only renames" in finding.what) == (high.seed != low.seed)
    assert finding.evidence["expected_loss"] == pytest.approx(0.25, abs=0.04)
    cured = by_tier(routing, {1: low, 2: replace(low, offset=5), 3: SOUND})
    assert findings(cured)["ecmp-polarization"][0].status is Status.PASS


def test_the_same_seed_of_linux_routers_is_cured_by_a_seed(clos):
    """Hash-threshold over parallel cables: half of the links idle, and the fix is another seed."""
    routing = Routing.shortest_paths(clos(4, 2, 4, parallel=2), HashSpec("linux-multipath-fields", 1))

    (finding,) = findings(routing)["ecmp-polarization"]

    assert finding.status is Status.FAIL
    assert finding.evidence["expected_loss"] == pytest.approx(0.5, abs=0.06)
    assert finding.fix == "give each tier its own hash seed (net.ipv4.fib_multipath_hash_seed)"
    assert (
        findings(each_its_own(routing, "linux-multipath-fields"))["ecmp-polarization"][0].status
        is Status.PASS
    )


def test_fields_that_ignore_the_roce_port_cost_bandwidth(clos):
    """Addresses alone: many QPs are one flow; with the port or the destination QP they are many."""
    fabric = clos(2, 4, 4)
    blind = each_its_own(Routing.shortest_paths(fabric, SOUND), fields=("src_ip", "dst_ip"))

    (finding,) = findings(blind)["ecmp-fields"]

    assert finding.status is Status.FAIL
    # 4 balls in 4 bins leave 0.477, the worse of two leaves less; 64 balls leave more.
    assert 0.33 < finding.evidence["efficiency"] < 0.477
    assert finding.evidence["efficiency_with_port"] > 0.62
    for fields in (("src_ip", "dst_ip", "sport"), ("src_ip", "dst_ip", "dst_qp")):
        seeing = each_its_own(blind, fields=fields)
        assert findings(seeing)["ecmp-fields"][0].status is Status.PASS


def test_too_few_qps_are_told_how_many_suffice(clos):
    """8 flows on 4 uplinks with one QP; the count that the fix names is enough, half of it is not."""
    routing = Routing.shortest_paths(clos(2, 4, 8, uplink_gbps=0.2), SOUND)
    connections = across_leaves(routing)

    (finding,) = queue_pairs(routing, connections, QpSettings(), draws=300)

    efficiency = {int(count): value for count, value in finding.evidence["efficiency_by_qps"].items()}
    assert finding.status is Status.WARN
    assert finding.evidence["expected_loss"] == pytest.approx(1 - efficiency[1], abs=1e-3)
    named = int(finding.fix.split("=")[1].split(":")[0])
    assert efficiency[named] >= 0.8 > efficiency[named // 2]
    assert queue_pairs(routing, connections, QpSettings(named), draws=300)[0].status is Status.PASS


def test_one_port_for_all_qps_costs_bandwidth(clos, roce_flows):
    """Four QPs that share a tuple move together; where the destination QP is hashed they do not."""
    fabric = clos(2, 8, 8)
    routing = each_its_own(Routing.shortest_paths(fabric, SOUND))
    nics = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    source, target = np.repeat(nics[:8], 4), np.repeat(nics[8:], 4)
    flows = roce_flows(source, target, sport=65472, dst_qp=np.arange(1, 33))

    (finding,) = source_ports(routing, flows)

    assert finding.status is Status.FAIL
    assert (finding.evidence["distinct_tuples"], finding.evidence["distinct_source_ports"]) == (8, 1)
    # 8 balls of 4 against 32 balls in 8 bins: 0.385 and 0.569 of the even split.
    assert finding.evidence["expected_loss"] == pytest.approx(1 - 0.385 / 0.569, abs=0.06)
    deep = each_its_own(routing, fields=("src_ip", "dst_ip", "dst_qp"))
    assert source_ports(deep, flows)[0].status is Status.PASS


@pytest.mark.parametrize(("proto", "ports"), [(17, range(49152, 65536)), (6, range(32768, 61000))])
def test_flows_that_meet_on_a_link_are_told_and_steered_apart(clos, roce_flows, proto, ports):
    """Eight flows on one of four uplinks get a quarter; the ports that the finding names are usable, and heal it."""
    routing = each_its_own(Routing.shortest_paths(clos(2, 4, 8), SOUND))
    nics = np.array([routing.fabric.nics(host)[0] for host in routing.fabric.hosts])
    flows = replace(roce_flows(nics[:8], nics[8:], sport=0), proto=np.full(8, proto))
    up: dict[tuple[int, int], int] = {}
    for port in range(50000, 50400):
        for flow, path in enumerate(paths(routing, replace(flows, sport=np.full(8, port)))):
            up.setdefault((flow, int(path[1])), port)
    link = int(routing.table[routing.fabric.node_row("leaf0"), int(routing.group[nics[8]])].links[0])
    together = replace(flows, sport=np.array([up[flow, link] for flow in range(8)]))

    (finding,) = shared_links(routing, together)

    assert (finding.status, str(finding.where)) == (Status.WARN, "switch/leaf0/port/u0")
    assert finding.evidence["flows"] == 8
    assert finding.evidence["efficiency"] == pytest.approx(0.25)
    assert set(finding.evidence["source_ports"]) <= set(ports)
    (healed,) = shared_links(routing, replace(together, sport=np.array(finding.evidence["source_ports"])))
    assert healed.status is Status.PASS
    assert healed.evidence["efficiency"] == pytest.approx(finding.evidence["steered_efficiency"]) == 1.0
    (open_,) = shared_links(replace(routing, hashes={}), together)
    assert (open_.status, open_.required) == (Status.UNKNOWN, False)


def test_next_hops_are_unequal_after_a_failure_further_on(clos, roce_flows):
    """One of two cables behind a spine is down: the loss is what the engine sees, and the proposed weights heal it."""
    fabric = without(clos(3, 2, 4, parallel=2), ("spine0", "d4"))
    routing = each_its_own(Routing.shortest_paths(fabric, SOUND))

    found = {str(finding.where): finding for finding in findings(routing)["ecmp-weights"]}

    assert sorted(found) == ["switch/leaf0", "switch/leaf1"]
    finding = found["switch/leaf0"]
    assert finding.evidence["fitting_weights"] == [1, 1, 2, 2]
    leaf, nics = fabric.node_row("leaf0"), [fabric.port_row(f"node{n}", "eth0") for n in range(1, 13)]
    generator = np.random.default_rng(2)
    flows = roce_flows(
        generator.choice(nics[:4], 40_000),
        generator.choice(nics[8:], 40_000),
        sport=generator.integers(49152, 65536, 40_000),
    )

    def rate(chosen):
        loads = walked_loads(chosen, flows, np.ones(40_000))[0]
        return 1 / loads[routing.hops.between].max()

    group = int(routing.group[nics[-1]])
    links = routing.table[leaf, group].links
    healed = replace(routing, table={**routing.table, (leaf, group): NextHops(links, (1, 1, 2, 2))})
    assert 1 - rate(routing) / rate(healed) == pytest.approx(finding.evidence["expected_loss"], abs=0.03)
    assert [each.node for each in mismatches(healed, 0.05)] == [fabric.node_row("leaf1")]


def test_what_is_not_known_is_no_pass(clos):
    """Without hashes or flows three rules say UNKNOWN, none of them required."""
    found = findings(Routing.shortest_paths(clos(2, 4, 2)))

    unknown = {check for check, every in found.items() if every[0].status is Status.UNKNOWN}
    assert unknown == {"ecmp-polarization", "ecmp-fields", "ecmp-source-ports"}
    assert not any(
        each.required for every in found.values() for each in every if each.status is Status.UNKNOWN
    )


def test_a_fabric_without_choices_has_nothing_to_judge(clos):
    """One spine, one leaf, or no host that is known: UNKNOWN, not required; a pass where tables were read."""
    bare = FabricBuilder()
    for name in ("leaf0", "spine0"):
        bare.node(name, NodeKind.SWITCH)
        bare.port(name, "u0")
    bare.link(("leaf0", "u0"), ("spine0", "u0"))
    for fabric in (clos(2, 1, 2), clos(1, 1, 2), bare.build()):
        routing = Routing.shortest_paths(fabric, SOUND)
        (only,) = lint_ecmp(routing)
        assert (only.check, only.status, only.required) == ("ecmp-choices", Status.UNKNOWN, False)
        assert lint_ecmp(replace(routing, source="LFT"))[0].status is Status.PASS


def test_links_without_a_speed_count_alike(clos):
    """Losses are those of equal links, and it is said."""
    known = each_its_own(Routing.shortest_paths(clos(2, 4, 8), SOUND))
    lacking = each_its_own(Routing.shortest_paths(clos(2, 4, 8, uplink_gbps=0.0), SOUND))
    told, found = findings(known), findings(lacking)
    (speeds,) = found.pop("ecmp-speeds")
    assert "the speed of 8 links is not known (leaf0:u0" in speeds.what
    assert {check: every[0].evidence for check, every in found.items()} == {
        check: every[0].evidence for check, every in told.items()
    }
