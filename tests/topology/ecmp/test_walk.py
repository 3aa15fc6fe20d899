"""Exact paths: many flows together, LAGs, RoCE, spraying."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp import HashSpec, Tuples, choose
from topology.ecmp.roce import sport_of_qps
from topology.ecmp.tuples import FIVE_TUPLE
from topology.ecmp.walk import FlowColumns, paths, walked_loads
from topology.loads import expected_loads
from topology.routing import FlowKey, NextHops, Routing, UnknownPathError
from topology.traffic import Transfers

FAMILIES = st.sampled_from(["rtag7-crc16-bisync", "crc32c", "linux-multipath-fields", "ideal"])


def nics(fabric):
    """Port rows of all hosts' first NICs."""
    return np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])


def one_by_one(routing, flow):
    """A path from the table alone, one hash at a time."""
    fabric = routing.fabric
    if fabric.ports.node[flow.src_port] == fabric.ports.node[flow.dst_port]:
        return ()
    numbers = [
        int(ipaddress.IPv4Address(fabric.ports.address[port])) for port in (flow.src_port, flow.dst_port)
    ]
    tuples = Tuples(
        *(
            np.array([n], dtype=np.uint32)
            for n in (*numbers, flow.sport, flow.dport, flow.proto, flow.dst_qp or 0)
        )
    )
    links = [int(fabric.out_of_port[flow.src_port])]
    while True:
        node = int(fabric.ports.node[fabric.directed_ports[links[-1], 1]])
        if fabric.leaf_of(flow.dst_port) == node:
            return (*links, int(fabric.out_of_port[flow.dst_port]) ^ 1)
        hops = routing.table[node, int(routing.group[flow.dst_port])]
        links.append(hops.links[int(choose(routing.hashes[node], tuples, hops.weights)[0])])


