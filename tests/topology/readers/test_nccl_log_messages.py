"""The tokenizer of NCCL logs, message by message: every kind of event, old and new wordings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from topology.readers.nccl_log import comm_events as c
from topology.readers.nccl_log import events as e
from topology.readers.nccl_log import tokenize
from topology.readers.nccl_log import trouble as t

EXAMPLE = Path(__file__).parent / "examples" / "nccl-log.txt"


P = "gpu-1:10:20 [3] NCCL INFO "
W = "gpu-1:10:20 [3] transport/net_ib.cc:93 NCCL WARN "


def events(*lines: str) -> list[Any]:
    return list(tokenize(lines))


def one(line: str) -> Any:
    [event] = tokenize([line])
    return event


def values(event: Any) -> tuple[Any, ...]:
    """What an event tells, without where it came from, in the order of its fields."""
    return tuple(getattr(event, field.name) for field in dataclasses.fields(event)[4:])


def test_the_example_is_known_to_the_last_line() -> None:
    """No line of it is `Other` but the end mark of the topology."""
    others = [
        event.text for event in tokenize(EXAMPLE.read_text().splitlines()) if isinstance(event, e.Other)
    ]
    assert others == ["=========================================="]


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("NCCL version 2.21.5+cuda12.4", e.Version, ("NCCL", "2.21.5", "cuda12.4")),
        ("RCCL version : 2.22.3-HEAD:1a2b", e.Version, ("RCCL", "2.22.3-HEAD:1a2b", "")),
        ("NCCL_IB_TIMEOUT set by environment to 22.", e.EnvironmentSet, ("NCCL_IB_TIMEOUT", "22")),
        ("NCCL_IB_HCA set to =mlx5_0,mlx5_1", e.EnvironmentSet, ("NCCL_IB_HCA", "=mlx5_0,mlx5_1")),
        (
            "Invalid value 9e9 for NCCL_IB_TC, using default -1.",
            e.EnvironmentInvalid,
            ("NCCL_IB_TC", "9e9", "-1"),
        ),
        ("Bootstrap: Using eth0:10.0.0.1<0>", e.Bootstrap, ("eth0", "10.0.0.1")),
        ("Bootstrap : Using [0]ib0:fe80::1%ib0<0>", e.Bootstrap, ("ib0", "fe80::1%ib0")),
        ("NET/IB : No device found.", e.NetAbsent, ("IB", "no device found")),
        ("Using network Socket", e.NetworkChosen, ("Socket",)),
        ("[Rank 3] Using network IB", e.NetworkChosen, ("IB",)),
        (
            "NET/IB: [2] mlx5_2:uverbs2:1/RoCE provider=Mlx5 speed=400000 context=0x5 pciPath=/sys/a/0000:3b:00.0 ar=0 oooRqSize=0",
            e.NetDevice,
            (2, "mlx5_2", 1, "RoCE", "Mlx5", 400000, "0000:3b:00.0", False),
        ),
        (
            "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=800000 ndevs=2",
            e.VirtualDevice,
            (2, "mlx5_0+mlx5_1", 800000, 2),
        ),
        ("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", e.GpuDirectHca, (True, 0, "mlx5_0")),
        ("NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 1 'mlx5_1'", e.GpuDirectHca, (True, 1, "mlx5_1")),
        (
            "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1' (no module)",
            e.GpuDirectHca,
            (False, 1, "mlx5_1"),
        ),
        (
            "GPU Direct RDMA Disabled for GPU 81000 / HCA 1 (distance 8 > 5), read 0",
            e.GpuDirectPath,
            (False, "0000:81:00.0", 1, 8, 5),
        ),
        (
            "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v10 (v10)",
            e.Plugin,
            ("NET", True, "Loaded net plugin NCCL RDMA Plugin v10 (v10)"),
        ),
        (
            "TUNER/Plugin: Could not find: libnccl-tuner.so",
            e.Plugin,
            ("TUNER", False, "Could not find: libnccl-tuner.so"),
        ),
        (
            "ncclCommSplit comm 0x5 rank 1 nranks 2 cudaDev 1 nvmlDev 5 busId 1000a1000 parent 0x4 splitCount 1 color 0 key 1- Init START",
            c.CommInit,
            ("START", "ncclCommSplit", "0x5", 1, 2, 1, 5, "1000:a1:00.0", "", "0x4"),
        ),
        (
            "comm 0x5 rank 7 nranks 16 cudaDev 7 busId a01d0 - Abort COMPLETE",
            c.CommInit,
            ("Abort", "", "0x5", 7, 16, 7, -1, "0000:a0:1d.0", "", ""),
        ),
        (
            "comm 0x5 rank 9 nRanks 16 nNodes 2 localRanks 8 localRank 1 MNNVL 1",
            c.CommShape,
            ("0x5", 9, 16, 2, 8, 1, True),
        ),
        (
            "Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.29 (kernels 0.26, rest 0.03)",
            c.InitTimings,
            ("ncclCommInitRank", 0, 2, 0.29, (("kernels", 0.26), ("rest", 0.03))),
        ),
        ("Channel 01/04 :    0   3   2   1", c.RingOrder, (1, 4, (0, 3, 2, 1))),
        (
            "Channel 05/1 : 2[2] -> 10[2] [receive] via NET/IBext/1(8)/GDRDMA(PCI)/Shared",
            c.Connection,
            (
                5,
                1,
                2,
                "2",
                10,
                "2",
                "receive",
                "NET/IBext/1(8)/GDRDMA(PCI)/Shared",
                "IBext",
                1,
                8,
                True,
                True,
            ),
        ),
        (
            "Ring 00 : 15[41000] -> 0[1b000] via direct shared memory",
            c.Connection,
            (0, -1, 15, "41000", 0, "1b000", "", "direct shared memory", "", -1, -1, False, False),
        ),
        (
            "24 coll channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer",
            c.ChannelCounts,
            (24, -1, 16, 32, 2),
        ),
        ("Connected all trees", c.Connected, ("trees", -1, -1)),
        ("1024 Bytes -> Algo 1 proto 0 time 12.5", c.AlgorithmChoice, ("", 1024, "1", "0", -1, -1, 12.5)),
        (
            "Pattern 4, crossNic 0, nChannels 2, bw 12.000000/24.000000, type NVL/PIX, sameChannels 1",
            c.GraphFound,
            (4, 0, 2, 12.0, 24.0, "NVL", "PIX", True),
        ),
        (" 1 : NET/0-1 GPU/0-1b000 NET/0-1", c.GraphChannel, (1, ("NET/0-1", "GPU/0-1b000", "NET/0-1"))),
        (
            "NET/1 :GPU/81000 (3/24.000000/PHB) NET/1 (0/5000.000000/LOC)",
            c.SystemPaths,
            ("NET/1", (("GPU/81000", 3, 24.0, "PHB"), ("NET/1", 0, 5000.0, "LOC"))),
        ),
        (
            "              + NET[25.0] - NET/1 (7a852d0003f6ceb8/1/25.000000)",
            c.SystemNode,
            (14, "NET", 25.0, "NET", "1", "7a852d0003f6ceb8/1/25.000000"),
        ),
        (
            "transport/net.cc:1134 -> 6 [Proxy Thread]",
            t.CallTrace,
            ("transport/net.cc:1134", 6, "Proxy Thread"),
        ),
        ("something new", e.Other, ("something new", "")),
    ],
)
def test_a_message_is_its_event(text: str, kind: type[e.Event], told: tuple[Any, ...]) -> None:
    """One of each kind, old wordings among them."""
    event = one(P + text)
    assert type(event) is kind
    assert values(event) == told
    assert (event.line, event.level, event.writer) == (1, "INFO", e.Writer("gpu-1", 10, 20, 3))


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        (
            "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)",
            t.AsyncEvent,
            ("mlx5_1", 1, "port error", False, ""),
        ),
        ("NET/IB : Got async event : port error", t.AsyncEvent, ("", -1, "port error", False, "")),
        (
            "NET/IB : mlx5_1:1 async fatal event on CQ (0x7f): CQ error",
            t.AsyncEvent,
            ("mlx5_1", 1, "CQ error", True, "CQ"),
        ),
        ("NET/IB : mlx5_1:1 GID table changed", t.AsyncEvent, ("mlx5_1", 1, "GID table changed", False, "")),
        (
            "socketProgressOpt: Call to recv from 10.0.0.5<40000> failed : Connection reset by peer",
            t.SocketError,
            ("10.0.0.5<40000>", "Connection reset by peer"),
        ),
        (
            "Net : Connection closed by remote peer gpu-7<33000>",
            t.SocketError,
            ("gpu-7<33000>", "Connection closed by remote peer"),
        ),
        ("Cuda failure 'out of memory'", t.CudaError, (-1, "out of memory")),
        ("what nobody knows", e.Other, ("what nobody knows", "transport/net_ib.cc:93")),
    ],
)
def test_a_warning_is_its_event(text: str, kind: type[e.Event], told: tuple[Any, ...]) -> None:
    """Wordings of 2.18 to 2.30."""
    event = one(W + text)
    assert type(event) is kind
    assert values(event) == told
    assert (event.level, event.writer.host) == ("WARN", "gpu-1")


QP = "NET/IB: ncclIbConnectImpl: NCCL Dev 1 IbDev 2 Port 1 qp_num 532 mtu 5 "


def test_queue_pairs_have_addresses_in_network_order() -> None:
    """Halves of a GID are printed as numbers of a little-endian host; 0/1064A8C0FFFF0000 is a log's of 192.168.100.16."""
    roce = one(f"{P}{QP}GID 3 (0/1064A8C0FFFF0000) ctsFifoRkey=0x1 ctsFifoLkey=0x1")
    assert values(roce) == (False, 1, 2, 1, 532, 4096, 3, "::ffff:192.168.100.16", -1, "", -1)
    link_local = one(f"{P}{QP}GID 1 (80FE/1F7F9CFEFFA4E98A) fifoRkey=0x1 fifoLkey=0x1")
    assert link_local.gid == "fe80::8ae9:a4ff:fe9c:7f1f"
    ib = one(f"{P}{QP}LID 42 subnet-prefix 33022  FLID 7 ctsFifoRkey=0x1 ctsFifoLkey=0x1")
    assert (ib.lid, ib.subnet_prefix, ib.flid, ib.gid) == (42, "fe80000000000000", 7, "")
    old = one(
        f"{P}NET/IB: NCCL MergedDev 0 IbDev 0 Port 1 qpn 34 mtu 3 query_ece={{supported=0, options=0x0}} GID 1 (0/19001EACFFFF0000) fifoRkey=0x4"
    )
    assert (old.merged, old.qp_num, old.mtu, old.gid) == (True, 34, 1024, "::ffff:172.30.0.25")


