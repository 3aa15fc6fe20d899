"""Rules of settings against the discovered fabric: NICs that are not there, rails, addresses."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from collectives.nccl.devices import DeviceFilter, device_filter
from collectives.nccl.job import Job, shown
from collectives.nccl.rails import Wiring, rails_of
from nettune.checks import Finding, Status
from nettune.elements import ElementId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectives.nccl.settings import Setting
    from topology.fabric import Fabric

FABRIC = "nccl-env-fabric"

_SHOWN = 8
_BOND = "a bond: a queue pair uses one of its ports only (nccl#1015)"
_SLOW = 0.5
"""Own choice: a NIC below half the speed of its host's fastest one is not of the same network."""

# Names of RDMA devices (rdma-core's rename rules, vendors' drivers); `ibp1s0` is a device and an interface alike.
_RDMA = re.compile(
    r"mlx\d|roce|rdma|bnxt_re|irdma|efa_|rxe|siw|ionic|qedr|hfi\d|mana|hns|ib[pPso]|erdma|usnic"
)


_NO_NAME = re.compile(r"HCA(?:-\d+)?(?::\d+)?")
"""What ibnetdiscover tells where a host has given its devices no description: neither device nor interface."""


def fit(job: Job) -> Iterator[Finding]:
    """All of them; nothing where no fabric is given."""
    if job.fabric is None:
        return
    yield from _hcas(job, job.fabric)
    yield from _interfaces(job, job.fabric)
    yield from _rails(job, job.fabric)
    yield from _addresses(job, job.fabric)
    index = job.get("NCCL_IB_GID_INDEX")
    if index is not None and (job.number(index.name) or -1) >= 0:
        yield _open(
            job,
            index,
            f"{shown(index)}: a fabric has no GID tables, what the index is on each host is not known",
        )


def _open(job: Job, setting: Setting, what: str) -> Finding:
    return Finding(
        check=FABRIC,
        status=Status.UNKNOWN,
        where=job.where,
        what=what,
        evidence={"file": setting.file, "line": setting.line, "variable": setting.name},
        required=False,
        fix="Collect the hosts (`nettune qualify collect`) and let the audit of RoCE compare them.",
    )


def _nics(fabric: Fabric, *, rdma: bool) -> dict[str, list[int]]:
    """Port rows of each host's NICs whose names are of RDMA devices, or of interfaces; hosts without any are left out."""
    found = {}
    for host in fabric.hosts:
        rows = [
            row
            for row in fabric.nics(host)
            if not _NO_NAME.fullmatch(fabric.ports.name[row])
            and (
                (_RDMA.match(fabric.ports.name[row]) is not None) == rdma
                or fabric.ports.name[row].startswith("ib")
            )
        ]
        if rows:
            found[host] = rows
    return found


def _hcas(job: Job, fabric: Fabric) -> Iterator[Finding]:
    setting = job.get("NCCL_IB_HCA")
    if setting is None or not setting.value:
        return
    wanted = device_filter(setting.value, with_ports=True)
    nics = _nics(fabric, rdma=True)
    if not nics:
        yield _open(
            job, setting, f"{shown(setting)}: the fabric's NICs have names of interfaces, not of RDMA devices"
        )
        return
    yield from _names_nowhere(job, fabric, setting, wanted, nics)
    taken = {host: [row for row in rows if wanted.takes(_device(fabric, row))] for host, rows in nics.items()}
    yield from _unfit(job, fabric, setting, taken, nics)
    none = [host for host, rows in taken.items() if not rows]
    fewer = []
    for host, rows in taken.items():
        usable = _usable(fabric, nics[host])
        if rows and not set(usable) <= set(rows):
            fewer.append((host, len(set(usable) & set(rows)), len(usable)))
    if none:
        what = f"{shown(setting)} takes no NIC of {_hosts(none)}: NCCL falls back to TCP there"
        fix = f"Name the NICs that are there, like {_device(fabric, nics[none[0]][0])}."
        yield job.finding(
            FABRIC, Status.FAIL, what, fix, setting, where=_place(job, none), hosts=none[:_SHOWN]
        )
    if fewer:
        host, taken_count, count = fewer[0]
        what = f"{shown(setting)} takes {taken_count} of {count} NICs of {_hosts([name for name, _, _ in fewer])}"
        fix = "Unset it, or list all NICs of the fabric."
        where = _place(job, [name for name, _, _ in fewer])
        yield job.finding(FABRIC, Status.WARN, what, fix, setting, where=where, nics=count, taken=taken_count)


