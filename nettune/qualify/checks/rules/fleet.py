"""What only the hosts together show: firmware and driver mix (15), cabling (23), bonds and duplicates (35)."""

from __future__ import annotations

from collections import Counter, defaultdict

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.neighbours import LLDP, heard_by, leaf_of
from nettune.qualify.checks.parsers.ethernet import bond
from nettune.qualify.checks.view import HostView
from nettune.wording import some
from topology.discovery.rails import rails_of
from topology.discovery.voting import vote

DRIVERS = ("mlx5_core", "bnxt_re", "ionic_rdma", "nvidia")


def _firmware(fleet: Fleet, say: Verdicts) -> None:
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    ends: dict[str, tuple[HostView, str]] = {}
    for view in fleet.hosts:
        for device in view.rdma.values():
            if device.model and device.firmware:
                # Models without a board identifier share a type across generations: the family keeps them apart.
                found[device.model, device.firmware.partition(".")[0]][f"{view.host} {device.name}"] = (
                    device.firmware
                )
                ends[f"{view.host} {device.name}"] = view, device.name
    for (model, _), versions in found.items():
        most = fleet.majority(versions)
        for key, version in versions.items():
            if most is not None and version != most[0]:
                view, name = ends[key]
                say.warn(
                    view.nic(name),
                    f"firmware {version} where {most[0]} is expected",
                    basis=f"{most[1]} of {len(versions)} devices of model {model} have {most[0]}",
                    fix="bring all devices of this model to one version",
                )
    for module in DRIVERS:
        path = f"/sys/module/{module}/version"
        versions = {view.host: text.strip() for view in fleet.hosts if (text := view.text(path))}
        most = fleet.majority(versions)
        for view in fleet.hosts:
            if most is not None and versions.get(view.host, most[0]) != most[0]:
                say.warn(
                    view.where,
                    f"{module} {versions[view.host]} where {most[0]} is expected",
                    basis=f"{most[1]} of {len(versions)} hosts have {most[0]}",
                    fix="bring all hosts to one version of the driver",
                )
    for view in fleet.hosts:
        if view.rdma and not say.has_spoken(view.host):
            say.ok(view.where, f"firmware of {len(view.rdma)} RDMA devices is that of their model")


def _names(fleet: Fleet, say: Verdicts) -> None:
    """The device in a slot has one name on all hosts; hosts of another build have other slots and are not compared."""
    named: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for view in fleet.hosts:
        for one in fleet.data_ports[view.host]:
            if one.device.pci:
                named[one.device.pci, one.device.model][view.host] = one.device.name
    views = {view.host: view for view in fleet.hosts}
    for (address, _), names in named.items():
        most = fleet.majority(names)
        for host, name in names.items():
            if most is not None and name != most[0]:
                say.fail(
                    views[host].nic(name),
                    f"the NIC at {address} is called {name} where {most[0]} is expected",
                    basis=f"{most[1]} of {len(names)} hosts call it {most[0]}",
                    fix="give devices persistent names (udev, rdma-core's 60-rdma-persistent-naming.rules)",
                    expected=most[0],
                )
    for host in {host for names in named.values() if len(names) > 1 for host in names}:
        if not say.has_spoken(host):
            say.ok(views[host].where, "its data NICs have the names that they have on its peers")


def _cabling(fleet: Fleet, say: Verdicts) -> None:
    heard = {view.host: _of_data(fleet, view) for view in fleet.hosts}
    heard = {host: switches for host, switches in heard.items() if switches}
    for view in fleet.hosts:
        if view.host not in heard and any(
            one.port.layer == "Ethernet" for one in fleet.data_ports[view.host]
        ):
            say.missing(view, LLDP[0])
    _against_baseline(fleet, say, heard)
    rails = rails_of({host: list(switches) for host, switches in heard.items()})
    width = 1 + max((rail for rail, _ in rails.values()), default=-1)
    if width == 0:
        return
    leaves = sorted({leaf for switches in heard.values() for leaf in switches.values()})
    number = {leaf: place for place, leaf in enumerate(leaves)}
    signatures = {}
    names: dict[tuple[str, int], str] = {}
    for host, switches in heard.items():
        row: list[int | None] = [None] * width
        for name, leaf in switches.items():
            rail = rails[host, name][0]
            row[rail] = number[leaf]
            names[host, rail] = name
        signatures[host] = tuple(row)
    views = {view.host: view for view in fleet.hosts}
    for verdict in vote(signatures):
        view = views[verdict.host]
        for rail, wanted in verdict.wrong.items():
            name = names[verdict.host, rail]
            say.fail(
                view.nic(name),
                f"is cabled to {heard[verdict.host][name]} where {leaves[wanted]} is expected",
                basis=f"{verdict.votes[0]} of {verdict.votes[1]} hosts have rail {rail} on {leaves[wanted]}; {verdict.why}",
                fix="move the cable, or correct the order of the interfaces",
                rail=rail,
            )
        if not verdict.wrong:
            say.warn(
                view.where,
                f"its rails end on other switches than those of its peers, and nothing can be claimed: {verdict.why}",
                basis="majority of the hosts",
                fix="compare with the cabling plan",
            )
    for host in heard:
        if say.has_spoken(host):
            continue
        if len(heard) < fleet.limit("majority-voters") and host not in fleet.baseline:
            listed = some(f"{name} on {leaf}" for name, leaf in heard[host].items())
            say.unknown(
                views[host].where,
                f"no peers to compare its cables with: {listed}",
                fix="judge more hosts together",
            )
        else:
            say.ok(views[host].where, f"{len(heard[host])} data interfaces end on the switches of their rail")


