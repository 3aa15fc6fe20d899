"""Findings about the structure of a fabric: each rule says what it found, or that it was applied and held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.units import format_rate
from topology.discovery.forwarding import ecmp_hash, next_hops
from topology.discovery.voting import MIN_VOTERS, Signature, vote
from topology.fabric import Fabric, LinkState, NodeKind
from topology.routing import Routing


def analyse(
    fabric: Fabric, routing: Routing | None = None, reasons: Mapping[str, str] | None = None
) -> list[Finding]:
    """All rules over a fabric, and over its routing where it is known.

    Args:
        fabric: the fabric.
        routing: its forwarding state.
        reasons: element -> how it was learned, as in `Discovery`; quoted in findings.
    """
    findings = [
        *rail_cabling(fabric),
        *host_rails(fabric),
        *link_state(fabric, reasons or {}),
        *link_mtu(fabric),
        *link_speed(fabric),
        *oversubscription(fabric),
    ]
    if routing is not None:
        findings += [*next_hops(routing), *ecmp_hash(routing)]
    return findings


def rail_cabling(fabric: Fabric) -> list[Finding]:
    """Hosts' NICs on another leaf than their pod's, by majority vote per rail."""
    check = "rail-cabling"
    nics = _cabled_nics(fabric)
    rails = sorted({rail for of_host in nics.values() for rail in of_host})
    if len(rails) < 2:
        what = (
            f"hosts have {len(rails)} rail: a host cabled to another leaf looks like any other of that leaf"
        )
        return [_unknown(check, ElementId.fabric(), what)]
    signatures: dict[str, Signature] = {}
    for host, of_host in nics.items():
        ports = [of_host.get(rail) for rail in rails]
        signatures[host] = tuple(None if port is None else fabric.leaf_of(port) for port in ports)
    findings = []
    for verdict in vote(signatures):
        if not verdict.wrong:
            findings.append(
                _unknown(check, ElementId.host(verdict.host), f"its rails differ from others': {verdict.why}")
            )
        for place, leaf in verdict.wrong.items():
            port = nics[verdict.host][rails[place]]
            actual = fabric.leaf_of(port)
            assert actual is not None
            is_on, should = fabric.nodes.name[actual], fabric.nodes.name[leaf]
            findings.append(
                Finding(
                    check=check,
                    status=Status.FAIL,
                    where=fabric.port_element(port),
                    what=f"rail {rails[place]} is cabled to {is_on}; it should be on {should}, as "
                    f"{verdict.votes[0]} of {verdict.votes[1]} hosts of its pod are",
                    evidence={
                        "is_on": is_on,
                        "should_be_on": should,
                        "votes": list(verdict.votes),
                        "pod": verdict.why,
                    },
                    fix=f"move the cable of {verdict.host}:{fabric.ports.name[port]} to {should}",
                )
            )
    if findings:
        return findings
    if len(signatures) < MIN_VOTERS:
        return [_unknown(check, ElementId.fabric(), f"{len(signatures)} hosts; a vote needs {MIN_VOTERS}")]
    pods = len(set(signatures.values()))
    return [_held(check, f"{len(signatures)} hosts with {len(rails)} rails are cabled alike in {pods} pods")]


def host_rails(fabric: Fabric) -> list[Finding]:
    """Hosts with fewer cabled NICs than most."""
    check = "host-rails"
    nics = _cabled_nics(fabric)
    counts = Counter(len(of_host) for of_host in nics.values())
    if not counts:
        return [_unknown(check, ElementId.fabric(), "no host is known")]
    usual, voters = counts.most_common(1)[0]
    if 2 * voters <= len(nics) and len(counts) > 1:
        what = f"hosts have {', '.join(f'{rails} rails: {hosts}' for rails, hosts in sorted(counts.items()))}; no majority"
        return [_unknown(check, ElementId.fabric(), what)]
    common = {
        rail
        for rail, hosts in Counter(r for of in nics.values() for r in of).items()
        if 2 * hosts > len(nics)
    }
    findings = []
    for host, of_host in nics.items():
        if len(of_host) < usual:
            missing = sorted(common - set(of_host))
            findings.append(
                Finding(
                    check=check,
                    status=Status.FAIL,
                    where=ElementId.host(host),
                    what=f"{len(of_host)} rails, {voters} of {len(nics)} hosts have {usual}; missing: "
                    f"{', '.join(f'rail {rail}' for rail in missing) or 'not told apart'}",
                    evidence={"rails": len(of_host), "usual": usual, "missing": missing},
                    fix="look for a NIC that is absent, without address or not cabled",
                )
            )
    return findings or [_held(check, f"all {len(nics)} hosts have {usual} rails")]


def link_state(fabric: Fabric, reasons: Mapping[str, str]) -> list[Finding]:
    """Cables that are down; one finding for a switch of which none is up."""
    check = "link-state"
    down = np.flatnonzero(fabric.links.state == LinkState.DOWN)
    if not len(down):
        return [_held(check, f"all {len(fabric.links.state)} links are up")]
    nodes = fabric.ports.node[np.stack([fabric.links.port_a, fabric.links.port_b], axis=1)]
    findings, told = [], set()
    for row in np.flatnonzero(fabric.nodes.kind == NodeKind.SWITCH):
        own = np.flatnonzero((nodes == row).any(axis=1))
        if len(own) > 1 and np.isin(own, down).all():
            told |= set(own.tolist())
            findings.append(
                Finding(
                    check=check,
                    status=Status.FAIL,
                    where=fabric.node_element(int(row)),
                    what=f"all {len(own)} links of it are down",
                    evidence={"links": [str(fabric.link_element(int(link))) for link in own]},
                    fix="bring the switch back, or leave it out and expect the capacity of the others",
                )
            )
    for link in down.tolist():
        if link not in told:
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
    findings, unknown = [], 0
    for link, (a, b) in enumerate(
        zip(fabric.links.port_a.tolist(), fabric.links.port_b.tolist(), strict=True)
    ):
        mtus = {port: int(fabric.ports.mtu[port]) for port in (a, b)}
        if 0 in mtus.values():
            unknown += 1
        elif mtus[a] != mtus[b]:
            low, high = sorted((a, b), key=lambda port: mtus[port])
            findings.append(
                Finding(
                    check=check,
                    status=Status.FAIL,
                    where=fabric.link_element(link),
                    what=f"MTU {mtus[low]} at {_port_name(fabric, low)}, {mtus[high]} at {_port_name(fabric, high)}: "
                    "larger packets vanish at the smaller end",
                    evidence={"smaller_end": str(fabric.port_element(low)), "mtu": [mtus[low], mtus[high]]},
                    fix=f"set the MTU of {_port_name(fabric, low)} to {mtus[high]}",
                )
            )
    if unknown:
        findings.append(_unknown(check, ElementId.fabric(), f"MTU of {unknown} links is not known"))
    return findings or [_held(check, f"both ends of all {len(fabric.links.port_a)} links have the same MTU")]


def link_speed(fabric: Fabric) -> list[Finding]:
    """Cables with a lower nominal speed than their siblings, or than parallel ones, or with ends that differ.

    Siblings of a cable: those of the same switch to nodes of the same tier; at least three and a strict majority
    decide. Of two parallel cables the slower one is a warning.
    """
    check = "link-speed"
    ports = np.stack([fabric.links.port_a, fabric.links.port_b], axis=1)
    ends = fabric.ports.speed_gbps[ports]
    slower, faster = np.minimum(ends[:, 0], ends[:, 1]), np.maximum(ends[:, 0], ends[:, 1])
    known, speed = slower > 0, slower
    found: dict[int, Finding] = {}
    for link in np.flatnonzero(known & (faster != slower)).tolist():
        low, high = sorted(ports[link].tolist(), key=lambda port: float(fabric.ports.speed_gbps[port]))
        what = f"{_rate(fabric, low)} at {_port_name(fabric, low)}, {_rate(fabric, high)} at {_port_name(fabric, high)}"
        found[link] = _slow(fabric, link, what, Status.FAIL)
    for links in _sibling_groups(fabric).values():
        rated = [link for link in links if known[link]]
        usual, votes = Counter(float(speed[link]) for link in rated).most_common(1)[0] if rated else (0.0, 0)
        if len(rated) >= MIN_VOTERS and 2 * votes > len(rated):
            for link in rated:
                if speed[link] < usual:
                    what = f"{format_rate(speed[link])}, {votes} of {len(rated)} siblings have {format_rate(usual)}"
                    found.setdefault(link, _slow(fabric, link, what, Status.FAIL))
    for links in _parallel_groups(fabric).values():
        rated = [link for link in links if known[link]]
        fastest = max((float(speed[link]) for link in rated), default=0.0)
        for link in rated:
            if speed[link] < fastest:
                what = f"{format_rate(speed[link])}, a parallel link has {format_rate(fastest)}"
                found.setdefault(link, _slow(fabric, link, what, Status.WARN))
    findings = list(found.values())
    if not known.all():
        findings.append(
            _unknown(
                check, ElementId.fabric(), f"speed of {int(np.count_nonzero(~known))} links is not known"
            )
        )
    return findings or [_held(check, f"all {len(speed)} links are as fast as their siblings")]


def oversubscription(fabric: Fabric) -> list[Finding]:
    """Capacity of each leaf towards hosts over that towards spines: a fact, of links that are up."""
    tiers = fabric.nodes.tier
    sender, receiver = (fabric.ports.node[fabric.directed_ports[:, end]] for end in (0, 1))
    ratios: dict[str, float] = {}
    for row in np.flatnonzero(tiers == 1):
        down = float(fabric.directed_gbps[(sender == row) & (tiers[receiver] == 0)].sum())
        up = float(fabric.directed_gbps[(sender == row) & (tiers[receiver] == 2)].sum())
        if up > 0 and down > 0:
            ratios[fabric.nodes.name[int(row)]] = round(down / up, 3)
    if not ratios:
        return []
    low, high = min(ratios.values()), max(ratios.values())
    span = f"{low:g}:1" if low == high else f"{low:g}:1 to {high:g}:1"
    what = f"{len(ratios)} leaves: {span} (host links over uplinks)"
    return [_held("oversubscription", what, {"leaves": ratios})]


def _cabled_nics(fabric: Fabric) -> dict[str, dict[int, int]]:
    """Host -> rail -> port row of its NICs with a cable."""
    return {
        host: {
            int(fabric.ports.rail[port]): port
            for port in fabric.nics(host)
            if fabric.link_of_port[port] >= 0 and fabric.ports.rail[port] >= 0
        }
        for host in fabric.hosts
    }


def _sibling_groups(fabric: Fabric) -> dict[tuple[int, int], list[int]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for directed, (out, into) in enumerate(fabric.directed_ports.tolist()):
        node, far = int(fabric.ports.node[out]), int(fabric.ports.node[into])
        if fabric.nodes.kind[node] == NodeKind.SWITCH:
            groups.setdefault((node, int(fabric.nodes.tier[far])), []).append(directed // 2)
    return groups


def _parallel_groups(fabric: Fabric) -> dict[tuple[int, ...], list[int]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for link, (a, b) in enumerate(
        zip(fabric.links.port_a.tolist(), fabric.links.port_b.tolist(), strict=True)
    ):
        groups.setdefault(tuple(sorted((int(fabric.ports.node[a]), int(fabric.ports.node[b])))), []).append(
            link
        )
    return groups


def _port_name(fabric: Fabric, port: int) -> str:
    return f"{fabric.nodes.name[int(fabric.ports.node[port])]}:{fabric.ports.name[port]}"


def _rate(fabric: Fabric, port: int) -> str:
    return format_rate(float(fabric.ports.speed_gbps[port]))


def _slow(fabric: Fabric, link: int, what: str, status: Status) -> Finding:
    ends = {
        str(fabric.port_element(port)): float(fabric.ports.speed_gbps[port]) for port in _ends(fabric, link)
    }
    return Finding(
        check="link-speed",
        status=status,
        where=fabric.link_element(link),
        what=f"nominal speed {what}",
        evidence={"ends_gbps": ends},
        fix="check cable, transceiver and configured speed of both ends",
    )


def _ends(fabric: Fabric, link: int) -> Iterable[int]:
    return int(fabric.links.port_a[link]), int(fabric.links.port_b[link])


def _held(check: str, what: str, evidence: dict[str, object] | None = None) -> Finding:
    return Finding(
        check=check, status=Status.PASS, where=ElementId.fabric(), what=what, evidence=evidence or {}
    )


def _unknown(check: str, where: ElementId, what: str) -> Finding:
    return Finding(check=check, status=Status.UNKNOWN, where=where, what=what, required=False)
