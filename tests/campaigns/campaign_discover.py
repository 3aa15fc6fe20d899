"""Discovery of random labs: what was built is found, and a mis-cabled NIC is named. `make campaign`."""

from __future__ import annotations

import random
from functools import partial
from typing import Literal

import pytest

from nettune.checks import Status
from nettune.lab import Lab, LabSpec
from nettune.launch import run
from topology.discovery import Discovery, discover
from topology.fabric import NodeKind

pytestmark = pytest.mark.lab


def discovered(lab: Lab) -> Discovery:
    roles = dict.fromkeys(lab.hosts, "host") | dict.fromkeys(lab.switches, "switch")
    return discover(partial(run, lab.launcher()), lab.nodes, roles=roles)


def cables(found: Discovery) -> set[frozenset[tuple[str, str]]]:
    fabric = found.fabric
    nodes = fabric.nodes.name
    ports = [(nodes[int(n)], p) for n, p in zip(fabric.ports.node, fabric.ports.name, strict=True)]
    ends = zip(fabric.links.port_a.tolist(), fabric.links.port_b.tolist(), strict=True)
    return {frozenset((ports[a], ports[b])) for a, b in ends}


@pytest.mark.parametrize("seed", range(10))
def test_a_random_lab_is_found_as_built(seed):
    """Nodes, kinds, cables, speeds and rails equal the specification."""
    draw = random.Random(seed)
    rails = draw.choice((1, 2, 4))
    wiring: Literal["same-leaf", "per-rail"] = (
        "per-rail" if rails > 1 and draw.random() < 0.5 else "same-leaf"
    )
    spec = LabSpec(
        name=f"campaign-d{seed}",
        leaves=rails * draw.randint(1, 2) if wiring == "per-rail" else draw.randint(1, 6),
        spines=draw.randint(1, 4),
        hosts_per_leaf=draw.randint(1, 4),
        rails=rails,
        rail_wiring=wiring,
        host_rate=draw.choice(("100mbit", "1gbit")),
        uplink_rate=draw.choice(("50mbit", "400mbit")),
        parallel_uplinks=draw.randint(1, 3),
        mtu=draw.choice((1500, 9000)),
        hash_seed=draw.randint(1, 2**32 - 1),
    )
    with Lab.up(spec) as lab:
        found = discovered(lab)
        fabric = found.fabric
        assert set(fabric.hosts) == set(lab.hosts)
        assert set(fabric.switches) == set(lab.switches)
        assert cables(found) == {frozenset(((a, pa), (b, pb))) for a, pa, b, pb in lab.links}
        hosts = fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST
        ends = hosts[fabric.links.port_a] | hosts[fabric.links.port_b]
        speeds = fabric.directed_gbps[::2]
        assert set(speeds[ends]) == {spec.host_rate_gbps}
        assert set(speeds[~ends]) == {spec.uplink_rate_gbps}
        for host in fabric.hosts:
            assert [int(fabric.ports.rail[row]) for row in fabric.nics(host)] == list(range(rails))
        assert not [finding for finding in found.findings if finding.status is Status.FAIL]


@pytest.mark.parametrize("seed", range(10))
def test_a_miswired_nic_is_named_first(seed):
    """On labs with two rails and at least three hosts a leaf, the NIC whose cable was moved is the first finding."""
    draw = random.Random(100 + seed)
    per_rail = draw.random() < 0.5
    spec = LabSpec(
        name=f"campaign-m{seed}",
        leaves=draw.choice((4, 6)),
        spines=2,
        hosts_per_leaf=draw.randint(3, 5),
        rails=2,
        rail_wiring="per-rail" if per_rail else "same-leaf",
    )
    with Lab.up(spec) as lab:
        host = draw.choice(lab.hosts)
        lab.faults.apply("miswire", host=host, rail=str(draw.randint(0, 1)))
        findings = discovered(lab).findings
        fault = lab.faults.active()[0]
        assert findings[0].status is Status.FAIL
        assert findings[0].check == "rail-cabling"
        assert findings[0].where == fault.where[0]
