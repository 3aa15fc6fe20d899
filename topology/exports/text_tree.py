"""A tree of text, 80 columns wide, hosts and switches folded: what joins whom, at any size.

Keeps: the leaf groups and what joins them, with cables, speeds, oversubscription and what is down in sum.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from nettune.units import format_rate
from topology.columns import LinkState
from topology.exports.capacity import oversubscription, ratio_text
from topology.exports.names import counts, folded
from topology.leafgroups import leaf_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from topology.fabric import Fabric
    from topology.leafgroups import LeafGroups

WIDTH = 80


def export(fabric: Fabric) -> dict[str, str]:
    """`fabric.txt`."""
    groups = leaf_groups(fabric)
    facts = _Facts(fabric)
    lines = list(_wrapped(f"{counts(fabric)}{_rails(fabric)}", "", ""))
    top = len(groups.levels) - 1
    for index in range(len(groups.levels[-1]) if groups.levels else 0):
        lines += _branch(groups, facts, top, index, "", "")
    if groups.unattached:
        lines.append("hosts without a cable to a switch")
        lines += _wrapped(facts.names(groups.unattached), "   ", "   ")
    shown_switches = {row for level in groups.levels for cluster in level for row in cluster.switches}
    rest = [row for row in np.flatnonzero(fabric.nodes.kind == 1).tolist() if row not in shown_switches]
    under = [row for row in rest if fabric.nodes.tier[row] >= 1]
    for rows, what in (
        (under, "switches above that join nothing more"),
        ([row for row in rest if row not in set(under)], "switches that no host is under"),
    ):
        if rows:
            lines.append(what)
            lines += _wrapped(facts.names(rows), "   ", "   ")
    return {"fabric.txt": "\n".join(lines) + "\n"}


class _Facts:
    """Figures of sets of nodes."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.ratios = oversubscription(fabric)
        links, ports = fabric.links, fabric.ports
        down = links.state == LinkState.DOWN
        self.down = np.zeros(len(fabric.nodes.name), dtype=np.int64)
        for end in (links.port_a, links.port_b):
            np.add.at(self.down, ports.node[end[down]], 1)

    def names(self, rows: Sequence[int]) -> str:
        text = folded(self.fabric.nodes.name[row] for row in rows)
        return re.sub(r",\s*(?![^\[]*\])", ", ", text)  # lines may break between names, not inside brackets

    def of_switches(self, rows: Sequence[int], *, leaves: bool) -> str:
        """`leaf[0-7], 2:1, 1 cable down`."""
        parts = [self.names(rows)]
        ratio = ratio_text(self.ratios, rows) if leaves else ""
        parts += [f"hosts over uplinks {ratio}"] if ratio else []
        down = int(self.down[list(rows)].sum())
        parts += [f"{down} {'cable' if down == 1 else 'cables'} DOWN"] if down else []
        return "; ".join(part for part in parts if part)


def _branch(
    groups: LeafGroups, facts: _Facts, height: int, index: int, first: str, rest: str
) -> Iterator[str]:
    """Lines of a cluster and all below it; a cluster with a single one below is left out."""
    cluster = groups.levels[height][index]
    if len(cluster.below) == 1:
        yield from _branch(groups, facts, height - 1, cluster.below[0], first, rest)
        return
    hosts = f"{len(cluster.hosts):,} {'host' if len(cluster.hosts) == 1 else 'hosts'}"
    switches = facts.of_switches(cluster.switches, leaves=height == 0)
    own = [facts.fabric.nodes.name[row] for row in cluster.switches] == [cluster.name]
    what = switches if own else f"{folded([cluster.name])}: {switches}" if switches else cluster.name
    deeper = "" if cluster.below else f": {facts.names(cluster.hosts)}"
    yield from _wrapped(f"{what}; {hosts}{deeper}", first, f"{rest}{'│' if cluster.below else ' '}     ")
    for place, below in enumerate(cluster.below):
        last = place == len(cluster.below) - 1
        yield from _branch(
            groups,
            facts,
            height - 1,
            below,
            f"{rest}{'└─ ' if last else '├─ '}",
            f"{rest}{'   ' if last else '│  '}",
        )


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """Lines of at most WIDTH columns, broken at blanks where there are any."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [first]


def _rails(fabric: Fabric) -> str:
    host_ports = fabric.nodes.kind[fabric.ports.node] == 0
    rails = np.unique(fabric.ports.rail[host_ports & (fabric.ports.rail >= 0)])
    speeds = np.unique(fabric.ports.speed_gbps[host_ports & (fabric.ports.speed_gbps > 0)])
    told = [f"{len(rails)} {'rail' if len(rails) == 1 else 'rails'}"] if len(rails) else []
    if len(speeds):
        told.append("NICs of " + ", ".join(format_rate(float(speed)) for speed in speeds))
    return "".join(f"; {part}" for part in told)
