"""Rules about single cables: down, ends of different MTU, slower than their siblings or than parallel ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nettune.checks import Finding, Status, held, unknown
from nettune.elements import ElementId
from nettune.units import format_rate
from nettune.wording import counted
from topology.discovery.analysis_common import link_nodes, majority, node_kinds, numbered, port_name
from topology.fabric import Fabric, LinkState, NodeKind

if TYPE_CHECKING:
    from topology.discovery.analysis_common import Floats


def link_state(fabric: Fabric, reasons: Mapping[str, str]) -> list[Finding]:
    """Cables that are down; one finding for a switch of which none is up."""
    check = "link-state"
    down = fabric.links.state == LinkState.DOWN
    if not len(down):
        return []  # no link is no proof of anything
    if not down.any():
        return [held(check, f"{_links(len(down))} up")]
    node_a, node_b = link_nodes(fabric)
    count = len(fabric.nodes.name)
    cables = np.bincount(node_a, minlength=count) + np.bincount(node_b, minlength=count)
    dead = np.bincount(node_a[down], minlength=count) + np.bincount(node_b[down], minlength=count)
    dark = (fabric.nodes.kind == NodeKind.SWITCH) & (cables > 1) & (dead == cables)
    findings = []
    for row in np.flatnonzero(dark).tolist():
        own = np.flatnonzero((node_a == row) | (node_b == row)).tolist()
        findings.append(
            Finding(
                check=check,
                status=Status.FAIL,
                where=fabric.node_element(row),
                what=f"all {len(own)} links of it are down",
                evidence={"links": [str(fabric.link_element(link)) for link in own]},
                fix="bring the switch back, or leave it out and expect the capacity of the others",
            )
        )
    for link in np.flatnonzero(down & ~dark[node_a] & ~dark[node_b]).tolist():
        element = fabric.link_element(link)
        why = reasons.get(element, "")
        findings.append(
            Finding(
                check=check,
                status=Status.FAIL,
                where=element,
                what=f"the link is down{f': {why}' if why else ''}",
                evidence={"reason": why},
                fix="check the cable and both ports, and whether an end was set down",
            )
        )
    return findings


def link_mtu(fabric: Fabric) -> list[Finding]:
    """Cables whose ends have different MTUs."""
    check = "link-mtu"
    if not len(fabric.links.port_a):
        return []
    ports = np.stack([fabric.links.port_a, fabric.links.port_b], axis=1)
    mtus = fabric.ports.mtu[ports]
    not_known = (mtus == 0).any(axis=1)
    findings = []
    for link in np.flatnonzero(~not_known & (mtus[:, 0] != mtus[:, 1])).tolist():
        (least, low), (most, high) = sorted(zip(mtus[link].tolist(), ports[link].tolist(), strict=True))
        findings.append(
            Finding(
                check=check,
                status=Status.FAIL,
                where=fabric.link_element(link),
                what=f"MTU {least} at {port_name(fabric, low)}, {most} at {port_name(fabric, high)}: "
                "larger packets vanish at the smaller end",
                evidence={"smaller_end": str(fabric.port_element(low)), "mtu": [least, most]},
                fix=f"set the MTU of {port_name(fabric, low)} to {most}",
            )
        )
    if not_known.any():
        what = f"MTU of {counted(int(np.count_nonzero(not_known)), 'link')} is not known"
        findings.append(unknown(check, ElementId.fabric(), what))
    return findings or [held(check, f"both ends of {counted(len(ports), 'link')} have the same MTU")]


def link_speed(fabric: Fabric) -> list[Finding]:
    """Cables with a lower nominal speed than their siblings, or than parallel ones, or with ends that differ.

    Siblings of a cable: those of the same switch to nodes of the same tier, and to hosts of the same kind; at least
    three and a strict majority decide. Of two parallel cables the slower one is a warning.
    """
    check = "link-speed"
    if not len(fabric.links.port_a):
        return []
    ports = np.stack([fabric.links.port_a, fabric.links.port_b], axis=1)
    ends = fabric.ports.speed_gbps[ports]
    speed, faster = ends.min(axis=1, initial=np.inf), ends.max(axis=1, initial=0.0)
    known = speed > 0
    found: dict[int, Finding] = {}
    for link in np.flatnonzero(known & (faster != speed)).tolist():
        low, high = sorted(ports[link].tolist(), key=lambda port: float(fabric.ports.speed_gbps[port]))
        what = (
            f"{_rate(fabric, low)} at {port_name(fabric, low)}, "
            f"{_rate(fabric, high)} at {port_name(fabric, high)}"
        )
        found[link] = _slow(fabric, link, what, Status.FAIL)
    for link, usual, votes, voters in _slower_siblings(fabric, speed):
        what = f"{format_rate(float(speed[link]))}, {votes} of {voters} siblings have {format_rate(usual)}"
        found.setdefault(link, _slow(fabric, link, what, Status.FAIL))
    for link, fastest in _slower_parallels(fabric, speed):
        what = f"{format_rate(float(speed[link]))}, a parallel link has {format_rate(fastest)}"
        found.setdefault(link, _slow(fabric, link, what, Status.WARN))
    findings = list(found.values())
    if not known.all():
        what = f"speed of {counted(int(np.count_nonzero(~known)), 'link')} is not known"
        findings.append(unknown(check, ElementId.fabric(), what))
    return findings or [held(check, f"{_links(len(speed))} as fast as their siblings")]


def _slower_siblings(fabric: Fabric, speed: Floats) -> list[tuple[int, float, int, int]]:
    """(link, usual speed, votes, voters) of cables below the usual speed of the cables of one of their switches."""
    node_a, node_b = link_nodes(fabric)
    link = np.tile(np.arange(len(speed)), 2)
    near, far = np.concatenate([node_a, node_b]), np.concatenate([node_b, node_a])
    judged = (fabric.nodes.kind[near] == NodeKind.SWITCH) & (speed[link] > 0) & (near != far)
    link, near, far = link[judged], near[judged], far[judged]
    group = numbered(near, fabric.nodes.tier[far], node_kinds(fabric)[far])
    said = majority(group, speed[link])
    slower = np.flatnonzero(said.decided & (speed[link] < said.usual))
    columns = (link[slower], said.usual[slower], said.votes[slower], said.voters[slower])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _slower_parallels(fabric: Fabric, speed: Floats) -> list[tuple[int, float]]:
    """(link, speed of the fastest) of cables that are not the fastest between their two nodes."""
    node_a, node_b = link_nodes(fabric)
    links = np.flatnonzero(speed > 0)
    pair = numbered(np.minimum(node_a, node_b)[links], np.maximum(node_a, node_b)[links])
    fastest = np.zeros(int(pair.max(initial=-1)) + 1)
    np.maximum.at(fastest, pair, speed[links])
    return [
        (int(links[row]), float(fastest[pair[row]]))
        for row in np.flatnonzero(speed[links] < fastest[pair]).tolist()
    ]


def _links(number: int) -> str:
    return "the only link is" if number == 1 else f"all {number:,} links are"


def _rate(fabric: Fabric, port: int) -> str:
    return format_rate(float(fabric.ports.speed_gbps[port]))


def _slow(fabric: Fabric, link: int, what: str, status: Status) -> Finding:
    ends = {
        str(fabric.port_element(port)): float(fabric.ports.speed_gbps[port])
        for port in (int(fabric.links.port_a[link]), int(fabric.links.port_b[link]))
    }
    return Finding(
        check="link-speed",
        status=status,
        where=fabric.link_element(link),
        what=f"nominal speed {what}",
        evidence={"ends_gbps": ends},
        fix="check cable, transceiver and configured speed of both ends",
    )
