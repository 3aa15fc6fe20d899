"""Interfaces of hosts without RDMA devices: down, slow (16) or missing (25) beside the same interface of other hosts."""

from __future__ import annotations

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.roles import plain_interfaces
from nettune.qualify.checks.view import HostView
from nettune.wording import counted


def _interfaces(fleet: Fleet, say: Verdicts) -> None:
    own = {view.host: found for view in fleet.hosts if not view.rdma and (found := plain_interfaces(view))}
    views = {view.host: view for view in fleet.hosts if view.host in own}
    if len(views) < fleet.limit("majority-voters"):
        return
    for name in sorted({name for found in own.values() for name in found}):
        there = {host: name in found for host, found in own.items()}
        up = {host: _is_up(view, name) for host, view in views.items() if there[host]}
        speeds = {
            host: speed for host, view in views.items() if up.get(host) and (speed := _speed(view, name))
        }
        most_have, most_are_up = fleet.majority(there), fleet.majority(up)
        most = fleet.majority(speeds)
        for host, view in views.items():
            where = view.nic(name)
            if not there[host] and most_have and most_have[0]:
                say.fail(
                    view.where,
                    f"has no interface {name}",
                    basis=f"{sum(there.values())} of {len(there)} hosts have it",
                    fix="see `lspci` and the kernel messages; reseat the card, or correct the interface's name",
                )
            elif not up.get(host, True) and most_are_up and most_are_up[0]:
                say.fail(
                    where,
                    "is down",
                    basis=f"{sum(up.values())} of {len(up)} hosts have it up",
                    fix="see to the cable, the module and the port at the other end",
                )
            elif most and speeds.get(host, most[0]) < most[0]:
                say.fail(
                    where,
                    f"runs at {speeds[host]:g} Gbit/s where {most[0]:g} are expected",
                    basis=f"{most[1]} of {len(speeds)} hosts run it at {most[0]:g}",
                    fix="clean or change the cable and module; see to the slaves of a bond",
                    speed_gbps=speeds[host],
                    expected_gbps=most[0],
                )
    for host, view in views.items():
        up_here = [name for name in own[host] if _is_up(view, name)]
        if up_here and not say.has_spoken(host):
            say.ok(view.where, f"{counted(len(up_here), 'interface')} up, as on its peers")


def _is_up(view: HostView, name: str) -> bool:
    return view.net_files[name].get("operstate", "").strip() == "up"


def _speed(view: HostView, name: str) -> float:
    """Gbit/s; 0 where not told."""
    return max(whole(view.net_files[name].get("speed", "")) or 0, 0) / 1000


RULES = (
    Rule(
        "interfaces",
        (16, 25),
        ("ip -j -d -s -s link", "/sys/class/net/*/speed"),
        "the host has less bandwidth than its peers, or none",
        _interfaces,
    ),
)
