"""The RoCE audit between ends (1 to 6): host and host, host and switch port, switch port and switch port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.qualify.checks.agreement import compare
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.neighbours import CONFIG, FarEnd, switches
from nettune.qualify.checks.parsers.sonic import SwitchPort, Treatment
from nettune.qualify.checks.roce import RocePort, kind_of_gid, roce_ports

_CHOOSE = "choose one setting for all hosts and switches, also for after a reboot"


def listed(priorities: Iterable[int]) -> str:
    """`3, 4`, or `no priority`."""
    return ", ".join(map(str, sorted(priorities))) or "no priority"


def _pause(pause: tuple[bool | None, bool | None]) -> str:
    words = {True: "on", False: "off", None: "not told"}
    return f"rx {words[pause[0]]}, tx {words[pause[1]]}"


def _gid_type(port: RocePort) -> str | None:
    return kind_of_gid(port.gid) if port.gid and port.gid.version else None


# (setting, its value or None where it is not told, its text, whether a difference is only a warning)
_SETTINGS: tuple[tuple[str, Callable[[RocePort], Any], Callable[[Any], str], bool], ...] = (
    ("trust", lambda port: port.qos.trust or None, str, False),
    ("traffic class", lambda port: port.tclass and port.tclass[0], str, False),
    ("priority of the job's packets", lambda port: port.priority, str, False),
    ("PFC", lambda port: port.qos.pfc, listed, False),
    ("ECN of the receiver (roce_np)", lambda port: port.np, listed, False),
    ("ECN of the sender (roce_rp)", lambda port: port.rp, listed, False),
    ("link-wide pause", lambda port: None if port.pause == (None, None) else port.pause, _pause, False),
    ("type of NCCL's GID", _gid_type, str, False),
    # What differs only in other DSCPs or beside the job's priority does no harm to this job.
    ("DSCP map", lambda port: port.qos.dscp_map or None, str, True),
    ("receive buffers of priorities", lambda port: port.qos.buffers or None, str, True),
    ("index of NCCL's GID", lambda port: port.gid.index if port.gid else None, str, True),
)


def _hosts(fleet: Fleet, say: Verdicts) -> None:
    ports = roce_ports(fleet)
    where = {port.name: port.view.nic(port.one.name) for port in ports}
    open_hosts: set[str] = set()
    compared = 0
    for what, value_of, shown, tolerable in _SETTINGS:
        votes = {port.name: value for port in ports if (value := value_of(port)) is not None}
        compared += bool(votes)
        open_hosts |= compare(fleet, say, what, votes, where, fix=_CHOOSE, shown=shown, tolerable=tolerable)
    counts = Counter(port.view.host for port in ports)
    for view in fleet.hosts:
        if compared and counts[view.host] and view.host not in open_hosts and not say.has_spoken(view.host):
            say.ok(view.where, f"{counts[view.host]} RoCE ports are set like the others")


def _cables(fleet: Fleet, say: Verdicts) -> None:
    judged: Counter[str] = Counter()
    told = dict.fromkeys((port.view.host for port in roce_ports(fleet)), 0)
    for port in roce_ports(fleet):
        far = port.far
        where = _link((port.view.host, port.one.name), (far.switch, far.name)) if far else None
        if far is None or where is None:
            continue
        judged[port.view.host] += 1
        if far.port is None:
            say.unknown(
                where,
                f"{far.switch} has no settings of {far.name}, to which {port.name} is cabled",
                fix=f"see PORT_QOS_MAP in {CONFIG} of this switch",
            )
            continue
        differences = _host_to_switch(port, far, far.port)
        told[port.view.host] += len(differences)
        _speak(say, where, differences)
    for view in fleet.hosts:
        if judged[view.host] and not told[view.host]:
            say.ok(
                view.where, f"{judged[view.host]} RoCE ports agree with the switch ports at their other ends"
            )
    _between_switches(fleet, say)


def _host_to_switch(port: RocePort, far: FarEnd, there: SwitchPort) -> list[str]:
    found = []
    near, end = port.name, f"{far.switch} {there.name}"
    if port.mtu is not None and port.mtu > there.mtu:
        found.append(f"MTU is {port.mtu} on {near} and {there.mtu} on {end}: the switch drops large packets")
    unprotected = (port.qos.pfc or frozenset()) - there.pfc
    if unprotected:
        found.append(f"PFC is on {listed(port.qos.pfc or ())} on {near} and {listed(there.pfc)} on {end}")
    if port.dscp is None:
        return found
    treatment = there.treatment(port.dscp)
    if port.priority is not None and port.qos.pfc and treatment.priority not in {None, port.priority}:
        found.append(
            f"DSCP {port.dscp} is priority {port.priority} on {near} and {treatment.priority} on {end}: "
            "a pause stops the wrong class"
        )
    elif port.qos.pfc and treatment.priority is None and not unprotected:
        found.append(f"DSCP {port.dscp} is lossless on {near} and {_lossy(treatment)} on {end}")
    if treatment.unmarked and port.rp and (port.priority is None or port.priority in port.rp):
        found.append(
            f"{near} slows down for ECN marks, queue {treatment.queue} of DSCP {port.dscp} on {end} sets none: "
            + treatment.unmarked
        )
    return found


def _lossy(treatment: Treatment) -> str:
    return f"traffic class {treatment.tc} without PFC"


def _between_switches(fleet: Fleet, say: Verdicts) -> None:
    known = switches(fleet)
    dscps = sorted({port.dscp for port in roce_ports(fleet) if port.dscp is not None})
    seen: set[ElementId] = set()
    for switch, ports in known.items():
        for port in ports.values():
            other = known.get(port.far[0], {}).get(port.far[1])
            where = _link((switch, port.name), port.far) if other is not None else None
            if other is None or where is None or where in seen:
                continue
            seen.add(where)
            differences = _switch_to_switch(f"{switch} {port.name}", port, " ".join(port.far), other, dscps)
            _speak(say, where, differences)
            if not differences:
                say.ok(where, "both ends treat the job's packets alike")


def _switch_to_switch(
    near: str, port: SwitchPort, end: str, other: SwitchPort, dscps: list[int]
) -> list[str]:
    found = []
    if port.mtu != other.mtu:
        found.append(f"MTU is {port.mtu} on {near} and {other.mtu} on {end}")
    if port.pfc != other.pfc:
        found.append(f"PFC is on {listed(port.pfc)} on {near} and {listed(other.pfc)} on {end}")
    for dscp in dscps:
        mine, yours = port.treatment(dscp), other.treatment(dscp)
        if mine.priority != yours.priority:
            said = [
                _lossy(one) if one.priority is None else f"priority {one.priority}" for one in (mine, yours)
            ]
            found.append(f"DSCP {dscp} is {said[0]} on {near} and {said[1]} on {end}")
        if bool(mine.unmarked) != bool(yours.unmarked):
            marks = [one.unmarked or "marks with ECN" for one in (mine, yours)]
            found.append(
                f"DSCP {dscp}, queue {mine.queue} on {near}: {marks[0]}; queue {yours.queue} on {end}: {marks[1]}"
            )
    return found


def _speak(say: Verdicts, where: ElementId, differences: list[str]) -> None:
    for what in differences:
        say.fail(where, what, basis="both ends of a cable must agree; settings as captured", fix=_CHOOSE)


def _link(near: tuple[str, str], far: tuple[str, str]) -> ElementId | None:
    try:
        return ElementId.link(*near, *far)
    except InputError:
        return None


RULES = (
    Rule(
        "roce-agreement",
        (2, 3, 4, 5, 6),
        ("mlnx_qos -i IF", "ethtool -a IF", "/sys/class/infiniband/*/ports/*/gids/*"),
        "one end drops, pauses or cannot reach what the other protects or sends",
        _hosts,
    ),
    Rule(
        "roce-cable",
        (1, 3, 4, 5),
        ("mlnx_qos -i IF", CONFIG),
        "the switch drops what the host takes for lossless, or pauses another class",
        _cables,
    ),
)
