"""The RoCE audit inside hosts: trust and DSCP (5), PFC (3), ECN (4), pause (6), GID (2); `agreement` compares ends."""

from __future__ import annotations

from collections import Counter

from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers import ethernet
from nettune.qualify.checks.roce import RocePort, roce_ports


def _trust(fleet: Fleet, say: Verdicts) -> None:
    ports = roce_ports(fleet)
    for port in ports:
        where = port.view.nic(port.one.name)
        if not port.qos.trust:
            say.missing(port.view, f"mlnx_qos -i {port.netdev or 'IF'}")
        elif port.qos.trust != "dscp":
            speak, what = say.warn, f"trusts {port.qos.trust}, not DSCP"
            if port.qos.pfc:
                speak, what = (
                    say.fail,
                    (
                        f"trusts {port.qos.trust}: RoCE packets without a VLAN tag go into priority 0, PFC is on "
                        f"{_listed(port.qos.pfc)}"
                    ),
                )
            speak(
                where,
                what,
                basis="RoCE v2 packets carry their class as DSCP",
                fix=f"mlnx_qos -i {port.netdev} --trust=dscp",
            )
        if port.ignored and port.tclass:
            say.warn(
                where,
                f"{port.ignored[1]}={port.ignored[0]} has no effect: {port.tclass[1]} is {port.tclass[0]}",
                basis="/sys/class/infiniband/DEV/tc/P/traffic_class overrides what programs ask for",
                fix=f"cma_roce_tos and tc/{port.one.port.number}/traffic_class to {port.ignored[0]}, or 0 to clear it",
                asked=port.ignored[0],
                in_force=port.tclass[0],
            )
    _rest(ports, say, "trust DSCP")


def _pfc(fleet: Fleet, say: Verdicts) -> None:
    ports = roce_ports(fleet)
    for port in ports:
        where, pfc = port.view.nic(port.one.name), port.qos.pfc
        if pfc is None:
            say.missing(port.view, f"mlnx_qos -i {port.netdev or 'IF'}")
        elif port.priority is None and pfc:
            _by_bytes(fleet, say, port, pfc)
        elif port.priority is not None and pfc and port.priority not in pfc:
            say.fail(
                where,
                f"PFC is on {_listed(pfc)}, the job's packets are in priority {port.priority}{_from(port)}",
                basis="trust, DSCP map and traffic class of this port",
                fix=f"set NCCL_IB_TC={_class_for(port, pfc)}, or PFC on priority {port.priority}, on all hosts and switches",
                priority=port.priority,
                pfc=sorted(pfc),
            )
        elif port.priority is not None and not pfc and port.tclass and port.tclass[0]:
            say.warn(
                where,
                f"PFC is off, though the traffic class asks for priority {port.priority}{_from(port)}",
                basis="a class of its own is useful with PFC",
                fix=f"mlnx_qos -i {port.netdev} --pfc for priority {port.priority}, unless the fabric is lossy by design",
            )
        elif pfc and len(pfc) > 1:
            say.warn(
                where,
                f"PFC is on {len(pfc)} priorities: {_listed(pfc)}",
                basis="the job uses one; each lossless class takes buffer from the others",
                fix="switch PFC off on the others",
            )
    _rest(ports, say, "have PFC on the job's priority, or none at all")


def _by_bytes(fleet: Fleet, say: Verdicts, port: RocePort, pfc: frozenset[int]) -> None:
    """The traffic class is not known: what the counters of the priorities tell."""
    where = port.view.nic(port.one.name)
    counters = ethernet.statistics(port.view.text(f"ethtool -S {port.netdev}") or "")
    received = {
        prio: counters[f"rx_prio{prio}_bytes"] for prio in range(8) if f"rx_prio{prio}_bytes" in counters
    }
    total, lossless = sum(received.values()), sum(received.get(prio, 0) for prio in pfc)
    if total > fleet.limit("prio-bytes") and lossless == 0:
        busiest = max(received, key=lambda prio: received[prio])
        rdma = counters.get("rx_vport_rdma_unicast_bytes")
        told = say.fail if rdma else say.warn
        told(
            where,
            f"PFC is on {_listed(pfc)}, but all of {total / 1e9:.0f} GB came in other priorities, most in {busiest}",
            basis="rx_prioN_bytes since the driver was loaded" + (", RDMA bytes among them" if rdma else ""),
            fix=f"set NCCL_IB_TC={_class_for(port, pfc)} for the job",
            limits=["prio-bytes"],
        )
    else:
        say.unknown(
            where,
            f"PFC is on {_listed(pfc)}; the job's traffic class is not known (NCCL's default is 0)",
            fix=f"give the job's environment; NCCL_IB_TC={_class_for(port, pfc)} would fit",
        )


