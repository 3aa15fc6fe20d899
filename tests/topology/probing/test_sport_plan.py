"""Source ports chosen from a probed table: no hash is looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Status
from nettune.errors import InputError
from topology.ecmp import HashSpec
from topology.probing.paths import ProbedPath, plan
from topology.probing.sportplan import choose_sports
from topology.routing import FlowKey, Routing


def table(fabric, pairs, ports, seed=1, first=50000):
    """What probing would see of pairs under a hash that the choice is not told, and the routing without it."""
    hashed = Routing.shortest_paths(fabric, HashSpec("linux-multipath-fields", seed))
    spines = {row for row in hashed.hashes if fabric.nodes.tier[row] == 2}
    other = HashSpec("linux-multipath-fields", seed + 1)
    hashed = replace(
        hashed, hashes={row: other if row in spines else spec for row, spec in hashed.hashes.items()}
    )
    made = plan(hashed, pairs, range(first, first + ports))
    flows = [FlowKey(src, dst, 17, sport, 4791) for src, dst in made.pairs for sport in made.sports]
    found = [ProbedPath(flow, hashed.path(flow), {}) for flow in flows]
    return made, found, replace(hashed, hashes={})


def across(fabric, count):
    """Pairs of the first hosts with the last."""
    nics = [fabric.nics(host)[0] for host in fabric.hosts]
    return list(zip(nics[:count], nics[-count:], strict=True))


@pytest.mark.parametrize(("uplinks", "random"), [(2, 0.786), (4, 0.565)])
def test_a_flow_of_each_pair_is_spread(clos, uplinks, random):
    """8 pairs over 2 and 4 uplinks: ideal, where random ports of the same table give what random ECMP gives."""
    fabric = clos(2, uplinks, 8, host_gbps=100.0, uplink_gbps=0.1)
    _, seen, routing = table(fabric, across(fabric, 8), 32)
    found = choose_sports(seen, routing, 1)
    assert found.efficiency == pytest.approx(1.0)
    assert found.random_efficiency == pytest.approx(random, rel=0.1)
    assert found.findings(1, fabric) == []


@pytest.mark.parametrize("seed", range(2))
def test_flows_of_one_pair_use_every_uplink_alike(clos, seed):
    """Also where the NIC is the bottleneck, so that no spread would be faster."""
    fabric = clos(2, 2, 1, parallel=2)
    made, seen, routing = table(fabric, across(fabric, 1), 64, seed)
    found = choose_sports(seen, routing, 8)
    ((pair, sports),) = found.sports.items()
    used = Counter(path.links[1] for path in seen if path.flow.sport in sports)
    assert sorted(used.values()) == [2, 2, 2, 2]
    assert found.sharing == 2 < found.random_sharing
    assert found.efficiency == pytest.approx(1.0)
    told = found.to_json(made, fabric)
    assert told["pairs"][0]["sports"] == list(sports)
    assert told["pairs"][0]["src_address"] == fabric.ports.address[pair[0]]


def test_ports_without_a_known_path_are_not_chosen(clos):
    """Too few are UNKNOWN, required, with the numbers; other pairs are steered all the same."""
    fabric = clos(2, 2, 2)
    pairs = across(fabric, 2)
    _, seen, routing = table(fabric, pairs, 8)
    cut = [
        replace(path, links=(path.links[0], -1, *path.links[2:]))
        if path.flow.src_port == pairs[0][0] and (path.flow.sport or 0) > 50002
        else path
        for path in seen
    ]
    found = choose_sports(cut, routing, 4)
    assert set(found.sports) == {pairs[1]}
    (finding,) = found.findings(4, fabric)
    assert (finding.status, finding.required) == (Status.UNKNOWN, True)
    assert finding.what.startswith("3 source ports to ")
    nothing = choose_sports(cut, routing, 9)
    assert (len(nothing.sports), len(nothing.short)) == (0, 2)
    with pytest.raises(InputError, match="0 flows"):
        choose_sports(seen, routing, 0)


@pytest.mark.parametrize(("flows", "first"), [(6, 49152), (8, 49216), (8, 49600), (16, 49344)])
def test_pairs_whose_nics_are_full_are_spread_to_the_end(clos, flows, first):
    """Three leaves in a ring over parallel cables under Linux' hash: as few flows a link as there can be."""
    fabric = clos(3, 2, 1, parallel=2)
    nics = [fabric.nics(host)[0] for host in fabric.hosts]
    pairs = list(zip(nics, nics[1:] + nics[:1], strict=True))
    _, seen, routing = table(fabric, pairs, 64, first=first)
    assert choose_sports(seen, routing, flows).sharing == -(-flows // 4)


def test_a_path_with_few_ports_is_not_chosen_by_more_flows(clos):
    """Three of 20 ports take one of two uplinks: ten flows get those three, and seven of the others."""
    fabric = clos(2, 2, 1)
    _, seen, routing = table(fabric, across(fabric, 1), 40)
    by_link = sorted({path.links[1] for path in seen})
    few = [path for path in seen if path.links[1] == by_link[0]][:3]
    many = [path for path in seen if path.links[1] == by_link[1]][:17]
    found = choose_sports([*few, *many], routing, 10)
    (sports,) = found.sports.values()
    assert {path.flow.sport for path in few} < set(sports)
    assert (len(set(sports)), found.sharing) == (10, 7)


@given(seed=st.integers(0, 10**6), flows=st.integers(1, 6))
def test_ports_are_of_the_table_and_differ(clos, seed, flows):
    """Each pair gets as many different probed ports as it has flows; chosen ports are no worse than random ones."""
    fabric = clos(2, 3, 2)
    made, seen, routing = table(fabric, across(fabric, 2), 12, seed)
    found = choose_sports(seen, routing, flows, seed=seed)
    for sports in found.sports.values():
        assert len(set(sports)) == flows
        assert set(sports) <= set(made.sports)
    assert found.random_efficiency <= found.efficiency + 1e-9 <= 1 + 2e-9