def _usable(fabric: Fabric, rows: list[int]) -> list[int]:
    """NICs with a cable (all where none has one), without those that are slow beside the host's fastest."""
    cabled = [row for row in rows if fabric.link_of_port[row] >= 0] or rows
    fastest = max(float(fabric.ports.speed_gbps[row]) for row in cabled)
    return [row for row in cabled if float(fabric.ports.speed_gbps[row]) >= _SLOW * fastest]


def _device(fabric: Fabric, row: int) -> str:
    """Name of the RDMA device of a port: `mlx5_0` of `mlx5_0:2`."""
    return fabric.ports.name[row].partition(":")[0]


def _names_nowhere(
    job: Job, fabric: Fabric, setting: Setting, wanted: DeviceFilter, nics: dict[str, list[int]]
) -> Iterator[Finding]:
    missing: dict[str, list[str]] = defaultdict(list)
    wide: dict[str, set[str]] = defaultdict(set)
    for host, rows in nics.items():
        devices = {_device(fabric, row) for row in rows}
        for name in wanted.names:
            matched = {
                device for device in devices if (device == name if wanted.exact else device.startswith(name))
            }
            if not matched:
                missing[name].append(host)
            elif name in matched and len(matched) > 1:
                wide[name] |= matched
    status = Status.WARN if wanted.excluded else Status.FAIL
    for name, hosts in missing.items():
        everywhere = len(hosts) == len(nics)
        what = (
            f"{shown(setting)}: {name or 'an empty name'} is {'on no host' if everywhere else f'not on {_hosts(hosts)}'}"
            " of the fabric (absent, or left out as a management or storage NIC)"
        )
        fix = f"Leave {name or 'it'} out, or name the NIC that is there."
        yield job.finding(
            FABRIC, status, what, fix, setting, where=_place(job, hosts), device=name, hosts=hosts[:_SHOWN]
        )
    for name, matched in wide.items():
        what = f"{shown(setting)}: {name} is the beginning of {', '.join(sorted(matched - {name})[:4])} too"
        yield job.finding(FABRIC, Status.WARN, what, "Put = before the list: names are then exact.", setting)


