"""Rules about tiers of switches: oversubscription, missing parallel cables, uneven uplinks, parts without connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nettune.checks import Finding, Status, held, unknown
from nettune.elements import ElementId
from nettune.wording import counted, some
from topology.discovery.analysis_common import link_nodes, majority
from topology.discovery.voting import MIN_VOTERS
from topology.fabric import Fabric, LinkState, NodeKind

if TYPE_CHECKING:
    from topology.discovery.analysis_common import Bools, Floats, Ints


@dataclass(frozen=True)
class Capacity:
    """What the cables of each node carry, (N,) each.

    Attributes:
        down: Gbit/s towards the tier below, of cables that are up; cables where no speed at all is known.
        up: the same towards the tier above.
        uplinks: cables towards the tier above, also those that are down.
        by_speed: whether `down` and `up` are speeds.
    """

    down: Floats
    up: Floats
    uplinks: Ints
    by_speed: bool

    @property
    def ratio(self) -> Floats:
        """(N,) down over up; NaN where either is 0."""
        both = (self.down > 0) & (self.up > 0)
        return np.where(both, self.down / np.where(both, self.up, 1.0), np.nan)


def capacity(fabric: Fabric) -> Capacity:
    """Capacity of each node towards the tiers next to its own."""
    ports, count = fabric.directed_ports, len(fabric.nodes.name)
    sender, receiver = fabric.ports.node[ports[:, 0]], fabric.ports.node[ports[:, 1]]
    step = fabric.nodes.tier[receiver] - fabric.nodes.tier[sender]
    placed = (fabric.nodes.tier[sender] >= 0) & (fabric.nodes.tier[receiver] >= 0)
    weight, by_speed = fabric.directed_gbps, bool(fabric.ports.speed_gbps.any())
    if not by_speed:
        weight = np.repeat((fabric.links.state == LinkState.UP).astype(np.float64), 2)
    # A reader may know a tree whose tiers are not contiguous; towards is what counts, not by how much.
    down, up = placed & (step < 0), placed & (step > 0)
    return Capacity(
        np.bincount(sender[down], weights=weight[down], minlength=count).astype(np.float64),
        np.bincount(sender[up], weights=weight[up], minlength=count).astype(np.float64),
        np.bincount(sender[up], minlength=count),
        by_speed,
    )


def oversubscription(fabric: Fabric) -> list[Finding]:
    """Capacity of switches towards hosts over that towards the tier above: a fact, tier by tier."""
    found = capacity(fabric)
    ratio, tiers = found.ratio, fabric.nodes.tier
    per_tier = {tier: ratio[(tiers == tier) & np.isfinite(ratio)] for tier in sorted(set(tiers.tolist()))}
    known = {tier: ratios for tier, ratios in per_tier.items() if tier >= 1 and len(ratios)}
    if not known:
        return []
    by = "host links over uplinks" if found.by_speed else "host cables over uplinks; speeds are not known"
    words = [f"{_switches(tier, len(ratios))}: {_span(ratios)}" for tier, ratios in known.items()]
    leaves = np.flatnonzero((tiers == 1) & np.isfinite(ratio)).tolist()
    evidence = {
        "leaves": {fabric.nodes.name[row]: round(float(ratio[row]), 3) for row in leaves},
        "tiers": {str(tier): spread(ratios) for tier, ratios in known.items()},
    }
    return [held("oversubscription", f"{'; '.join(words)} ({by})", evidence)]


def spread(ratios: Floats) -> dict[str, float]:
    """Smallest, median and largest of some ratios."""
    return {
        "min": round(float(ratios.min()), 3),
        "median": round(float(np.median(ratios)), 3),
        "max": round(float(ratios.max()), 3),
    }


def parallel_links(fabric: Fabric) -> list[Finding]:
    """Pairs of switches of neighbouring tiers with fewer cables than most pairs of one of the two.

    A pair without any cable counts where most switches that share a neighbour with the lower one have it. Without a
    plan it may be meant so: a warning.
    """
    check = "parallel-links"
    node_a, node_b = link_nodes(fabric)
    tier = fabric.nodes.tier
    between = (fabric.nodes.kind[node_a] == NodeKind.SWITCH) & (fabric.nodes.kind[node_b] == NodeKind.SWITCH)
    between &= (np.abs(tier[node_a] - tier[node_b]) == 1) & (np.minimum(tier[node_a], tier[node_b]) >= 1)
    if not between.any():
        return []
    node_a, node_b = node_a[between], node_b[between]
    upward = tier[node_b] > tier[node_a]
    low, high = np.where(upward, node_a, node_b), np.where(upward, node_b, node_a)
    pairs, cables = np.unique(np.stack([low, high], axis=1), axis=0, return_counts=True)
    low, high = pairs[:, 0], pairs[:, 1]
    usual, few = _usual_cables(low, high, cables)
    findings = []
    for row in sorted(set(high[few].tolist())):
        # A spine with too few cables to every leaf is one statement about the spine.
        own = high == row
        if few[own].all() and np.count_nonzero(own) >= MIN_VOTERS:
            words = f"{_span_of(cables[own])} cables to each of {np.count_nonzero(own)} switches below"
            findings.append(_few(fabric, row, f"{words}, others of its tier {_span_of(usual[own])}"))
            few &= ~own
    for row in sorted(set(low[few].tolist())):
        own = np.flatnonzero(few & (low == row)).tolist()
        told = [f"{cables[at]} to {fabric.nodes.name[high[at]]} (usual {usual[at]})" for at in own]
        findings.append(_few(fabric, row, f"cables: {some(told)}"))
    findings += _without_cable(fabric, _unconnected(low, high))
    if findings:
        return findings
    which = (
        "the only pair of switches has" if len(pairs) == 1 else f"all {len(pairs):,} pairs of switches have"
    )
    return [held(check, f"{which} as many cables as their like")]


def _without_cable(fabric: Fabric, lacking: list[tuple[int, list[int], tuple[int, int]]]) -> list[Finding]:
    """Of each switch what it lacks; an upper switch that many lack is one statement about it."""
    without: dict[int, list[int]] = {}
    for row, missing, _ in lacking:
        if len(missing) == 1:
            without.setdefault(missing[0], []).append(row)
    findings = []
    for row, missing, (votes, voters) in lacking:
        own = without.get(missing[0], []) if len(missing) == 1 else []
        if len(own) >= MIN_VOTERS:
            if row == own[0]:
                names = some(fabric.nodes.name[at] for at in own)
                what = f"no cable to {len(own)} switches below ({names}), which have all of its tier but it"
                below = [str(fabric.node_element(at)) for at in own]
                findings.append(replace(_few(fabric, missing[0], what), evidence={"below": below}))
            continue
        names = some(fabric.nodes.name[at] for at in missing)
        what = f"no cable to {names}; {votes} of {voters} switches with the same neighbours have one"
        findings.append(_few(fabric, row, what))
    return findings


def _usual_cables(low: Ints, high: Ints, cables: Ints) -> tuple[Ints, Bools]:
    """For each pair the usual number of cables (the larger of what both switches' pairs say), and who has fewer."""
    usual = cables.copy()
    for group in (low, high):
        said = majority(group, cables.astype(np.float64))
        usual = np.where(said.decided, np.maximum(usual, said.usual.astype(np.int64)), usual)
    return usual, cables < usual


def _unconnected(low: Ints, high: Ints) -> list[tuple[int, list[int], tuple[int, int]]]:
    """(lower switch, upper ones it lacks, votes) where a majority of its like has a larger set of neighbours."""
    order = np.argsort(low, kind="stable")
    rows, starts = np.unique(low[order], return_index=True)
    sets = [frozenset(part.tolist()) for part in np.split(high[order], starts[1:])]
    counts = Counter(sets)
    found = []
    for own in counts:
        near = {other: number for other, number in counts.items() if own & other}
        voters = sum(near.values())
        usual, votes = max(near.items(), key=lambda item: item[1])
        if voters >= MIN_VOTERS and 2 * votes > voters and own < usual:
            lacking = sorted(usual - own)
            found += [
                (int(row), lacking, (votes, voters))
                for row, one in zip(rows, sets, strict=True)
                if one == own
            ]
    return sorted(found)


def uplinks(fabric: Fabric, told: set[str]) -> list[Finding]:
    """Switches with fewer cables upwards than most of their tier.

    Args:
        fabric: the fabric.
        told: elements that a rule on pairs has named already.
    """
    check = "switch-uplinks"
    tier, counts = fabric.nodes.tier, capacity(fabric).uplinks
    rows = np.flatnonzero((fabric.nodes.kind == NodeKind.SWITCH) & (tier >= 1) & (tier < tier.max(initial=0)))
    if not len(rows):
        return []
    said = majority(tier[rows], counts[rows].astype(np.float64))
    fewer = said.decided & (counts[rows] < said.usual)
    findings = []
    for at in np.flatnonzero(fewer).tolist():
        row = int(rows[at])
        if fabric.node_element(row) not in told:
            what = f"{counted(int(counts[row]), 'uplink')}, {said.votes[at]} of {_switches(int(tier[row]), int(said.voters[at]))} have {said.usual[at]:g}"
            findings.append(_few(fabric, row, what, check))
    if fewer.any():  # also where a rule on pairs has told it
        return findings
    if not said.decided.any():
        what = (
            f"no majority of {counted(len(rows), 'switch')} below the top tier agrees on a number of uplinks"
        )
        return [unknown(check, ElementId.fabric(), f"{what}; a vote needs {MIN_VOTERS}")]
    return [held(check, f"{counted(len(rows), 'switch')}: as many uplinks as their tier")]


def connected(fabric: Fabric) -> list[Finding]:
    """Parts of the fabric between which there is no cable."""
    check = "connected"
    part = parts(fabric)
    hosts = fabric.nodes.kind == NodeKind.HOST
    sizes = Counter(part[hosts & (part >= 0)].tolist())
    if len(sizes) < 2:
        return [held(check, "all cabled hosts can reach each other")] if sizes else []
    ordered = sizes.most_common()
    smaller = [
        some(fabric.nodes.name[row] for row in np.flatnonzero(hosts & (part == number)).tolist())
        for number, _ in ordered[1:4]
    ]
    hosts_of = ", ".join(counted(number, "host") for _, number in ordered[:6])
    what = f"{len(sizes)} parts without a cable between them, of {hosts_of}; apart: {'; '.join(smaller)}"
    return [
        Finding(
            check=check,
            status=Status.WARN,
            where=ElementId.fabric(),
            what=what,
            evidence={"hosts_of_parts": [number for _, number in ordered]},
            fix="add the sources that describe the switches between them, or look for cables that are missing",
        )
    ]


def parts(fabric: Fabric) -> Ints:
    """(N,) number of the connected part of each node over all cables; -1 for a node without a cable."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    node_a, node_b = link_nodes(fabric)
    shape = (len(fabric.nodes.name),) * 2
    if not len(node_a):
        return np.full(shape[0], -1, dtype=np.int64)
    graph = coo_array((np.ones(len(node_a)), (node_a, node_b)), shape=shape)
    labels = connected_components(graph, directed=False)[1].astype(np.int64)
    cabled = np.bincount(np.concatenate([node_a, node_b]), minlength=shape[0]) > 0
    return np.where(cabled, labels, -1)


def _few(fabric: Fabric, row: int, what: str, check: str = "parallel-links") -> Finding:
    return Finding(
        check=check,
        status=Status.WARN,
        where=fabric.node_element(row),
        what=what,
        fix="look for cables that are out, or ports that are down; give the plan with --expect if it is meant so",
    )


def _switches(tier: int, number: int) -> str:
    """`31 leaves`, `1 switch of tier 2`."""
    return counted(number, "leaf", "leaves") if tier == 1 else f"{counted(number, 'switch')} of tier {tier}"


def _span(ratios: Floats) -> str:
    low, high = round(float(ratios.min()), 3), round(float(ratios.max()), 3)
    return f"{low:g}:1" if low == high else f"{low:g}:1 to {high:g}:1"


def _span_of(counts: Ints) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"
