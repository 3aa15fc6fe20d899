"""A CSV file of running connections."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from topology.ecmp.flowfile import read_flows


@pytest.fixture
def read(clos, tmp_path):
    """Read a text against a fabric of two leaves; returns the columns, the bytes and the fabric."""
    fabric = clos(2, 2, 2)

    def from_text(text):
        file = tmp_path / "flows.csv"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return *read_flows(file, fabric), fabric

    return from_text


def test_nics_are_addresses_hosts_or_ports(read):
    """What is left out is RoCEv2 of equal size; blank lines, comments and a byte-order mark do not matter."""
    _, _, fabric = read("src,dst,sport\nnode1,node3,1\n")
    address = fabric.ports.address[fabric.nics("node3")[0]]
    flows, bytes_, _ = read(
        f"\ufeffsrc, dst, sport, proto, dport, dst_qp, bytes\n# of job 7\n\nnode1,{address},50000\n"
        "node1:eth0, node3:eth0, 50001, tcp, 5000, , 7\nnode2,node4,50002,udp,4791,17,9\n"
    )
    rows = [fabric.nics(f"node{number}")[0] for number in (1, 3, 1, 3, 2, 4)]
    assert [*zip(flows.src_port.tolist(), flows.dst_port.tolist(), strict=True)] == [
        (rows[0], rows[1]),
        (rows[2], rows[3]),
        (rows[4], rows[5]),
    ]
    assert flows.proto.tolist() == [17, 6, 17]
    assert flows.dport.tolist() == [4791, 5000, 4791]
    assert flows.dst_qp.tolist() == [-1, -1, 17]
    assert bytes_.tolist() == [1, 7, 9]


def test_qp_numbers_stand_for_the_source_port(read):
    """As Linux makes it of them; a port that is given comes first."""
    flows, _, _ = read("src,dst,sport,src_qp,dst_qp\nnode1,node3,,280,499\nnode1,node3,50000,280,499\n")
    assert flows.sport.tolist() == [0xE1C0, 50000]
    assert flows.dst_qp.tolist() == [499, 499]


MISTAKES = {
    "empty": ("", "flows.csv:1: its first line must name the columns src, dst, and may name sport, dport"),
    "column": ("src,dst,sport,colour\n", "may name sport, dport, proto, src_qp, dst_qp, bytes"),
    "no flow": ("src,dst,sport\n", "holds no flows"),
    "port": ("src,dst,sport\nnode1,node3,65536\n", "flows.csv:2: sport '65536' is no number from 0 to 65535"),
    "no port": ("src,dst,sport\nnode1,node3\n", "needs a sport, or for RoCE src_qp and dst_qp"),
    "one QP": (
        "src,dst,src_qp\nnode1,node3,5\n",
        "flows.csv:2: needs a sport, or for RoCE src_qp and dst_qp",
    ),
    "QPs of TCP": ("src,dst,proto,src_qp,dst_qp\nnode1,node3,tcp,5,6\n", "needs a sport"),
    "QP": (
        "src,dst,src_qp,dst_qp\nnode1,node3,16777216,6\n",
        "src_qp '16777216' is no number from 0 to 16777215",
    ),
    "protocol": ("src,dst,sport,proto\nnode1,node3,5,sctp\n", "proto 'sctp' is neither tcp nor udp"),
    "host": ("src,dst,sport\nnode1,node9,5\n", "flows.csv:2: 'node9' is no NIC of the fabric"),
    "switch": ("src,dst,sport\nnode1,leaf0,5\n", "'leaf0' is no NIC of the fabric"),
    "too many cells": (
        "src,dst,sport\nnode1,node3,5,6\n",
        "flows.csv:2: has 4 cells, the first line names 3",
    ),
    "huge": (
        f"src,dst,sport\nnode1,node3,{'9' * 5000}\n",
        "flows.csv:2: sport '99999999999999999999' is no number",
    ),
    "one host": ("src,dst,sport\nnode1,node1,5\n", "node1 and node1 are of one host"),
    "binary": (b"\xff\xfe\x00src", "is no UTF-8 text"),
    "null": ("src,dst,sport\nnode1,\0,5\n", "flows.csv:2: "),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_what_is_wrong_is_one_line_with_its_place(read, case):
    """File, line, what, and what may be written."""
    text, words = MISTAKES[case]
    with pytest.raises(InputError) as caught:
        read(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