def _unfit(
    job: Job, fabric: Fabric, setting: Setting, taken: dict[str, list[int]], nics: dict[str, list[int]]
) -> Iterator[Finding]:
    """NICs that the list should not take; one finding for a device, however many hosts have it: the list is to change."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for host, rows in taken.items():
        fastest = max(float(fabric.ports.speed_gbps[row]) for row in nics[host])
        cabled = any(fabric.link_of_port[row] >= 0 for row in nics[host])
        for row in rows:
            name, speed = fabric.ports.name[row], float(fabric.ports.speed_gbps[row])
            if 0 < speed < _SLOW * fastest:
                reason = f"of {speed:g} Gbit/s beside NICs of {fastest:g}: rings run at its speed"
                found[name, reason].append(row)
            elif cabled and fabric.link_of_port[row] < 0:
                found[name, "which has no cable in the fabric"].append(row)
            elif "bond" in name:
                found[name, _BOND].append(row)
    for (name, reason), rows in found.items():
        hosts = [fabric.nodes.name[int(fabric.ports.node[row])] for row in rows]
        where = fabric.port_element(rows[0]) if len(rows) == 1 else job.where
        what = f"{shown(setting)} takes {name} of {_hosts(hosts)}, {reason}"
        status, fix = Status.FAIL, f"Leave {name} out of NCCL_IB_HCA."
        if reason == _BOND:
            status = Status.WARN
            fix = "Give NCCL the ports, not the bond; or NCCL_IB_QPS_PER_CONNECTION=2 or more."
        yield job.finding(FABRIC, status, what, fix, setting, where=where, device=name, hosts=hosts[:_SHOWN])


def _interfaces(job: Job, fabric: Fabric) -> Iterator[Finding]:
    setting = job.get("NCCL_SOCKET_IFNAME")
    if setting is None or not setting.value:
        return
    nics = _nics(fabric, rdma=False)
    over_tcp = bool(job.number("NCCL_IB_DISABLE")) or job.text("NCCL_NET").lower() == "socket"
    wanted = device_filter(setting.value, with_ports=False)
    without = [
        host for host, rows in nics.items() if not any(wanted.takes(fabric.ports.name[row]) for row in rows)
    ]
    if over_tcp and without:
        what = f"{shown(setting)} takes no NIC of the fabric on {_hosts(without)}, and RDMA is off: data goes over another network"
        fix = f"Name the fabric's interfaces, like {fabric.ports.name[nics[without[0]][0]]}."
        yield job.finding(
            FABRIC, Status.FAIL, what, fix, setting, where=_place(job, without), hosts=without[:_SHOWN]
        )
    elif without or not nics:
        yield _open(
            job,
            setting,
            f"{shown(setting)} names no interface of the fabric; management networks are not part of it",
        )


def _rails(job: Job, fabric: Fabric) -> Iterator[Finding]:
    cross, pxn = job.get("NCCL_CROSS_NIC"), job.get("NCCL_PXN_DISABLE")
    if cross is None and pxn is None:
        return
    rails = rails_of(fabric)
    value = job.number("NCCL_CROSS_NIC")
    if cross is not None and rails.wiring is Wiring.PER_RAIL and value == 1:
        if not rails.joined:
            what = (
                f"{shown(cross)} lets rings change rails, and no switch connects the rails: connections fail"
            )
            yield job.finding(FABRIC, Status.FAIL, what, "Write NCCL_CROSS_NIC=0.", cross)
        else:
            what = (
                f"{shown(cross)} lets rings change rails, which are on leaves of their own: traffic crosses the spines"
                " (370 GB/s where 2 gave 390, oci-hpc#48)"
            )
            yield job.finding(FABRIC, Status.WARN, what, "Unset it (2), or write 0.", cross)
    if cross is not None and rails.wiring is Wiring.SAME_LEAF and value == 0:
        what = f"{shown(cross)} keeps each ring on one NIC, but all NICs of a host are on one leaf (a plateau near 149 GB/s in nccl#1411)"
        yield job.finding(FABRIC, Status.WARN, what, "Write NCCL_CROSS_NIC=1, or unset it.", cross)
    if pxn is not None and job.number(pxn.name) and rails.wiring is Wiring.PER_RAIL:
        status = Status.WARN if rails.joined else Status.FAIL
        what = f"{shown(pxn)}: without PXN an all-to-all crosses from rail to rail over the spines"
        if not rails.joined:
            what = f"{shown(pxn)}: without PXN an all-to-all needs paths from rail to rail, and no switch connects the rails"
        yield job.finding(FABRIC, status, what, "Unset it.", pxn)


def _addresses(job: Job, fabric: Fabric) -> Iterator[Finding]:
    """Addresses of NICs against the family and range in which NCCL looks for a GID."""
    family, span = job.get("NCCL_IB_ADDR_FAMILY"), job.get("NCCL_IB_ADDR_RANGE")
    if family is None and span is None:
        return
    outside, other = [], []
    network = _network(span.value) if span is not None else None
    wanted = 6 if job.text("NCCL_IB_ADDR_FAMILY").upper() == "AF_INET6" else 4
    for host in fabric.hosts:
        known = [_address(fabric.ports.address[row]) for row in fabric.nics(host)]
        addresses = [address for address in known if address is not None]
        if addresses and network is not None and not any(address in network for address in addresses):
            outside.append(host)
        if addresses and all(address.version != wanted for address in addresses):
            other.append(host)
    if span is not None and outside:
        what = f"{shown(span)} holds no address of {_hosts(outside)}: no GID is found there"
        fix = "Write the network of the NICs, or unset it."
        yield job.finding(
            FABRIC, Status.FAIL, what, fix, span, where=_place(job, outside), hosts=outside[:_SHOWN]
        )
    if family is not None and other:
        what = f"{shown(family)}: the NICs of {_hosts(other)} have IPv{10 - wanted} addresses only"
        fix = f"Write NCCL_IB_ADDR_FAMILY=AF_INET{'' if wanted == 6 else '6'}."
        yield job.finding(
            FABRIC, Status.FAIL, what, fix, family, where=_place(job, other), hosts=other[:_SHOWN]
        )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _hosts(names: list[str]) -> str:
    return (
        names[0]
        if len(names) == 1
        else f"{len(names)} hosts ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
    )


def _place(job: Job, hosts: list[str]) -> ElementId:
    return ElementId.host(hosts[0]) if len(hosts) == 1 else job.where