def test_a_subnet_prefix_of_too_many_bits_is_a_torn_line() -> None:
    """Nothing is made of it, and nothing is lost."""
    text = f"{QP}LID 42 subnet-prefix 99999999999999999999  FLID 7"
    assert one(P + text).text == text


def test_devices_of_a_using_line() -> None:
    """RDMA devices with port and link layer, marks of the SHARP plugin, fused NICs of 2.20, interfaces with IPv6."""
    event = one(f"{P}NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:2/RoCE [RO]; OOB eth0:10.0.0.1<0>")
    assert event.devices == (
        e.UsedDevice(0, "mlx5_0", 1, "IB", sharp=True),
        e.UsedDevice(1, "mlx5_1", 2, "RoCE"),
    )
    assert (event.relaxed_ordering, event.oob_interface, event.oob_address) == (True, "eth0", "10.0.0.1")
    fused = one(f"{P}NET/IB : Using [0]={{[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}} ; OOB eth0:fe80::1%eth0<0>")
    assert [(device.index, device.name) for device in fused.devices] == [(0, "mlx5_0"), (1, "mlx5_1")]
    assert (fused.relaxed_ordering, fused.oob_address) == (False, "fe80::1%eth0")
    sockets = one(f"{P}NET/Socket : Using [0]eth0:10.0.0.1<0> [1]enx:fe80::52b1:b1f3%enx<0>")
    assert [(device.name, device.address) for device in sockets.devices] == [
        ("eth0", "10.0.0.1"),
        ("enx", "fe80::52b1:b1f3%enx"),
    ]


