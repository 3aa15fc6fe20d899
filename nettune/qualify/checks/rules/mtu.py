"""MTU of interfaces and of verbs (1): equal everywhere, and large enough for IB MTU 4096."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.view import HostView


def _mtu(fleet: Fleet, say: Verdicts) -> None:
    votes: dict[str, dict[str, int]] = defaultdict(dict)
    ends: dict[str, tuple[HostView, str]] = {}
    for view in fleet.hosts:
        for name, (kind, size) in _sizes(fleet, view).items():
            votes[kind][f"{view.host} {name}"] = size
            ends[f"{view.host} {name}"] = view, name
    for kind, sizes in votes.items():
        _outliers(fleet, say, kind, sizes, ends)
    for view in fleet.hosts:
        for one in fleet.data_ports[view.host]:
            active, able = one.port.active_mtu, one.port.max_mtu
            if one.port.active and active and able and active < able:
                say.warn(
                    view.nic(one.name),
                    f"verbs use an MTU of {active} bytes, the port can do {able}",
                    basis="ibv_devinfo, active_mtu beside max_mtu of an active port",
                    fix="raise the MTU of the interface, and of the switch ports before it",
                )
        told = _sizes(fleet, view)
        if told and not say.has_spoken(view.host):
            say.ok(
                view.where,
                f"MTU of {len(told)} data interfaces: {', '.join(sorted({str(s) for _, s in told.values()}))}",
            )


def _sizes(fleet: Fleet, view: HostView) -> dict[str, tuple[str, int]]:
    """Port or interface -> (what it is compared with, MTU). Ports that are down do not count."""
    found: dict[str, tuple[str, int]] = {}
    for one in fleet.data_ports[view.host]:
        if not one.port.active:
            continue
        size = whole(view.net_files.get(one.port.netdev, {}).get("mtu", ""))
        if one.port.layer == "Ethernet" and size:
            found[one.name] = "RoCE interface", size
        elif one.port.layer == "InfiniBand" and one.port.active_mtu:
            found[one.name] = "InfiniBand port", one.port.active_mtu
    if not view.rdma:
        # Bridges and tunnels of containers differ from host to host; where devices are told only those count.
        bonds = {
            path.rpartition("/")[2] for path in view.capture.files if path.startswith("/proc/net/bonding/")
        }
        devices = view.pci_of_net.keys() & view.net_files.keys()
        named = devices | bonds if devices else view.net_files.keys() - {"lo"}
        for name, files in view.net_files.items():
            if name not in named:
                continue
            size = whole(files.get("mtu", ""))
            if size and files.get("operstate", "").strip() == "up":
                found[name] = f"interface {name}", size
    return found


def _outliers(
    fleet: Fleet, say: Verdicts, kind: str, sizes: Mapping[str, int], ends: Mapping[str, tuple[HostView, str]]
) -> None:
    most = fleet.majority(sizes)
    for key, size in sizes.items():
        view, name = ends[key]
        if most is not None and size != most[0]:
            say.fail(
                view.nic(name),
                f"MTU {size} where {most[0]} is expected",
                basis=f"{most[1]} of {len(sizes)} of this kind ({kind}) have {most[0]}",
                fix=f"set it to {most[0]}, also in the configuration that survives a reboot",
                mtu=size,
                expected=most[0],
            )
        elif kind == "RoCE interface" and size < fleet.limit("rdma-mtu"):
            say.warn(
                view.nic(name),
                f"MTU {size}: verbs cannot use packets of 4096 bytes",
                basis="the limit below",
                fix="raise it to 9000 or more on hosts and switches",
                limits=["rdma-mtu"],
            )


RULES = (
    Rule(
        "mtu",
        (1,),
        ("/sys/class/net/*/mtu", "ibv_devinfo -v"),
        "large messages vanish between ports of different MTU; small ones cost bandwidth",
        _mtu,
        core=True,
    ),
)
