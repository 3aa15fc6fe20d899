"""What one RoCE port is set to, end to end: trust, DSCP map, PFC, ECN, pause, traffic class, GIDs, MTU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nettune.qualify.checks.frame import Fleet
from nettune.qualify.checks.parsers import ethernet
from nettune.qualify.checks.parsers.gids import Gid
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.parsers.qos import PRIORITIES, Qos, global_tclass, mlnx_qos
from nettune.qualify.checks.roles import DataPort
from nettune.qualify.checks.view import HostView


@dataclass(frozen=True)
class RocePort:
    """Settings of one Ethernet data port; None and empty where not told.

    Attributes:
        qos: of mlnx_qos.
        np, rp: priorities for which the receiver answers ECN marks, and the sender slows down.
        pause: (receives, sends) link-wide pause.
        tclass: the traffic class in use, and who says so.
        mtu: of the interface, in bytes.
    """

    view: HostView
    one: DataPort
    qos: Qos
    np: frozenset[int] | None
    rp: frozenset[int] | None
    pause: tuple[bool | None, bool | None]
    tclass: tuple[int, str] | None
    gids: tuple[Gid, ...]
    mtu: int | None

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


def traffic_class(env: Mapping[str, str] | None) -> tuple[int, str] | None:
    """The traffic class that a job's environment gives; NCCL's default is 0. None where the environment is unknown."""
    if env is None:
        return None
    value = whole(env.get("NCCL_IB_TC", "0"))
    return (value, "NCCL_IB_TC") if value is not None and 0 <= value < 256 else None


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
    # The global class of the device overrides what the program asks for.
    tclass = (set_by_admin, "the device's global tclass") if set_by_admin is not None else None
    return RocePort(
        view,
        one,
        qos,
        _enabled(files, "roce_np"),
        _enabled(files, "roce_rp"),
        ethernet.pause(view.text(f"ethtool -a {netdev}") or "") if netdev else (None, None),
        tclass or traffic_class(fleet.context.job_env),
        tuple(gid for gid in view.gids if gid.device == one.device.name and gid.port == one.port.number),
        whole(files.get("mtu", "")),
    )


def _enabled(files: Mapping[str, str], side: str) -> frozenset[int] | None:
    told = {prio: files.get(f"ecn/{side}/enable/{prio}", "").strip() for prio in range(PRIORITIES)}
    return frozenset(prio for prio, text in told.items() if text == "1") if any(told.values()) else None