def _ecn(fleet: Fleet, say: Verdicts) -> None:
    ports = roce_ports(fleet)
    for port in ports:
        where = port.view.nic(port.one.name)
        needed = {port.priority} if port.priority is not None else port.qos.pfc or frozenset()
        if port.np is None or port.rp is None:
            say.unknown(
                where,
                f"/sys/class/net/{port.netdev or 'IF'}/ecn is not there",
                fix="it needs the vendor's driver; else see mlxconfig ROCE_CC_PRIO_MASK",
            )
            continue
        lacking = {
            side: sorted(needed - enabled)
            for side, enabled in (("roce_np", port.np), ("roce_rp", port.rp))
            if needed - enabled
        }
        if lacking:
            listed = ", ".join(f"{side} of priority {_listed(prios)}" for side, prios in lacking.items())
            say.fail(
                where,
                f"ECN is off: {listed}",
                basis="both sides, for the priority in use"
                if port.priority is not None
                else "for PFC's priorities",
                fix=f"echo 1 > /sys/class/net/{port.netdev}/ecn/SIDE/enable/PRIORITY, on all hosts",
                lacking=lacking,
            )
    _rest(ports, say, "have ECN on for their priority")


def _pause(fleet: Fleet, say: Verdicts) -> None:
    ports = roce_ports(fleet)
    for port in ports:
        where = port.view.nic(port.one.name)
        on = [name for name, value in zip(("rx", "tx"), port.pause, strict=True) if value]
        if port.pause == (None, None):
            say.missing(port.view, f"ethtool -a {port.netdev or 'IF'}")
        elif on and port.qos.pfc:
            say.fail(
                where,
                f"link-wide pause ({', '.join(on)}) is on beside PFC",
                basis="802.3x pause stops all classes, and a port does one or the other",
                fix=f"ethtool -A {port.netdev} rx off tx off",
            )
        elif on:
            say.warn(
                where,
                f"link-wide pause ({', '.join(on)}) is on",
                basis="measured elsewhere: 21.7% of the bandwidth with no drop counted (daqiri #250)",
                fix=f"ethtool -A {port.netdev} rx off tx off, and PFC for the RoCE priority",
            )
    _rest(ports, say, "have link-wide pause off")


def _gid(fleet: Fleet, say: Verdicts) -> None:
    ports = roce_ports(fleet)
    for port in ports:
        index = port.index
        where = port.view.nic(port.one.name)
        routable = [gid for gid in port.gids if gid.version in {0, 2} and gid.ipv4]
        wide = [g for g in port.gids if g.version == 2 and g.address and not g.address.startswith("fe80")]
        if not port.gids:
            say.missing(port.view, "show_gids", "ibv_devinfo -v")
        elif index is not None and index >= 0:
            at = next((gid for gid in port.gids if gid.index == index), None)
            if at is None or at.version == 1 or at not in [*routable, *wide]:
                have = "nothing" if at is None else f"{at.address} (RoCE v{at.version or '?'})"
                say.fail(
                    where,
                    f"NCCL_IB_GID_INDEX={index} is {have} here",
                    basis="a RoCE v2 GID with a routable address is needed at that index on every port",
                    fix="leave NCCL_IB_GID_INDEX unset: NCCL 2.21 and later choose themselves",
                    usable=[gid.index for gid in [*routable, *wide]][:16],
                )
        elif not any(gid.version for gid in port.gids):
            say.unknown(
                where, "the types of its GIDs are not told", fix="collect /sys/class/infiniband or show_gids"
            )
        elif not wide:
            say.fail(
                where,
                f"has {len(port.gids)} GIDs and none of RoCE v2 with a routable address",
                basis="RoCE v2 is routed by the IP address of its GID",
                fix=f"give {port.netdev or 'its interface'} an IP address and set it up",
            )
    _rest(ports, say, "have a routable RoCE v2 GID")


def _rest(ports: list[RocePort], say: Verdicts, what: str) -> None:
    """PASS for the hosts of which nothing else was said."""
    counts = Counter(port.view.host for port in ports)
    for view in {port.view.host: port.view for port in ports}.values():
        if not say.has_spoken(view.host):
            say.ok(view.where, f"{counts[view.host]} RoCE ports {what}")


def _listed(priorities: frozenset[int] | list[int]) -> str:
    return ", ".join(map(str, sorted(priorities)))


def _from(port: RocePort) -> str:
    return f" (traffic class {port.tclass[0]} by {port.tclass[1]}, DSCP {port.dscp})" if port.tclass else ""


def _class_for(port: RocePort, pfc: frozenset[int]) -> int:
    """A traffic class that leads to a lossless priority: 26, the usual DSCP, if it does, else the first that does."""
    fitting = [dscp for dscp, prio in sorted(port.qos.prio_of_dscp.items()) if prio in pfc]
    dscp = 26 if 26 in fitting or not fitting else fitting[0]
    return dscp << 2


_QOS = "mlnx_qos -i IF"
RULES = (
    Rule("roce-trust", (5,), (_QOS,), "all RoCE traffic is in the class that may be dropped", _trust),
    Rule(
        "roce-pfc",
        (3, 5),
        (_QOS, "ethtool -S IF"),
        "packets are dropped under incast; go-back-N follows",
        _pfc,
    ),
    Rule(
        "roce-ecn",
        (4,),
        ("/sys/class/net/*/ecn/*",),
        "senders are not slowed down: pauses spread over the fabric",
        _ecn,
    ),
    Rule(
        "roce-pause",
        (6,),
        ("ethtool -a IF",),
        "pause stops all classes: -21.7% measured with no drop counted",
        _pause,
    ),
    Rule(
        "gid",
        (2,),
        ("/sys/class/infiniband/*/ports/*/gids/*", "show_gids"),
        "queue pairs time out (status 12)",
        _gid,
    ),
)
