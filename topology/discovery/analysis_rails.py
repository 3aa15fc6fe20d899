"""Rules about rails: NICs on another leaf than their pod's, and hosts with fewer rails than others of their kind."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nettune.checks import Finding, Status, held, unknown
from nettune.elements import ElementId
from nettune.wording import counted, some
from topology.discovery.analysis_common import far_ports, kinds_of
from topology.discovery.voting import MIN_VOTERS, Signature, Verdict, vote
from topology.fabric import Fabric, NodeKind

Lane = tuple[int, int]
"""(rail, plane) of a NIC: each goes to a leaf of its own."""


def rail_cabling(fabric: Fabric) -> list[Finding]:
    """Hosts' NICs on another leaf than their pod's, by majority vote per rail and plane."""
    check = "rail-cabling"
    nics = {host: of_host for host, of_host in cabled_nics(fabric).items() if of_host}
    lanes = sorted({lane for of_host in nics.values() for lane in of_host})
    if not lanes:
        return []  # `host_rails` tells it
    if len(lanes) < 2:
        what = "hosts have one rail: a host cabled to another leaf looks like any other of that leaf"
        return [unknown(check, ElementId.fabric(), what)]
    far = far_ports(fabric)
    signatures: dict[str, Signature] = {
        host: tuple(int(fabric.ports.node[far[of_host[lane]]]) if lane in of_host else None for lane in lanes)
        for host, of_host in nics.items()
    }
    rare = _rare(list(nics))
    findings = []
    for verdict in vote(signatures):
        host = verdict.host
        if not verdict.wrong or host in rare:
            why = "hosts of its kind are too few to compare it with" if verdict.wrong else verdict.why
            findings.append(unknown(check, ElementId.host(host), f"its rails differ from others': {why}"))
            continue
        for place, leaf in verdict.wrong.items():
            findings.append(_miswired(fabric, verdict, lanes[place], nics[host][lanes[place]], leaf))
    if findings:
        return findings
    if len(signatures) < MIN_VOTERS:
        what = f"{counted(len(signatures), 'host')} with a cable; a vote needs {MIN_VOTERS}"
        return [unknown(check, ElementId.fabric(), what)]
    pods = len({one for one in signatures.values() if None not in one}) or len(set(signatures.values()))
    what = f"{counted(len(signatures), 'host')} with {len(lanes)} rails are cabled alike in {counted(pods, 'pod')}"
    return [held(check, what)]


def _miswired(fabric: Fabric, verdict: Verdict, lane: Lane, port: int, leaf: int) -> Finding:
    is_on = fabric.nodes.name[int(fabric.ports.node[far_ports(fabric)[port]])]
    should = fabric.nodes.name[leaf]
    rail, plane = lane
    of_plane = f" of plane {plane}" if plane >= 0 else ""
    return Finding(
        check="rail-cabling",
        status=Status.FAIL,
        where=fabric.port_element(port),
        what=f"rail {rail}{of_plane} is cabled to {is_on}; it should be on {should}, as "
        f"{verdict.votes[0]} of {verdict.votes[1]} hosts of its pod are",
        evidence={
            "is_on": is_on,
            "should_be_on": should,
            "votes": list(verdict.votes),
            "pod": verdict.why,
        },
        fix=f"move the cable of {verdict.host}:{fabric.ports.name[port]} to {should}",
    )


def _rare(hosts: list[str]) -> set[str]:
    """Hosts of a kind with fewer than three, beside other kinds: a fabric manager among GPU nodes."""
    kinds = kinds_of(hosts)
    sizes = Counter(kinds)
    return {
        host for host, kind in zip(hosts, kinds, strict=True) if len(sizes) > 1 and sizes[kind] < MIN_VOTERS
    }


def host_rails(fabric: Fabric) -> list[Finding]:
    """Hosts with fewer cabled NICs than most of their kind."""
    check = "host-rails"
    nics = cabled_nics(fabric)
    if not nics:
        return [unknown(check, ElementId.fabric(), "no host is known")]
    if not any(nics.values()):
        return [unknown(check, ElementId.fabric(), "no cable of a host's rail is known")]
    findings: list[Finding] = []
    if silent := [host for host in _without_cable_sources(fabric) if not nics[host]]:
        nics = {host: of_host for host, of_host in nics.items() if host not in silent}
        known = "host is" if len(silent) == 1 else "hosts are"
        what = f"{len(silent)} {known} known from sources without cables only: {some(silent)}"
        findings.append(unknown(check, ElementId.fabric(), what, {"hosts": silent}))
    nameless = _cabled_without_rail(fabric)
    kinds: dict[str, dict[str, dict[Lane, int]]] = {}
    for kind, (host, of_host) in zip(kinds_of(list(nics)), nics.items(), strict=True):
        kinds.setdefault(kind, {})[host] = of_host
    usual: list[int | None] = []
    rare: list[str] = []
    for kind, members in kinds.items():
        if len(kinds) > 1 and len(members) < MIN_VOTERS:
            rare += [f"{host} with {len(of_host)}" for host, of_host in members.items()]
            continue
        found, rails = _fewer_rails(check, members, f" of kind {kind}" if len(kinds) > 1 else "", nameless)
        findings += _of_whole_pods(fabric, found, nics)
        usual.append(rails)
    if rare:
        what = f"{counted(len(rare), 'host')} of kinds too rare to compare their rails: {some(rare)}"
        findings.append(unknown(check, ElementId.fabric(), what, {"hosts": rare}))
    if findings:
        return findings
    if len(usual) == 1:
        have = counted(usual[0] or 0, "rail")
        return [
            held(check, f"all {len(nics)} hosts have {have}" if len(nics) > 1 else f"the host has {have}")
        ]
    return [held(check, f"all {len(nics)} hosts have as many rails as others of their kind: {usual}")]


def _cabled_without_rail(fabric: Fabric) -> Counter[str]:
    """Host -> cabled NICs whose rail nobody tells."""
    ports = fabric.ports
    rows = np.flatnonzero(
        (fabric.link_of_port >= 0) & (ports.rail < 0) & (fabric.nodes.kind[ports.node] == NodeKind.HOST)
    )
    return Counter(fabric.nodes.name[node] for node in ports.node[rows].tolist())


def _of_whole_pods(fabric: Fabric, found: list[Finding], nics: dict[str, dict[Lane, int]]) -> list[Finding]:
    """Hosts that share their leaves and all lack the same rails: that is one statement about what they share."""
    far = far_ports(fabric)
    leaves = {
        host: frozenset(int(fabric.ports.node[far[port]]) for port in of_host.values())
        for host, of_host in nics.items()
    }
    users = Counter(leaf for own in leaves.values() for leaf in own)
    groups: dict[tuple[frozenset[int], tuple[int, ...]], list[Finding]] = {}
    for finding in found:
        if finding.status is Status.FAIL:
            key = leaves[finding.where.node or ""], tuple(finding.evidence["missing"])
            groups.setdefault(key, []).append(finding)
    result = [finding for finding in found if finding.status is not Status.FAIL]
    for (own, missing), findings in groups.items():
        hosts = [finding.where.node or "" for finding in findings]
        if len(hosts) < MIN_VOTERS or not missing or any(users[leaf] > len(hosts) for leaf in own):
            result += findings
            continue
        rails = ", ".join(map(str, missing))
        names = some(sorted(fabric.nodes.name[leaf] for leaf in own))
        result.append(
            Finding(
                check="host-rails",
                status=Status.FAIL,
                where=ElementId.fabric(),
                what=f"all {len(hosts)} hosts on {names} lack rail {rails}: its leaf is down, or the sources leave it out",
                evidence={"hosts": hosts, "missing": list(missing)},
                fix="look for the leaf of that rail, or give the source that describes it",
            )
        )
    return result


def _without_cable_sources(fabric: Fabric) -> list[str]:
    """Hosts that no source speaks of which speaks of cables: it may call them otherwise, or not have looked."""
    told = [set(line.split(" + ")) for line in fabric.provenance]
    with_cables = {name for row in np.unique(fabric.links.source).tolist() if row >= 0 for name in told[row]}
    sources = fabric.nodes.source.tolist()
    return [
        fabric.nodes.name[row]
        for row in np.flatnonzero(fabric.nodes.kind == NodeKind.HOST).tolist()
        if sources[row] >= 0 and with_cables and told[sources[row]].isdisjoint(with_cables)
    ]


def _fewer_rails(
    check: str, nics: dict[str, dict[Lane, int]], of_kind: str, nameless: Counter[str]
) -> tuple[list[Finding], int | None]:
    counts = Counter(len(of_host) for of_host in nics.values())
    usual, voters = counts.most_common(1)[0]
    if 2 * voters <= len(nics) and len(counts) > 1:
        told = ", ".join(f"{rails} rails: {hosts}" for rails, hosts in sorted(counts.items()))
        return [unknown(check, ElementId.fabric(), f"hosts{of_kind} have {told}; no majority")], None
    common = {
        lane
        for lane, hosts in Counter(lane for of in nics.values() for lane in of).items()
        if 2 * hosts > len(nics)
    }
    findings = []
    for host, of_host in nics.items():
        if len(of_host) < usual:
            missing = sorted({rail for rail, _ in common - set(of_host)})
            if len(of_host) + nameless[host] >= usual:
                cabled = counted(nameless[host], "cabled NIC")
                what = f"no source tells the rail of {cabled}; others{of_kind} have {counted(usual, 'rail')}"
                findings.append(unknown(check, ElementId.host(host), what))
                continue
            findings.append(
                Finding(
                    check=check,
                    status=Status.FAIL,
                    where=ElementId.host(host),
                    what=f"{counted(len(of_host), 'rail')}, {voters} of {len(nics)} hosts{of_kind} have {usual}; missing: "
                    f"{', '.join(f'rail {rail}' for rail in missing) or 'not told apart'}",
                    evidence={"rails": len(of_host), "usual": usual, "missing": missing},
                    fix="look for a NIC that is absent, without address or not cabled",
                )
            )
    return findings, usual


def cabled_nics(fabric: Fabric) -> dict[str, dict[Lane, int]]:
    """Host -> (rail, plane) -> port row of its NICs with a rail and a cable, all hosts in row order."""
    ports = fabric.ports
    rows = np.flatnonzero(
        (fabric.link_of_port >= 0) & (ports.rail >= 0) & (fabric.nodes.kind[ports.node] == NodeKind.HOST)
    )
    found: dict[str, dict[Lane, int]] = {host: {} for host in fabric.hosts}
    columns = (ports.node[rows], ports.rail[rows], ports.plane[rows], rows)
    for node, rail, plane, row in zip(*(column.tolist() for column in columns), strict=True):
        found[fabric.nodes.name[node]][rail, plane] = row
    return found
