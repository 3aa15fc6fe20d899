"""Ports of RDMA devices: state (16), rate (16), missing devices (25), subnet manager and partition (24)."""

from __future__ import annotations

from collections import Counter, defaultdict

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.parsers.rdma import panic
from nettune.qualify.checks.roles import DataPort
from nettune.qualify.checks.rules.gpus import by_product
from nettune.qualify.checks.view import HostView
from nettune.wording import counted

_STATES = {
    "Polling": "see to the cable, the module and the port at the other end",
    "Disabled": "enable the port (`ip link set IF up`, `mlxlink -d DEV --port_state UP`), or cable it",
    "INIT": "start the subnet manager, or see why it does not configure this port",
    "ARMED": "see why the subnet manager does not activate this port",
}


def _state(fleet: Fleet, say: Verdicts) -> None:
    up: dict[str, dict[str, bool]] = defaultdict(dict)
    for host, ports in fleet.data_ports.items():
        for one in ports:
            up[one.name][host] = one.port.active
    for view in fleet.hosts:
        ports = fleet.data_ports[view.host]
        if not ports:
            if view.rdma_sources and view.gpus:
                say.unknown(
                    view.where, "; ".join(view.rdma_sources), fix="install rdma-core, or collect as root"
                )
            continue
        active = [one for one in ports if one.port.active]
        for one in ports:
            if not one.port.active:
                _inactive(fleet, say, view, one, len(active) / len(ports), up[one.name])
        if not say.has_spoken(view.host):
            say.ok(view.where, f"all {len(ports)} data ports are active", ports=[one.name for one in ports])


def _inactive(
    fleet: Fleet, say: Verdicts, view: HostView, one: DataPort, share: float, elsewhere: dict[str, bool]
) -> None:
    where, port = view.nic(one.name), one.port
    if not port.state:
        say.unknown(where, "its state is not told", fix="collect /sys/class/infiniband, or ibstat")
        return
    what = f"is {port.state}" + (f", physical state {port.physical}" if port.physical else "")
    fix = _STATES.get(port.physical) or _STATES.get(port.state) or _STATES["Polling"]
    others = len(elsewhere) - 1
    # Whichever host is asked about, the others are all votes but one that is against it: counted once, not for each.
    seen = fleet.once(
        ("active elsewhere", one.name),
        lambda: fleet.majority({host: up for host, up in elsewhere.items() if host != view.host}),
    )
    past = fleet.baseline.get(view.host)
    was = past.rdma[one.device.name].ports.get(port.number) if past and one.device.name in past.rdma else None
    speak, limits = say.fail, list[str]()
    if fleet.context.settings.data_nics is not None:
        basis = "the settings name it a data NIC"
    elif was is not None and was.active:
        basis = "it was active in the baseline"
    elif seen is not None and seen[0]:
        basis = f"it is active on {seen[1]} of {others} other hosts"
    elif seen is not None:
        say.ok(where, f"{what}, as on {seen[1]} of {others} other hosts: not in use")
        return
    elif port.lid:
        basis = f"it still has LID {port.lid}: it was active before"
    else:
        limits = ["active-share"]
        basis = f"{share:.0%} of this host's ports of its model are active"
        if share < fleet.limit("active-share"):
            speak, basis = say.warn, f"only {basis}: it may be unused"
    speak(where, what, basis=basis, fix=fix, limits=limits, state=port.state, physical=port.physical)


def _rate(fleet: Fleet, say: Verdicts) -> None:
    rates: dict[object, Counter[float]] = defaultdict(Counter)
    for ports in fleet.data_ports.values():
        for one in ports:
            if one.port.active and one.port.rate_gbps:
                rates[one.group][one.port.rate_gbps] += 1
    for view in fleet.hosts:
        judged = [one for one in fleet.data_ports[view.host] if one.port.active and one.port.rate_gbps]
        for one in judged:
            _slow(fleet, say, view, one, rates[one.group])
        if judged and not say.has_spoken(view.host):
            say.ok(view.where, f"{len(judged)} data ports run at {judged[0].port.rate_gbps:g} Gbit/s")


def _slow(fleet: Fleet, say: Verdicts, view: HostView, one: DataPort, peers: Counter[float]) -> None:
    have = one.port.rate_gbps
    common, votes = peers.most_common(1)[0]
    named = fleet.context.settings.rate_gbps
    netdev = view.net_files.get(one.port.netdev, {})
    claimed = (whole(netdev.get("speed", "")) or 0) / 1000
    past = fleet.baseline.get(view.host)
    was = past.rdma.get(one.device.name) if past else None
    before = max((port.rate_gbps for port in was.ports.values() if port.active), default=0.0) if was else 0.0
    candidates = [
        (named or 0.0, "the settings"),
        (before, "the baseline"),
        (
            common if votes > peers.total() / 2 and peers.total() > 2 else 0.0,
            f"{votes} of {peers.total()} of its peers",
        ),
        (claimed, f"the speed of its interface {one.port.netdev}"),
    ]
    expected, basis = max(candidates, key=lambda pair: pair[0])
    if have < expected:
        say.fail(
            view.nic(one.name),
            f"runs at {have:g} Gbit/s where {expected:g} are expected",
            basis=f"{expected:g} Gbit/s by {basis}",
            fix="clean or change the cable and module; compare `mlxlink` at both ends",
            rate_gbps=have,
            expected_gbps=expected,
        )
    elif "(1X " in one.port.rate_text:
        say.warn(
            view.nic(one.name),
            f"runs on one lane: {one.port.rate_text}",
            basis="links of data ports have two or four lanes",
            fix="clean or change the cable",
        )


