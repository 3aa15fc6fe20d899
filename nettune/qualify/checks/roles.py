"""Which ports of a host carry the job's traffic, derived: of the models in a host, the one with the most bandwidth.

Management and storage ports must not be judged like rails: they are slower, fewer, often uncabled.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nettune.qualify.checks.parsers.rdma import Device, Port
from nettune.qualify.checks.view import HostView

Group = tuple[str, str, str]
"""(model, link layer, family): ports that can be compared. The family is the first number of the firmware version."""


@dataclass(frozen=True)
class DataPort:
    """A port that carries the job's traffic, with its device."""

    device: Device
    port: Port
    group: Group

    @property
    def name(self) -> str:
        """`mlx5_3`, with `:2` for a second port."""
        return self.device.name if self.port.number == 1 else f"{self.device.name}:{self.port.number}"


def group_of(device: Device, port: Port) -> Group:
    """What a port is compared with."""
    return device.model or device.kind, port.layer, device.firmware.partition(".")[0]


def groups(view: HostView) -> dict[Group, list[DataPort]]:
    """All ports of a host by what they are compared with; a down port without a link layer joins its model's."""
    found: dict[Group, list[DataPort]] = defaultdict(list)
    for device in view.rdma.values():
        for port in device.ports.values():
            group = group_of(device, port)
            found[group].append(DataPort(device, port, group))
    return dict(found)


def data_ports(view: HostView, named: frozenset[str] | None = None) -> list[DataPort]:
    """Ports that carry the job's traffic, by name.

    Args:
        view: the host.
        named: devices that the operator names; None to derive them.
    """
    by_group = groups(view)
    if named is not None:
        every = [port for ports in by_group.values() for port in ports if port.device.name in named]
        return sorted(every, key=lambda one: one.name)
    if not by_group:
        return []

    def bandwidth(group: Group) -> tuple[float, int, Group]:
        ports = by_group[group]
        # The rate of a port that is down is a leftover; it counts like its active peers.
        best = max((one.port.rate_gbps for one in ports if one.port.active), default=0.0)
        return best * len(ports), len(ports), group

    return sorted(by_group[max(by_group, key=bandwidth)], key=lambda one: one.name)


def plain_interfaces(view: HostView) -> list[str]:
    """Interfaces that hosts without RDMA devices are compared by: devices and bonds.

    Bridges and tunnels of containers differ from host to host; where no device is told, all but the loopback count.
    """
    bonds = {path.rpartition("/")[2] for path in view.capture.files if path.startswith("/proc/net/bonding/")}
    devices = view.pci_of_net.keys() & view.net_files.keys()
    named = devices | (bonds & view.net_files.keys()) if devices else view.net_files.keys() - {"lo"}
    return sorted(named)
