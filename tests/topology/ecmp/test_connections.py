"""NCCL's QPs as flows, and the most loaded link over port draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp import HashSpec
from topology.ecmp.connections import (
    Connections,
    QpSettings,
    across_leaves,
    busiest,
    by_qps,
    qp_shares,
    qp_transfers,
    roce_ports,
)
from topology.ecmp.roce import sport_of_qps
from topology.routing import Routing


def counted(size, message, settings, devices):
    """The rule of NCCL's transport message by message: QP (k m + i) % n, pieces of 128 bytes."""
    n = settings.per_connection * devices
    m = n if settings.split else devices
    shares, number = [0.0] * n, 0
    while size > 0:
        sent = min(message, size)
        piece = math.ceil(math.ceil(sent / m) / 128) * 128
        left = sent
        for i in range(m):
            part = min(piece, left)
            shares[(number * m + i) % n] += part
            left -= part
        size, number = size - sent, number + 1
    return shares


@given(
    size=st.integers(1, 5000),
    message=st.integers(1, 900),
    qps=st.integers(1, 8),
    split=st.booleans(),
    devices=st.integers(1, 2),
)
def test_shares_are_those_of_single_messages(size, message, qps, split, devices):
    """Every QP's bytes, short last message and short last piece among them; none is lost."""
    shares = qp_shares(size, message, QpSettings(qps, split), devices)

    assert shares.tolist() == counted(size, message, QpSettings(qps, split), devices)
    assert shares.sum() == size


def test_transfers_follow_the_devices():
    """QP q goes out of device q % devices of either side; the side with more devices sets the number of QPs."""
    connections = Connections(np.array([[3, 4]]), np.array([[9]]), np.array([4096.0]), np.array([512.0]))

    moved = qp_transfers(connections, QpSettings(2))

    assert moved.src_port.tolist() == [3, 4, 3, 4]
    assert moved.dst_port.tolist() == [9] * 4
    assert moved.bytes_.tolist() == [1024.0] * 4
    assert (moved.edge.tolist(), moved.connection.tolist()) == ([0] * 4, [0, 1, 2, 3])


def test_a_qp_without_bytes_is_no_flow():
    """One message without splitting uses one QP of four."""
    connections = Connections.of(np.array([1]), np.array([2]), 1000.0, messages=1)

    assert len(qp_transfers(connections, QpSettings(4)).bytes_) == 1
    assert len(qp_transfers(connections, QpSettings(4, split=True)).bytes_) == 4


@pytest.mark.parametrize(
    ("flows", "uplinks", "efficiency"), [(8, 8, 0.385), (16, 8, 0.478), (32, 8, 0.569), (32, 32, 0.282)]
)
@pytest.mark.parametrize("known", [True, False])
def test_random_ports_lose_what_is_known(clos, flows, uplinks, efficiency, known):
    """Through a CRC with ports from random QPs, and by an ideal hash: the efficiencies of random ECMP, to 5%."""
    fabric = clos(2, uplinks, flows)
    routing = Routing.shortest_paths(fabric, HashSpec("rtag7-crc16-bisync", 3))
    ports = np.array([fabric.port_row(host, "eth0") for host in fabric.hosts])
    fast = replace(fabric.ports, speed_gbps=np.where(fabric.ports.rail == 0, 100.0, fabric.ports.speed_gbps))
    fast = replace(
        fast,
        speed_gbps=np.where(
            np.isin(np.arange(len(fast.name)), fabric.directed_ports[fabric.out_of_port[ports], 1]),
            100.0,
            fast.speed_gbps,
        ),
    )
    routing = replace(routing, fabric=replace(fabric, ports=fast))
    moved = qp_transfers(Connections.of(ports[:flows], ports[flows:], 1e6), QpSettings())

    found = busiest(routing, moved, draws=1500, seed=1, ports=roce_ports if known else None)

    assert found.by == ("known hashes" if known else "ideal hash")
    assert found.efficiency == pytest.approx(efficiency, rel=0.05)
    assert found.p50_us <= found.p95_us <= found.times_us.max()
    assert found.even_us == pytest.approx(flows / uplinks * 1e6 * 8e-3 / 0.1)


def test_draws_are_repeatable(clos):
    """Same seed, same times; another seed, others."""
    fabric = clos()
    routing = Routing.shortest_paths(fabric, HashSpec("linux-multipath-fields", 3))
    moved = qp_transfers(across_leaves(routing), QpSettings(2))
    times = [busiest(routing, moved, draws=50, seed=seed, ports=roce_ports).times_us for seed in (1, 1, 2)]

    assert np.array_equal(times[0], times[1])
    assert not np.array_equal(times[0], times[2])


def test_more_qps_lose_less(clos):
    """Each doubling up to 16 QPs gains, and 16 leave more than twice what one does."""
    routing = Routing.shortest_paths(clos(2, 8, 8))

    found = [
        each.efficiency
        for each in by_qps(routing, across_leaves(routing), QpSettings(), (1, 2, 4, 8, 16)).values()
    ]

    assert found == sorted(found)
    assert found[-1] > 1.6 * found[0]


def test_a_nics_qps_are_numbered_one_after_another(clos):
    """In each draw: ports follow from numbers that are consecutive on either NIC, so equal draws differ by their start."""
    fabric = clos(2, 2, 2)
    nic = [fabric.port_row(host, "eth0") for host in fabric.hosts]
    moved = qp_transfers(Connections.of(np.array([nic[0]] * 2), np.array([nic[2]] * 2), 1e6), QpSettings(2))

    flows = roce_ports(moved, np.random.default_rng(3), 2)

    assert np.diff(flows.dst_qp.reshape(2, 4)).tolist() == [[1, 1, 1]] * 2
    assert flows.dst_qp[0] != flows.dst_qp[4]
    local = np.arange(1, 2**24 - 3)
    fits = [
        sport_of_qps(local + number, np.full_like(local, flows.dst_qp[number])) == flows.sport[number]
        for number in range(4)
    ]
    assert np.logical_and.reduce(fits).any()


def test_the_test_traffic_is_a_permutation_across_leaves(clos):
    """Every NIC sends once and receives once, and none within its leaf."""
    routing = Routing.shortest_paths(clos(4, 2, 3))

    made = across_leaves(routing)

    source, target = made.src_ports[:, 0], made.dst_ports[:, 0]
    assert (
        sorted(source)
        == sorted(target)
        == [routing.fabric.port_row(host, "eth0") for host in routing.fabric.hosts]
    )
    assert np.all(routing.group[source] != routing.group[target])


def test_what_nccl_does_not_have_is_refused():
    """More than 128 QPs, of one device or of all."""
    with pytest.raises(InputError, match="outside 1 to 128"):
        QpSettings(129)
    with pytest.raises(InputError, match="256 QPs"):
        qp_shares(1e6, 1e3, QpSettings(128), 2)
