"""MTU of interfaces and of verbs (1): equal everywhere, and large enough for IB MTU 4096."""

from __future__ import annotations

from collections import defaultdict

from nettune.elements import ElementId
from nettune.qualify.checks.agreement import compare
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.roles import plain_interfaces
from nettune.qualify.checks.view import HostView

ROCE = "RoCE interface"


def _mtu(fleet: Fleet, say: Verdicts) -> None:
    votes: dict[str, dict[str, int]] = defaultdict(dict)
    where: dict[str, ElementId] = {}
    sizes = {view.host: _sizes(fleet, view) for view in fleet.hosts}
    for view in fleet.hosts:
        for name, (kind, size) in sizes[view.host].items():
            votes[kind][f"{view.host} {name}"] = size
            where[f"{view.host} {name}"] = view.nic(name)
    open_hosts = set[str]()
    for kind, table in votes.items():
        open_hosts |= compare(
            fleet,
            say,
            f"MTU ({kind})",
            table,
            where,
            fix="set one MTU on all hosts, also in the configuration that survives a reboot",
            # Queue pairs of InfiniBand and TCP agree on the smaller MTU; verbs on RoCE take it from the interface.
            tolerable=kind != ROCE and fleet.majority(table) is None,
        )
    most = fleet.majority(votes[ROCE])
    usual = most[0] if most else None
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
        # What differs from the others has been told already.
        small = {
            name: size
            for name, (kind, size) in sizes[view.host].items()
            if kind == ROCE and size < fleet.limit("rdma-mtu") and usual in {None, size}
        }
        for name, size in small.items():
            say.warn(
                view.nic(name),
                f"MTU {size}: verbs cannot use packets of 4096 bytes",
                basis="the limit below",
                fix="raise it to 9000 or more on hosts and switches",
                limits=["rdma-mtu"],
            )
        told = sorted({str(size) for _, size in sizes[view.host].values()})
        if told and view.host not in open_hosts and not say.has_spoken(view.host):
            say.ok(view.where, f"MTU of {len(sizes[view.host])} data interfaces: {', '.join(told)}")


def _sizes(fleet: Fleet, view: HostView) -> dict[str, tuple[str, int]]:
    """Port or interface -> (what it is compared with, MTU). Ports that are down do not count."""
    found: dict[str, tuple[str, int]] = {}
    for one in fleet.data_ports[view.host]:
        if not one.port.active:
            continue
        size = whole(view.net_files.get(one.port.netdev, {}).get("mtu", ""))
        if one.port.layer == "Ethernet" and size:
            found[one.name] = ROCE, size
        elif one.port.layer == "InfiniBand" and one.port.active_mtu:
            found[one.name] = "InfiniBand port", one.port.active_mtu
    if not view.rdma:
        for name in plain_interfaces(view):
            files = view.net_files[name]
            size = whole(files.get("mtu", ""))
            if size and files.get("operstate", "").strip() == "up":
                found[name] = f"interface {name}", size
    return found


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