def test_trees_of_both_ages() -> None:
    """New: children->rank->parent; 2.5 wrote the way down and the way up of the same tree."""
    event = one(f"{P}Trees [0] 1/2/-1->0->-1 [1] -1/-1/-1->0->3")
    assert event.nodes == (c.TreeNode(0, (1, 2), 0, -1), c.TreeNode(1, (), 0, 3))
    event = one(f"{P}Trees [0] 1/-1/-1->0->7|7->0->1/-1/-1")
    assert event.nodes == (c.TreeNode(0, (1,), 0, 7),)
    assert isinstance(one(f"{P}Trees [0] 1/-1/-1->0->"), e.Other)


def test_the_tuning_table_of_old_versions() -> None:
    """Algorithm and protocol in one head; rows of other writers do not mix in."""
    rows = events(
        f"{P}Latency/AlgBw |    Tree/    LL |    Ring/ Simple |",
        "gpu-1:11:21 [4] NCCL INFO     AllReduce |     1.0/   2.0 |     3.0/   4.0 |",
        f"{P} Max NThreads |            512 |            256 |",
        f"{P}    AllReduce |    13.0/   2.5 |    16.6/   9.0 |",
    )
    assert [type(row).__name__ for row in rows] == ["Other", "Other", "TuningThreads", "TuningRow"]
    assert rows[2].threads == (("Tree", "LL", 512), ("Ring", "Simple", 256))
    assert rows[3].cells == (c.TuningCell("Tree", "LL", 13.0, 2.5), c.TuningCell("Ring", "Simple", 16.6, 9.0))