def _of_data(fleet: Fleet, view: HostView) -> dict[str, str]:
    """Neighbours of the data interfaces; of all interfaces where the host has no RDMA device."""
    named = {one.port.netdev for one in fleet.data_ports[view.host] if one.port.netdev}
    return {name: leaf_of(one) for name, one in heard_by(view).items() if not view.rdma or name in named}


def _against_baseline(fleet: Fleet, say: Verdicts, heard: dict[str, dict[str, str]]) -> None:
    for view in fleet.hosts:
        past = fleet.baseline.get(view.host)
        if past is None:
            continue
        for name, one in heard_by(past).items():
            now, leaf = heard.get(view.host, {}).get(name), leaf_of(one)
            if now is not None and now != leaf:
                say.fail(
                    view.nic(name),
                    f"is cabled to {now} where {leaf} is expected",
                    basis="the baseline",
                    fix="move the cable back, or take a new baseline",
                )


def _bonds(fleet: Fleet, say: Verdicts) -> None:
    start = "/proc/net/bonding/"
    for view in fleet.hosts:
        bonds = [
            bond(path[len(start) :], text)
            for path in view.capture.files
            if path.startswith(start) and (text := view.text(path)) is not None
        ]
        for one in bonds:
            down = sorted(name for name, status in one.slaves.items() if status != "up")
            if down or not one.slaves:
                say.fail(
                    view.nic(one.name),
                    f"{len(down)} of {len(one.slaves)} slaves are down: {', '.join(down)[:80] or 'none is there'}",
                    basis="all slaves of a bond are up on a sound host",
                    fix="see to the cable and the switch port of this slave",
                )
        if bonds and not say.has_spoken(view.host):
            say.ok(view.where, f"all slaves of {len(bonds)} bonds are up")


def _duplicates(fleet: Fleet, say: Verdicts) -> None:
    owners: dict[tuple[str, str], list[tuple[HostView, str]]] = defaultdict(list)
    for view in fleet.hosts:
        for device in view.rdma.values():
            if device.node_guid:
                owners["node GUID", device.node_guid].append((view, device.name))
        for address in sorted({gid.ipv4 for gid in view.gids if gid.ipv4}):
            name = next(gid.device for gid in view.gids if gid.ipv4 == address)
            owners["IP address", address].append((view, name))
    repeated = {key: found for key, found in owners.items() if len(found) > 1}
    for (what, value), found in repeated.items():
        listed = ", ".join(f"{view.host} {name}" for view, name in found[:6])
        for view, name in found:
            say.fail(
                view.nic(name),
                f"{what} {value} is on {len(found)} devices: {listed}",
                basis=f"a {what} is given once",
                fix="give it an address of its own"
                if what == "IP address"
                else "set the GUIDs of one card anew",
            )
    counted = Counter(view.host for found in owners.values() for view, _ in found)
    for view in fleet.hosts:
        if counted[view.host] and not say.has_spoken(view.host):
            say.ok(view.where, "its GUIDs and addresses are its own")


RULES = (
    Rule(
        "versions",
        (15,),
        ("/sys/class/infiniband/*/fw_ver", "/sys/module/*/version"),
        "hosts behave differently",
        _firmware,
    ),
    Rule(
        "nic-names",
        (25,),
        ("/sys/class/infiniband/*/device",),
        "NCCL_IB_HCA and the order of rails mean another NIC on this host",
        _names,
    ),
    Rule("cabling", (23,), LLDP[:1], "a rail crosses the spine: its traffic collides with others", _cabling),
    Rule("bonds", (35,), ("/proc/net/bonding/*",), "half the bandwidth, and no spare path", _bonds),
    Rule(
        "duplicates",
        (35,),
        ("/sys/class/infiniband/*/node_guid",),
        "packets go to the wrong host",
        _duplicates,
    ),
)