def _missing(fleet: Fleet, say: Verdicts) -> None:
    counts = {view.host: len(fleet.data_ports[view.host]) for view in fleet.hosts if view.rdma}
    majorities = by_product(fleet, counts)
    usual = fleet.majority({view.host: bool(view.rdma) for view in fleet.hosts})
    for view in fleet.hosts:
        most = majorities[view.host]
        told = panic(view.captured("ibstat").text + "\n" + view.captured("ibstat").note)
        if told:
            say.fail(
                view.where,
                f"ibstat gave up: {told}",
                basis="a device was listed and could not be read",
                fix="see the kernel messages of this device, then reset it or reboot",
            )
            continue
        if not view.rdma:
            if view.gpus:
                say.unknown(
                    view.where,
                    f"{counted(len(view.gpus), 'GPU')} and no RDMA device: " + "; ".join(view.rdma_sources),
                    fix="load the NIC's driver; without one NCCL falls back to sockets",
                )
            elif usual is not None and usual[0]:
                say.unknown(
                    view.where,
                    f"no GPU on PCI and no RDMA device, where {usual[1]} of {len(fleet.hosts)} hosts have RDMA devices",
                    fix="see `lspci`; leave out a host that is of another kind",
                )
            continue
        have = counts[view.host]
        past = fleet.baseline.get(view.host)
        gone = sorted(past.rdma.keys() - view.rdma.keys()) if past else []
        named = fleet.context.settings.data_nics or frozenset()
        absent = sorted(named - view.rdma.keys())
        if absent or gone:
            say.fail(
                view.where,
                f"has no {', '.join(absent or gone)}",
                basis="the settings" if absent else "the baseline has it",
                fix="see `lspci` and the kernel messages; reseat the card",
            )
        elif most is not None and have < most[0]:
            say.fail(
                view.where,
                f"has {have} data NIC ports where {most[0]} are expected",
                basis=f"{most[1]} hosts with the same GPUs have {most[0]}",
                fix="see `lspci` and the kernel messages; reseat the card",
                have=have,
                expected=most[0],
            )
        else:
            say.ok(view.where, f"has {have} data NIC ports", have=have)


def _subnet(fleet: Fleet, say: Verdicts) -> None:
    keys: dict[str, str] = {}
    for view in fleet.hosts:
        for one in fleet.data_ports[view.host]:
            path = f"ports/{one.port.number}/pkeys/0"
            key = view.rdma_files.get(one.device.name, {}).get(path, "").strip().lower()
            if one.port.layer == "InfiniBand" and one.port.active and key:
                keys[f"{view.host} {one.name}"] = key
    most = fleet.majority(keys)
    for view in fleet.hosts:
        ports = [
            one for one in fleet.data_ports[view.host] if one.port.layer == "InfiniBand" and one.port.active
        ]
        for one in ports:
            where = view.nic(one.name)
            own = keys.get(f"{view.host} {one.name}")
            if one.port.sm_lid == 0:
                say.fail(
                    where,
                    "knows no subnet manager: SM LID 0",
                    basis="an active InfiniBand port has been configured by one",
                    fix="see `sminfo`; start the subnet manager",
                )
            elif own is not None and most is not None and own != most[0]:
                say.fail(
                    where,
                    f"has partition key {own} where {most[0]} is expected",
                    basis=f"{most[1]} of {len(keys)} ports have {most[0]}",
                    fix="correct the partition in the subnet manager",
                )
            elif own == "0x7fff":
                say.warn(
                    where,
                    "is a limited member of its partition: two such ports cannot talk",
                    basis="0x7fff is the default partition without the bit of full membership",
                    fix="make it a full member (0xffff) in the subnet manager",
                )
        if ports and not say.has_spoken(view.host):
            say.ok(view.where, f"{len(ports)} InfiniBand ports are configured")


_SYS = "/sys/class/infiniband/*/ports/*"
RULES = (
    Rule(
        "port-state",
        (16,),
        (_SYS, "ibstat", "ibv_devinfo -v", "rdma -j link"),
        "a rail is lost: NCCL stops, or all rings share the others",
        _state,
        core=True,
    ),
    Rule("port-rate", (16,), (_SYS, "ibstat"), "all rings through it run at its rate", _rate, core=True),
    Rule(
        "nic-missing",
        (25,),
        (_SYS, "ibstat"),
        "a rail is lost: NCCL uses fewer NICs or none",
        _missing,
        core=True,
    ),
    Rule("ib-subnet", (24,), (_SYS, "ibstat"), "queue pairs to other hosts cannot be connected", _subnet),
)
