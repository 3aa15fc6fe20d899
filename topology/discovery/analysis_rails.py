"""Rules about rails: NICs on another leaf than their pod's, and hosts with fewer rails than others of their kind."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.discovery.analysis_common import far_ports, held, kinds_of, some, unknown
from topology.discovery.voting import MIN_VOTERS, Signature, vote
from topology.fabric import Fabric, NodeKind

Lane = tuple[int, int]
"""(rail, plane) of a NIC: each goes to a leaf of its own."""


def rail_cabling(fabric: Fabric) -> list[Finding]:
    """Hosts' NICs on another leaf than their pod's, by majority vote per rail and plane."""
    check = "rail-cabling"
    nics = cabled_nics(fabric)
    lanes = sorted({lane for of_host in nics.values() for lane in of_host})
    if len(lanes) < 2:
        what = (
            f"hosts have {len(lanes)} rail: a host cabled to another leaf looks like any other of that leaf"
        )
        return [unknown(check, ElementId.fabric(), what)]
    far = far_ports(fabric)
    place_of = {lane: place for place, lane in enumerate(lanes)}
    signatures: dict[str, Signature] = {}
    for host, of_host in nics.items():
        leaves: list[int | None] = [None] * len(lanes)
        for lane, port in of_host.items():
            leaves[place_of[lane]] = int(fabric.ports.node[far[port]])
        signatures[host] = tuple(leaves)
    findings = []
    for verdict in vote(signatures):
        if not verdict.wrong:
            findings.append(
                unknown(check, ElementId.host(verdict.host), f"its rails differ from others': {verdict.why}")
            )
        for place, leaf in verdict.wrong.items():
            port = nics[verdict.host][lanes[place]]
            is_on, should = fabric.nodes.name[int(fabric.ports.node[far[port]])], fabric.nodes.name[leaf]
            rail, plane = lanes[place]
            of_plane = f" of plane {plane}" if plane >= 0 else ""
            findings.append(
                Finding(
                    check=check,
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
            )
    if findings:
        return findings
    if len(signatures) < MIN_VOTERS:
        return [unknown(check, ElementId.fabric(), f"{len(signatures)} hosts; a vote needs {MIN_VOTERS}")]
    pods = len(set(signatures.values()))
    return [held(check, f"{len(signatures)} hosts with {len(lanes)} rails are cabled alike in {pods} pods")]


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
        what = f"{len(silent)} hosts are known from sources without cables only: {some(silent)}"
        findings.append(unknown(check, ElementId.fabric(), what, {"hosts": silent}))
    kinds: dict[str, dict[str, dict[Lane, int]]] = {}
    for kind, (host, of_host) in zip(kinds_of(list(nics)), nics.items(), strict=True):
        kinds.setdefault(kind, {})[host] = of_host
    usual: list[int | None] = []
    rare: list[str] = []
    for kind, members in kinds.items():
        if len(kinds) > 1 and len(members) < MIN_VOTERS:
            rare += [f"{host} with {len(of_host)}" for host, of_host in members.items()]
            continue
        found, rails = _fewer_rails(check, members, f" of kind {kind}" if len(kinds) > 1 else "")
        findings += found
        usual.append(rails)
    if rare:
        what = f"{len(rare)} hosts of kinds too rare to compare their rails: {some(rare)}"
        findings.append(unknown(check, ElementId.fabric(), what, {"hosts": rare}))
    if findings:
        return findings
    counted = f"{usual[0]} rails" if len(usual) == 1 else f"as many rails as others of their kind: {usual}"
    return [held(check, f"all {len(nics)} hosts have {counted}")]


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
    check: str, nics: dict[str, dict[Lane, int]], of_kind: str
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
            findings.append(
                Finding(
                    check=check,
                    status=Status.FAIL,
                    where=ElementId.host(host),
                    what=f"{len(of_host)} rails, {voters} of {len(nics)} hosts{of_kind} have {usual}; missing: "
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
