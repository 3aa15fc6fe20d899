"""The kernel's choice of next hop for real TCP and UDP packets, beside what the routing that was read predicts.

`tests/campaigns/campaign_ecmp.py` does the same with 1,000 flows a lab.
"""

from __future__ import annotations

import random
from functools import partial

import pytest

from nettune.lab import Lab, LabSpec
from nettune.launch import run
from topology.discovery.live import discover
from topology.probing.paths import ProbePlan, agreement
from topology.probing.run import probe

pytestmark = pytest.mark.lab

ASKED, PORTS = 8, 12
WEIGHTS = (5, 1, 3, 1)


def set_weights(lab, leaf, weights):
    """Give a leaf's next hops towards every other leaf these weights, as an operator would by `ip route`."""
    gateways = {one.lower.iface: one.upper.address for one in lab.wiring.links if one.lower.node == leaf}
    for other in lab.wiring.leaves:
        if other != leaf:
            hops = [
                word
                for number, weight in enumerate(weights)
                for word in f"nexthop via {gateways[f'u{number}']} dev u{number} weight {weight}".split()
            ]
            route = ["ip", "route", "replace", lab.wiring.prefix(other), "proto", "static", *hops]
            done = lab.exec(leaf, route)
            assert done.returncode == 0, done.stderr


def probed(lab, routing, asked, ports, seed):
    """Paths of asked x ports flows between random hosts, half TCP and half UDP, with random ports at both ends."""
    draw, fabric = random.Random(seed), routing.fabric
    paths = []
    for number in range(asked):
        src = draw.choice(lab.hosts)
        dst = draw.choice(
            [
                host
                for host in lab.hosts
                if fabric.leaf_of(fabric.nics(host)[0]) != fabric.leaf_of(fabric.nics(src)[0])
            ]
        )
        made = ProbePlan(
            pairs=((fabric.nics(src)[0], fabric.nics(dst)[0]),),
            sports=tuple(draw.sample(range(1024, 65536), ports)),
            proto=(6, 17)[number % 2],
            dport=draw.randrange(1, 65536),
            dscp=draw.randrange(64),
            hops=(3,),
            longest=(3,),
            packets_per_s=5000,
        )
        found, findings = probe(partial(run, lab.launcher()), made, fabric)
        assert findings == []
        paths += found
    return paths


def choices(hops, asked, ports):
    """Probed paths over a lab with so many equal next hops, or next hops of these weights, and their agreement."""
    weights = hops if isinstance(hops, tuple) else (1,) * hops
    spec = LabSpec(name="choice", leaves=3, spines=len(weights), hosts_per_leaf=2, hash_seed=977)
    with Lab.up(spec) as lab:
        if len(set(weights)) > 1:
            for leaf in lab.wiring.leaves:
                set_weights(lab, leaf, weights)
        routing = discover(partial(run, lab.launcher()), lab.nodes).routing
        row = routing.fabric.node_row("leaf0")
        assert {each.weights for (node, _), each in routing.table.items() if node == row} == {weights}
        paths = probed(lab, routing, asked, ports, seed=len(weights))
    return paths, agreement(paths, routing)


@pytest.mark.parametrize("hops", [2, 3, 4, WEIGHTS], ids=str)
def test_every_flow_takes_the_predicted_way(hops):
    """TCP and UDP, random hosts and ports, 2, 3 and 4 equal next hops and weighted ones: all are predicted."""
    paths, seen = choices(hops, ASKED, PORTS)
    assert (len(paths), seen.compared, seen.equal) == (ASKED * PORTS, ASKED * PORTS, ASKED * PORTS)


@pytest.mark.parametrize("mask", [0x3, 0x10, 0x33, 0xFFF])
def test_other_hash_fields_are_predicted_too(mask):
    """What fib_multipath_hash_fields leaves out does not count; its bits for other packets have no effect."""
    with Lab.up(LabSpec(name="choice", leaves=2, spines=4, hosts_per_leaf=2, hash_seed=31)) as lab:
        for leaf in lab.wiring.leaves:
            path = "/proc/sys/net/ipv4/fib_multipath_hash_fields"
            done = lab.exec(leaf, ["sh", "-c", f"echo {mask} > {path}"])
            assert done.returncode == 0, done.stderr
        routing = discover(partial(run, lab.launcher()), lab.nodes).routing
        assert routing.hashes[routing.fabric.node_row("leaf0")].fields != ()
        paths = probed(lab, routing, 6, 8, seed=mask)
    assert agreement(paths, routing).equal == len(paths) == 48
