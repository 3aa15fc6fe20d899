"""The RoCE audit along SONiC switches: what a config_db does with the DSCP that the hosts use (3, 4, 5)."""

from __future__ import annotations

from collections import Counter, defaultdict

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.neighbours import CONFIG, far_ends, switches
from nettune.qualify.checks.parsers.sonic import SwitchPort
from nettune.qualify.checks.roce import roce_ports
from nettune.qualify.checks.variables import traffic_class
from nettune.wording import counted, some
from topology.naming import natural_key

CNP_DSCP = 48
"""NVIDIA's default for congestion notifications; AMD's AINIC uses 46."""

Complaint = tuple[str, str, str]
"""What, basis, fix."""


def _switches(fleet: Fleet, say: Verdicts) -> None:
    known = switches(fleet)
    if not known:
        return
    used = Counter(port.dscp for port in roce_ports(fleet) if port.dscp is not None)
    asked = traffic_class(fleet, None)
    if not used and asked is not None:
        used[asked[0] >> 2] += 1
    hosts = {(end.switch, end.port.name): host for host, end in far_ends(fleet).items() if end.port}
    for name, ports in known.items():
        try:
            where = ElementId.switch(name)
        except InputError:
            continue
        if not used:
            say.unknown(
                where,
                "the DSCP of the job's packets is not known",
                fix="give the job's environment (NCCL_IB_TC)",
            )
            continue
        dscp = used.most_common(1)[0][0]
        mapped = {port: ports[port] for port in sorted(ports, key=natural_key) if ports[port].is_set}
        if not mapped:
            say.fail(
                where,
                "no port has a PORT_QOS_MAP: all traffic is in one class that may be dropped",
                basis="its config_db",
                fix="apply a RoCE configuration: DSCP map, PFC and WRED with ECN on one queue",
            )
            continue
        failures: dict[Complaint, list[str]] = defaultdict(list)
        warnings: dict[Complaint, list[str]] = defaultdict(list)
        for port in mapped.values():
            for complaint in _failures(port, dscp):
                failures[complaint].append(port.name)
            for complaint in _warnings(port):
                warnings[complaint].append(port.name)
        for complaints, hard in ((failures, True), (warnings, False)):
            for (what, basis, fix), names in complaints.items():
                ends = {port: " ".join(hosts[name, port]) for port in names if (name, port) in hosts}
                # A few ports without a known cable may be of another network: management, storage.
                few = (
                    2 * len(names) < len(mapped)
                    and not ends
                    and not any(mapped[port].far[0] for port in names)
                )
                (say.fail if hard and not few else say.warn)(
                    _element(name, names) or where,
                    f"{what} ({counted(len(names), 'port')}: {some(_with_end(port, ends) for port in names)})",
                    basis=f"{basis}; {'these ports may not carry the job' if few else 'all ports that it sets'}",
                    fix=fix,
                    dscp=dscp,
                    ports=names,
                )
        if not failures and not warnings:
            say.ok(where, f"DSCP {dscp} has PFC and ECN on its queue on {counted(len(mapped), 'port')}")


def _failures(port: SwitchPort, dscp: int) -> list[Complaint]:
    if not port.trusts:
        return [
            (
                "has no DSCP map: it does not trust the DSCP of the packets",
                "PORT_QOS_MAP without dscp_to_tc_map",
                "give it the same dscp_to_tc_map as the other ports",
            )
        ]
    found = []
    treatment = port.treatment(dscp)
    leads = f"DSCP {dscp} leads to traffic class {treatment.tc}, queue {treatment.queue}"
    if treatment.priority is None:
        enabled = ", ".join(map(str, sorted(port.pfc))) or "none"
        found.append(
            (
                f"{leads}, PFC is on {enabled}",
                "dscp_to_tc_map, tc_to_pg_map and pfc_enable of its config_db; the DSCP of the hosts",
                f"map DSCP {dscp} to a class with PFC; SONiC's own AZURE map sends 26 to class 1",
            )
        )
    elif treatment.stopped != treatment.queue:
        found.append(
            (
                f"{leads}, and a pause of its priority {treatment.priority} stops queue {treatment.stopped}",
                "tc_to_queue_map beside pfc_to_queue_map of its config_db",
                "let the pause of a priority stop the queue of its packets",
            )
        )
    if treatment.unmarked:
        found.append(
            (
                f"{leads}, which marks nothing: {treatment.unmarked}",
                "QUEUE and WRED_PROFILE of its config_db",
                "bind a WRED profile with ecn_all and thresholds below PFC's to this queue",
            )
        )
    return found


def _warnings(port: SwitchPort) -> list[Complaint]:
    cnp = port.treatment(CNP_DSCP)
    if not port.trusts or cnp.priority is None:
        return []
    return [
        (
            f"congestion notifications (DSCP {CNP_DSCP}) share the lossless class {cnp.tc}",
            "NVIDIA's convention: CNPs in a strict queue without PFC",
            f"map DSCP {CNP_DSCP} to a class of its own",
        )
    ]


def _with_end(port: str, ends: dict[str, str]) -> str:
    return f"{port} to {ends[port]}" if port in ends else port


def _element(switch: str, ports: list[str]) -> ElementId | None:
    """The port if it is one, else the whole switch."""
    try:
        return ElementId.port(switch, ports[0]) if len(ports) == 1 else ElementId.switch(switch)
    except InputError:
        return None


RULES = (
    Rule("roce-switch", (3, 4, 5), (CONFIG,), "the switch drops what the hosts take for lossless", _switches),
)
