"""What lines of an NCCL log say: one frozen dataclass for each kind of message. Trouble has its own module.

Formats are NVIDIA/nccl's INFO and WARN calls in 2.5 to 2.30, in the source file that each docstring names (RCCL prints
the same); old wordings that differ are named too. A value that a line does not tell is -1, 0.0 or empty.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Writer:
    """The process and thread that wrote a line, by NCCL's prefix `host:pid:tid [dev] NCCL INFO ` (debug.cc).

    Attributes:
        host: name without domain; empty where the prefix is missing or the name was blanked.
        dev: CUDA device that was current.
    """

    host: str = ""
    pid: int = -1
    tid: int = -1
    dev: int = -1


NOBODY = Writer()

At = tuple[int, Writer, str, str]
"""The fields of `Event`, to begin an event with."""


@dataclass(frozen=True, slots=True)
class Event:
    """Where a message came from.

    Attributes:
        line: of the log, from 1; of the first one where a message is wrapped over two.
        writer: who wrote it; `NOBODY` for lines without prefix.
        level: `INFO`, `WARN`, ...; empty for lines without prefix.
        stamp: what stands before the prefix: time (NCCL_DEBUG_TIMESTAMP_FORMAT, a log collector), a launcher's label.
    """

    line: int
    writer: Writer
    level: str
    stamp: str


@dataclass(frozen=True, slots=True)
class Other(Event):
    """A message of no kind below, as it is, and lines that are not NCCL's. `where` is the source line of a WARN."""

    text: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Version(Event):
    """`NCCL version 2.29.7+cuda12.9` (init.cc): also printed without prefix."""

    library: str
    version: str
    built_for: str


@dataclass(frozen=True, slots=True)
class EnvironmentSet(Event):
    """`NCCL_IB_TIMEOUT set by environment to 22.` (misc/param.cc; a number as NCCL understood it: `abc` is 0)."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class EnvironmentInvalid(Event):
    """`Invalid value X for NCCL_Y, using default N.` (misc/param.cc: only out of range, never garbage)."""

    name: str
    value: str
    used: str


@dataclass(frozen=True, slots=True)
class Bootstrap(Event):
    """`Bootstrap: Using eth0:10.0.0.1<0>` (bootstrap.cc; up to 2.2x `Bootstrap : Using [0]eth0:...`)."""

    interface: str
    address: str


@dataclass(frozen=True, slots=True)
class UsedDevice:
    """An entry of a `Using` list: `[0]mlx5_0:1/RoCE` or `[0]eth0:10.0.0.1<0>`.

    Attributes:
        index: NCCL's number of the device.
        port: of an RDMA device; -1 for a socket's interface.
        link_layer: `IB` or `RoCE`; empty for an interface.
        address: of an interface.
        sharp: whether the NCCL RDMA plugin marked it `/SHARP`.
    """

    index: int
    name: str
    port: int = -1
    link_layer: str = ""
    address: str = ""
    sharp: bool = False


@dataclass(frozen=True, slots=True)
class NetUsing(Event):
    """`NET/IB : Using [0]mlx5_0:1/IB [1]... [RO]; OOB eth0:10.0.0.1<0>` (transport/net_ib, net_socket.cc).

    2.20 wrote fused NICs as `[0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}`: their members are in the list.
    """

    transport: str
    devices: tuple[UsedDevice, ...]
    relaxed_ordering: bool
    oob_interface: str
    oob_address: str


@dataclass(frozen=True, slots=True)
class NetAbsent(Event):
    """`NET/IB : No device found.` or `Failed to open libibverbs.so[.1]`: the transport is not there."""

    transport: str
    reason: str


@dataclass(frozen=True, slots=True)
class NetworkChosen(Event):
    """`Using network IB` (init.cc); `Socket` on a host with RDMA NICs is a fall-back."""

    name: str


@dataclass(frozen=True, slots=True)
class NetDevice(Event):
    """`NET/IB: [0] mlx5_0:uverbs0:1/RoCE provider=Mlx5 speed=400000 context=.. pciPath=.. ar=0` (net_ib/init.cc, NET)."""

    index: int
    name: str
    port: int
    link_layer: str
    provider: str
    speed_mbps: int
    bus: str
    adaptive_routing: bool


@dataclass(frozen=True, slots=True)
class VirtualDevice(Event):
    """`NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2` (net_ib/init.cc, since 2.22)."""

    index: int
    name: str
    speed_mbps: int
    devices: int


@dataclass(frozen=True, slots=True)
class GpuDirectHca(Event):
    """`NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'` or `(DMABUF) enabled for ..` (transport/net_ib)."""

    enabled: bool
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class GpuDirectPath(Event):
    """`GPU Direct RDMA Enabled for GPU 81000 / HCA 1 (distance 6 <= 7), read 0` (graph/paths.cc)."""

    enabled: bool
    bus: str
    hca: int
    distance: int
    limit: int


@dataclass(frozen=True, slots=True)
class Plugin(Event):
    """`NET/Plugin: Could not find: libnccl-net.so ...` and all other `KIND/Plugin` lines (plugin/*.cc)."""

    kind: str
    loaded: bool
    text: str


@dataclass(frozen=True, slots=True)
class QueuePair(Event):
    """`NET/IB: ncclIbConnect: NCCL Dev 0 IbDev 0 Port 1 qp_num 532 mtu 5 GID 3 (0/100007F...) ...` (net_ib/connect.cc).

    Printed by the sending side with NCCL_DEBUG_SUBSYS=NET. Up to 2.27 `qpn` in place of `qp_num`, no function.

    Attributes:
        merged: a fused NIC of more than two devices.
        dev, ib_dev: numbers of the (fused) NIC and of the RDMA device.
        mtu: bytes of payload in a packet (the line has the verbs enum: 5 is 4096).
        gid_index, gid: on RoCE: index and IPv6 notation, `::ffff:10.0.0.1` for RoCE v2 over IPv4.
        lid, subnet_prefix, flid: on InfiniBand; the prefix as 16 hex digits, `flid` -1 when 0.
    """

    merged: bool
    dev: int
    ib_dev: int
    port: int
    qp_num: int
    mtu: int
    gid_index: int = -1
    gid: str = ""
    lid: int = -1
    subnet_prefix: str = ""
    flid: int = -1
