"""Findings about how a fabric forwards: next-hop groups that are smaller than others', and hashes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nettune.checks import Finding, Status, held
from nettune.elements import ElementId
from nettune.wording import some
from topology.ecmp.lint import polarization
from topology.fabric import Fabric, LinkState, NodeKind
from topology.routing import Routing


def next_hops(routing: Routing) -> list[Finding]:
    """Routers that reach a leaf by fewer next hops than their tier does, by none, by unequal ones, or by a dead link.

    A router without any link that is up is left out: `link-state` names it. A missing route is a failure of its own
    only where no link is down: else it is what a routing protocol makes of that.
    """
    check = "next-hops"
    fabric = routing.fabric
    nics = np.flatnonzero(routing.group >= 0)
    behind: dict[int, set[int]] = {}
    for port in nics.tolist():
        leaf = fabric.leaf_of(port)
        if leaf is not None:
            behind.setdefault(int(routing.group[port]), set()).add(leaf)
    routers = _routers_with_links_up(fabric)
    usual = _usual_counts(routing)
    findings = []
    for row in routers:
        problems: dict[str, list[str]] = {"dead": [], "none": [], "fewer": [], "unequal": []}
        for group, leaves in behind.items():
            if row in leaves:
                continue
            target = " and ".join(fabric.nodes.name[leaf] for leaf in sorted(leaves))
            hops = routing.table.get((row, group))
            expected = usual.get(int(fabric.nodes.tier[row]), 0)
            if hops is None:
                problems["none"].append(target)
                continue
            dead = [link for link in hops.links if fabric.links.state[link // 2] == LinkState.DOWN]
            problems["dead"] += [f"{fabric.link_element(link // 2)} towards {target}" for link in dead]
            if len(hops.links) < expected:
                problems["fewer"].append(f"{len(hops.links)} instead of {expected} towards {target}")
            if len(set(hops.weights)) > 1:
                problems["unequal"].append(f"weights {':'.join(map(str, hops.weights))} towards {target}")
        findings += _say(fabric, row, problems)
    what = f"{len(routers)} routers reach all of {len(behind)} destination groups by full groups of equal next hops"
    return findings or [held(check, what)]


def ecmp_hash(routing: Routing) -> list[Finding]:
    """Whether exact paths can be computed; where they can, whether one switch's choice was made by the one before it.

    Polarization is the rule of `topology.ecmp.lint`, which walks flows: equal seeds alone say nothing.
    """
    fabric = routing.fabric
    choosing = {row for (row, _), hops in routing.table.items() if len(hops.links) > 1}
    unknown = sorted(choosing - set(routing.hashes))
    if unknown:
        names = some((fabric.nodes.name[row] for row in unknown), 8)
        return [
            Finding(
                check="ecmp-hash",
                status=Status.UNKNOWN,
                where=fabric.node_element(unknown[0]) if len(unknown) == 1 else ElementId.fabric(),
                what=f"the hash of {len(unknown)} of {len(choosing)} routers with several next hops is not known "
                f"({names}): loads are expected values, single paths are not predicted",
                evidence={"routers": [fabric.nodes.name[row] for row in unknown]},
                required=False,
                fix="probe: `nettune discover paths`; on Linux routers set net.ipv4.fib_multipath_hash_policy=3 and a fixed "
                "fib_multipath_hash_seed, and discover again",
            )
        ]
    what = f"the hash of all {len(choosing)} routers with several next hops is known"
    if not choosing:
        what = "no router has several next hops: there is nothing to hash"
    return [held("ecmp-hash", what), *(polarization(routing) if choosing else [])]


def _usual_counts(routing: Routing) -> dict[int, int]:
    """Tier -> the most frequent size of its next-hop groups; the larger one on a tie."""
    sizes: dict[int, Counter[int]] = {}
    for (row, _), hops in routing.table.items():
        sizes.setdefault(int(routing.fabric.nodes.tier[row]), Counter())[len(hops.links)] += 1
    return {tier: max(counts, key=lambda size: (counts[size], size)) for tier, counts in sizes.items()}


def _routers_with_links_up(fabric: Fabric) -> list[int]:
    up = fabric.links.state == LinkState.UP
    nodes = np.unique(fabric.ports.node[np.concatenate([fabric.links.port_a[up], fabric.links.port_b[up]])])
    return [int(row) for row in nodes if fabric.nodes.kind[row] == NodeKind.SWITCH]


def _say(fabric: Fabric, row: int, problems: dict[str, list[str]]) -> list[Finding]:
    explained = bool(np.any(fabric.links.state == LinkState.DOWN))
    missing = Status.WARN if explained else Status.FAIL
    texts = {
        "dead": (
            Status.FAIL,
            "still sends into links that are down",
            "set ignore_routes_with_linkdown=1 or withdraw them",
        ),
        "none": (missing, "has no route to hosts below", "check the routing protocol of this router"),
        "fewer": (
            Status.WARN,
            "has fewer next hops than its tier",
            "look for a link or a session that is down",
        ),
        "unequal": (Status.WARN, "weighs its next hops unequally", "give equal links equal weights"),
    }
    findings = []
    for kind, entries in problems.items():
        if entries:
            status, text, fix = texts[kind]
            findings.append(
                Finding(
                    check="next-hops",
                    status=status,
                    where=fabric.node_element(row),
                    what=f"{text}: {some(entries, 4)}",
                    evidence={"kind": kind, "entries": entries},
                    fix=fix,
                )
            )
    return findings
