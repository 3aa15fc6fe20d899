"""Which rank is at the other end of which connection."""

from __future__ import annotations

import pytest

from collectives.connections import pair
from nettune.errors import NettuneError
from topology.builder import FabricBuilder
from topology.fabric import NodeKind


def sock(local, local_port, remote, remote_port, sent=0, again=0, group=(0, 1)):
    return {
        "local_address": local,
        "local_port": local_port,
        "remote_address": remote,
        "remote_port": remote_port,
        "sent_bytes": sent,
        "retransmitted_bytes": again,
        "received_bytes": 0,
        "group": list(group),
    }


def test_both_directions_with_their_own_bytes():
    """A connection becomes two, each with its sender's payload, retransmissions taken off."""
    a, b = pair(
        [[sock("10.0.0.1", 1000, "10.0.0.3", 2000, 900, 100)], [sock("10.0.0.3", 2000, "10.0.0.1", 1000, 50)]]
    )
    assert (a.src, a.dst, a.sport, a.dport, a.sent_bytes, a.retransmitted_bytes) == (
        0,
        1,
        1000,
        2000,
        800,
        100,
    )
    assert (b.src, b.dst, b.sport, b.dport, b.sent_bytes) == (1, 0, 2000, 1000, 50)
    assert (a.reversed().src_address, a.reversed().sport) == ("10.0.0.3", 2000)


def test_ranks_that_share_an_address_are_told_apart():
    """Two connections between the same two addresses belong to the ranks that own their ports."""
    ranks = [
        [sock("10.0.0.1", 1000, "10.0.0.3", 2000)],
        [sock("10.0.0.1", 1001, "10.0.0.3", 2001)],
        [sock("10.0.0.3", 2001, "10.0.0.1", 1001), sock("10.0.0.3", 2000, "10.0.0.1", 1000)],
    ]
    assert [(one.src, one.dst) for one in pair(ranks)] == [(0, 2), (1, 2), (2, 0), (2, 1)]


def test_half_a_connection_is_an_error():
    """A connection to somebody who is no rank is named."""
    with pytest.raises(
        NettuneError, match=r"rank 0: no rank has the other end of its connection to 10.0.0.3:2000"
    ):
        pair([[sock("10.0.0.1", 1000, "10.0.0.3", 2000)], []])


def test_flow_uses_the_ports_that_hold_the_addresses():
    """The flow names rows of the fabric; an address that it lacks is an error."""
    builder = FabricBuilder()
    builder.node("a", NodeKind.HOST)
    builder.port("a", "eth0", address="10.0.0.1")
    builder.node("b", NodeKind.HOST)
    builder.port("b", "eth0")
    builder.port("b", "eth1", address="10.0.0.3")
    builder.link(("a", "eth0"), ("b", "eth1"))
    fabric = builder.build()
    one, back = pair([[sock("10.0.0.1", 1, "10.0.0.3", 2)], [sock("10.0.0.3", 2, "10.0.0.1", 1)]])
    flow = one.flow(fabric)
    assert (flow.src_port, flow.dst_port, flow.sport, flow.dport) == (0, 2, 1, 2)
    assert back.flow(fabric).src_port == 2
    stranger, _ = pair([[sock("10.0.0.9", 1, "10.0.0.3", 2)], [sock("10.0.0.3", 2, "10.0.0.9", 1)]])
    with pytest.raises(NettuneError, match=r"no port of the fabric has address 10.0.0.9"):
        stranger.flow(fabric)
