"""What one RoCE port is set to, end to end: trust, DSCP map, PFC, ECN, pause, traffic class, GID, MTU, far end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nettune.qualify.checks.frame import Fleet
from nettune.qualify.checks.neighbours import FarEnd, far_ends
from nettune.qualify.checks.parsers import ethernet
from nettune.qualify.checks.parsers.gids import Gid
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.parsers.qos import PRIORITIES, Qos, global_tclass, mlnx_qos
from nettune.qualify.checks.roles import DataPort
from nettune.qualify.checks.variables import number, of_job, traffic_class
from nettune.qualify.checks.view import HostView

_LINK_LOCAL = "fe80"


@dataclass(frozen=True)
class RocePort:
    """Settings of one Ethernet data port; None and empty where not told.

    Attributes:
        qos: of mlnx_qos.
        np, rp: priorities for which the receiver answers ECN marks, and the sender slows down.
        pause: (receives, sends) link-wide pause.
        tclass: the traffic class in use, and who says so.
        ignored: a traffic class that NCCL asks for and the device overrides, and who says so.
        gids: of this port.
        index: NCCL_IB_GID_INDEX; None where NCCL chooses.
        family: 4 or 6, the addresses that NCCL prefers.
        mtu: of the interface, in bytes.
        far: the switch port at its other end, where the switch's configuration is known.
    """

    view: HostView
    one: DataPort
    qos: Qos
    np: frozenset[int] | None
    rp: frozenset[int] | None
    pause: tuple[bool | None, bool | None]
    tclass: tuple[int, str] | None
    ignored: tuple[int, str] | None
    gids: tuple[Gid, ...]
    index: int | None
    family: int
    mtu: int | None
    far: FarEnd | None

    @property
    def name(self) -> str:
        """`h1 mlx5_2`."""
        return f"{self.view.host} {self.one.name}"

    @property
    def netdev(self) -> str:
        """Its interface."""
        return self.one.port.netdev

    @property
    def dscp(self) -> int | None:
        """Upper six bits of the traffic class."""
        return None if self.tclass is None else self.tclass[0] >> 2

    @property
    def priority(self) -> int | None:
        """The priority in which the job's packets leave; None where it cannot be told.

        A port that does not trust DSCP puts untagged packets into priority 0.
        """
        if self.qos.trust and self.qos.trust != "dscp":
            return 0
        return None if self.dscp is None else self.qos.prio_of_dscp.get(self.dscp)

    @cached_property
    def gid(self) -> Gid | None:
        """The GID that NCCL uses: at its index, else by family, RoCE version 2, and lowest index (2.21 and later)."""
        if self.index is not None and self.index >= 0:
            return next((gid for gid in self.gids if gid.index == self.index), None)
        whole = [gid for gid in self.gids if gid.address]
        return min(
            whole,
            key=lambda gid: (
                bool(gid.ipv4) != (self.family == 4),
                gid.version != 2,
                gid.address.startswith(_LINK_LOCAL),
                gid.index,
            ),
            default=None,
        )


def kind_of_gid(gid: Gid) -> str:
    """`RoCE v2, IPv4`: what must be equal at both ends."""
    family = "IPv4" if gid.ipv4 else "link-local" if gid.address.startswith(_LINK_LOCAL) else "IPv6"
    return f"RoCE v{gid.version}, {family}"


def roce_ports(fleet: Fleet) -> list[RocePort]:
    """All active Ethernet data ports of a fleet."""
    return fleet.once(
        ("roce ports",),
        lambda: [
            _port(fleet, view, one)
            for view in fleet.hosts
            for one in fleet.data_ports[view.host]
            if one.port.layer == "Ethernet" and one.port.active
        ],
    )


def _port(fleet: Fleet, view: HostView, one: DataPort) -> RocePort:
    netdev = one.port.netdev
    files = view.net_files.get(netdev, {})
    qos = mlnx_qos(view.text(f"mlnx_qos -i {netdev}") or "") if netdev else Qos()
    told = view.rdma_files.get(one.device.name, {}).get(f"tc/{one.port.number}/traffic_class", "")
    set_by_admin = global_tclass(told)
    asked = traffic_class(fleet, view)
    tclass, ignored = asked, None
    if set_by_admin is not None:  # it overrides what the program asks for
        tclass = set_by_admin, "the device's global tclass"
        ignored = asked if asked and asked[0] not in {0, set_by_admin} else None
    return RocePort(
        view,
        one,
        qos,
        _enabled(files, "roce_np"),
        _enabled(files, "roce_rp"),
        ethernet.pause(view.text(f"ethtool -a {netdev}") or "") if netdev else (None, None),
        tclass,
        ignored,
        tuple(gid for gid in view.gids if gid.device == one.device.name and gid.port == one.port.number),
        number(fleet, view, "NCCL_IB_GID_INDEX")[0],
        6 if of_job(fleet, view).get("NCCL_IB_ADDR_FAMILY", "").upper() == "AF_INET6" else 4,
        whole(files.get("mtu", "")),
        far_ends(fleet).get((view.host, netdev)),
    )


def _enabled(files: Mapping[str, str], side: str) -> frozenset[int] | None:
    told = {prio: files.get(f"ecn/{side}/enable/{prio}", "").strip() for prio in range(PRIORITIES)}
    return frozenset(prio for prio, text in told.items() if text == "1") if any(told.values()) else None