@given(
    seed=st.integers(0, 1000),
    families=st.tuples(FAMILIES, FAMILIES),
    parallel=st.integers(1, 2),
    weights=st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
def test_walking_together_is_walking_alone(clos, seed, families, parallel, weights):
    """Random flows under a hash for each switch, weighted next hops among them: every path, and all loads."""
    fabric = clos(3, 3, 2, parallel=parallel)
    plain = Routing.shortest_paths(fabric)
    hashes = {
        fabric.node_row(name): HashSpec(families[number % 2], seed + number)
        for number, name in enumerate(fabric.switches)
    }
    leaf, group = fabric.node_row("leaf0"), int(plain.group[nics(fabric)[-1]])
    links = plain.table[leaf, group].links
    table = {**plain.table, (leaf, group): NextHops(links, tuple(weights[: len(links)]))}
    routing = replace(plain, table=table, hashes=hashes)
    generator = np.random.default_rng(seed)
    ends = generator.choice(nics(fabric), (40, 2)).tolist()
    flows = [FlowKey(a, b, 17, int(generator.integers(2**16)), 4791, 7) for a, b in ends]

    found = routing.paths(flows)

    assert found == [one_by_one(routing, flow) for flow in flows]
    loads = np.zeros(fabric.directed_count)
    for path in found:
        np.add.at(loads, list(path), 2.0)
    assert np.array_equal(walked_loads(routing, FlowColumns.of(flows), np.full(40, 2.0))[0], loads)


def with_lags(fabric, spec):
    """Parallel cables between two switches as one LAG each, on both sides."""
    lag = fabric.ports.lag.copy()
    for row, name in enumerate(fabric.ports.name):
        if fabric.ports.node[row] >= len(fabric.hosts) and fabric.ports.address[row] == "":
            lag[row] = int(name[1:]) // 2
    bundled = replace(fabric, ports=replace(fabric.ports, lag=lag))
    return Routing.shortest_paths(bundled, spec)


def test_a_lag_is_one_next_hop_and_then_a_member(clos, roce_flows):
    """The first hash picks among spines as if each had one cable; the second, of its own, the member."""
    fabric = clos(2, 3, 1, parallel=2)
    member = HashSpec("crc16-ccitt", 9, fields=("src_ip", "dst_ip", "sport"))
    routing = with_lags(fabric, HashSpec("crc32c", 5, member=member))
    a, b = nics(fabric)
    sport = np.arange(49152, 51152)
    single = Routing.shortest_paths(clos(2, 3, 1), HashSpec("crc32c", 5))
    flows = roce_flows(np.full(2000, a), np.full(2000, b), sport=sport)

    taken = paths(routing, flows)[:, 1]

    leaf_ports = [fabric.ports.name[fabric.directed_ports[link, 0]] for link in taken.tolist()]
    alone = paths(single, flows)[:, 1]
    spines = [single.fabric.ports.name[single.fabric.directed_ports[link, 0]] for link in alone.tolist()]
    assert [int(name[1:]) // 2 for name in leaf_ports] == [int(name[1:]) for name in spines]
    tuples = Tuples(
        *(
            np.full(2000, int(ipaddress.IPv4Address(address)), dtype=np.uint32)
            for address in ("10.0.0.1", "10.0.1.1")
        ),
        *(column.astype(np.uint32) for column in (flows.sport, flows.dport, flows.proto)),
    )
    assert [int(name[1:]) % 2 for name in leaf_ports] == choose(member, tuples, (1, 1)).tolist()
    assert set(leaf_ports) == {"u0", "u1", "u2", "u3", "u4", "u5"}
    again = Routing.from_json(json.loads(json.dumps(routing.to_json())), routing.fabric)
    assert again.hashes == routing.hashes


def test_a_lag_without_a_known_hash_is_not_guessed(clos, roce_flows):
    """The ECMP hash alone does not give the member."""
    fabric = clos(2, 3, 1, parallel=2)
    a, b = nics(fabric)

    with pytest.raises(UnknownPathError, match="LAG hash of leaf0 is not known"):
        paths(with_lags(fabric, HashSpec("crc32c", 5)), roce_flows([a], [b], sport=50000))


def test_a_roce_flow_is_known_by_its_qps(clos):
    """Source port and, where it is hashed, destination QP come from the QP numbers; without the QP the path is not known."""
    fabric = clos(2, 4, 1)
    a, b = map(int, nics(fabric))
    plain = Routing.shortest_paths(fabric, HashSpec("crc32c", 1))
    deep = Routing.shortest_paths(fabric, HashSpec("crc32c", 1, fields=(*FIVE_TUPLE, "dst_qp")))
    flow = FlowKey(a, b, 17, sport_of_qps(0x118, 0x1F3), 4791, dst_qp=0x1F3)

    assert plain.path(flow) == plain.path(FlowKey(a, b, 17, 0xE1C0, 4791))
    by_qp = {deep.path(replace(flow, dst_qp=number)) for number in range(64)}
    assert len(by_qp) == 4
    assert len({plain.path(replace(flow, dst_qp=number)) for number in range(64)}) == 1
    with pytest.raises(UnknownPathError, match="destination QP"):
        deep.path(replace(flow, dst_qp=None))
    assert len(deep.path(FlowKey(a, b, 6, 40000, 29500))) == 4


def test_a_port_that_is_not_hashed_need_not_be_known(clos):
    """Addresses alone decide where only they are hashed."""
    fabric = clos(2, 4, 1)
    a, b = map(int, nics(fabric))

    assert (
        len(
            Routing.shortest_paths(fabric, HashSpec("crc16", fields=("src_ip", "dst_ip"))).path(FlowKey(a, b))
        )
        == 4
    )


def test_a_spraying_switch_has_loads_but_no_path(clos, roce_flows):
    """Its load is the expected one exactly; asking for a path is refused."""
    fabric = clos(3, 2, 2, parallel=2)
    routing = Routing.shortest_paths(fabric, HashSpec("spray"))
    leaf, group = fabric.node_row("leaf0"), int(routing.group[nics(fabric)[-1]])
    uneven = NextHops(routing.table[leaf, group].links, (1, 1, 2, 4))
    routing = replace(routing, table={**routing.table, (leaf, group): uneven})
    source, target = nics(fabric)[[0, 1, 2]], nics(fabric)[[5, 4, 3]]
    flows = roce_flows(source, target, sport=50000)
    bytes_ = np.array([8.0, 24.0, 5.0])
    moved = Transfers(source, target, bytes_, np.arange(3), np.zeros(3, dtype=np.int64))

    assert walked_loads(routing, flows, bytes_)[0] == pytest.approx(expected_loads(routing, moved))
    with pytest.raises(UnknownPathError, match="hash of leaf0 sprays packets"):
        paths(routing, flows)


def test_flows_that_cannot_be_are_refused(clos, roce_flows):
    """Ports and QPs that do not fit their header fields, and NICs without an address."""
    fabric = clos(2, 2, 1)
    a, b = nics(fabric)
    with pytest.raises(InputError, match="sport is outside 0 to 65535"):
        roce_flows([a], [b], sport=65536)
    with pytest.raises(InputError, match="dst_qp is outside"):
        roce_flows([a], [b], dst_qp=2**24)
    bare = replace(fabric, ports=replace(fabric.ports, address=("",) * len(fabric.ports.name)))
    with pytest.raises(UnknownPathError, match="IPv4"):
        paths(Routing.shortest_paths(bare, HashSpec("crc16")), roce_flows([a], [b], sport=50000))
