"""`LeafGroups`: the tree that schedulers want, out of a fabric in which a host may hang under several leaves.

A rail fabric cables each host to one leaf a rail, so no switch holds a host alone. Leaves that serve the same hosts
are one **leaf group**, groups under the same spines one **pod**, and so on up to one root. A host is in exactly one
cluster of each level, whatever its cables say: the many decide, and a host with a missing or a wrong cable goes with
the group that most of its leaves belong to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from topology.columns import NodeKind
from topology.naming import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from topology.fabric import Fabric

_MADE_UP = ("group", "pod", "zone")


@dataclass(frozen=True)
class Cluster:
    """Hosts that are near each other.

    Attributes:
        name: its switch's name where it has one switch, else a made-up one (`group0`, `pod0`, `root`) that no node has.
        hosts: node rows, in natural order of the hosts' names.
        switches: node rows of the switches that join them; a switch belongs to one cluster of one level.
        below: indices of its clusters in the level below; empty at the lowest level.
    """

    name: str
    hosts: tuple[int, ...]
    switches: tuple[int, ...]
    below: tuple[int, ...]


@dataclass(frozen=True)
class LeafGroups:
    """Levels of clusters, leaf groups first; a level that joins nothing is left out.

    Attributes:
        levels: each in depth-first order from the top, so that siblings stand together. The last level has a single
            cluster, unless parts of the fabric have no cable between them.
        unattached: node rows of hosts without a cable to a switch; they are in no cluster.
    """

    levels: tuple[tuple[Cluster, ...], ...]
    unattached: tuple[int, ...]

    @property
    def groups(self) -> tuple[Cluster, ...]:
        """The leaf groups."""
        return self.levels[0] if self.levels else ()

    @cached_property
    def paths(self) -> dict[int, tuple[int, ...]]:
        """Host row -> index of its cluster in each level, leaf group first."""
        found: dict[int, tuple[int, ...]] = {}
        for level in self.levels:
            for index, cluster in enumerate(level):
                found.update({host: (*found.get(host, ()), index) for host in cluster.hosts})
        return found


def leaf_groups(fabric: Fabric) -> LeafGroups:
    """The clusters of a fabric. Cables that are down count: they say where a host stands."""
    names = fabric.nodes.name
    by_name = sorted(range(len(names)), key=lambda row: (natural_key(names[row]), names[row]))
    place = {row: index for index, row in enumerate(by_name)}
    hosts = [row for row in by_name if fabric.nodes.kind[row] == NodeKind.HOST]
    near = _switches_near(fabric)
    attached = [host for host in hosts if near[host]]
    levels = _climb([(host,) for host in attached], near)
    unattached = tuple(host for host in hosts if not near[host])
    return LeafGroups(_in_order(levels, names, place), unattached)


@dataclass
class _Part:
    """A cluster that is being built: its items of the level below, all its hosts, its switches."""

    items: list[int]
    hosts: list[int]
    switches: list[int]


def _switches_near(fabric: Fabric) -> list[list[int]]:
    """Switches that each node is cabled to, without repeats, in order of the node's ports."""
    ports = fabric.directed_ports
    ends = fabric.ports.node[ports[np.argsort(ports[:, 0], kind="stable")]]
    to_switch = (fabric.nodes.kind[ends[:, 1]] == NodeKind.SWITCH) & (ends[:, 0] != ends[:, 1])
    found: list[dict[int, None]] = [{} for _ in fabric.nodes.name]
    for node, far in ends[to_switch].tolist():
        found[node][far] = None
    return [list(switches) for switches in found]


def _climb(items: Sequence[tuple[int, ...]], near: Sequence[Sequence[int]]) -> list[list[_Part]]:
    """Join items that share switches, then what is joined by the switches above those, until nothing is above."""
    levels: list[list[_Part]] = []
    seen: set[int] = set()
    held = list(items)  # hosts of each item
    switches = [near[host] for (host,) in items]
    while any(switches):
        parts = _joined(held, switches)
        seen.update(switch for part in parts for switch in part.switches)
        if not levels or len(parts) < len(held):
            levels.append(parts)
            held = [tuple(part.hosts) for part in parts]
            owned = [part.switches for part in parts]
        else:
            owned = [part.switches for part in sorted(parts, key=lambda part: part.items[0])]
        switches = [_above(own, near, seen) for own in owned]
    if len(held) > 1 and levels:
        parts = _connected(levels[-1], near)
        if len(parts) < len(held):
            levels.append(parts)
    return levels


def _above(switches: Iterable[int], near: Sequence[Sequence[int]], seen: set[int]) -> list[int]:
    return list(dict.fromkeys(far for switch in switches for far in near[switch] if far not in seen))


def _joined(held: Sequence[tuple[int, ...]], switches: Sequence[Sequence[int]]) -> list[_Part]:
    """Items whose sets of switches are alike: at least half of the smaller set is shared with the more frequent one."""
    alike: dict[frozenset[int], list[int]] = {}
    for item, of_item in enumerate(switches):
        # an item without switches is alike with nothing; no switch has a negative row
        alike.setdefault(frozenset(of_item or (-1 - item,)), []).append(item)
    weight = {near: sum(len(held[item]) for item in of_set) for near, of_set in alike.items()}
    cores: list[frozenset[int]] = []
    cores_with: dict[int, list[int]] = {}
    members: list[list[int]] = []
    for near in sorted(alike, key=lambda near: (-weight[near], alike[near][0])):
        shared = Counter(core for switch in near for core in cores_with.get(switch, ()))
        fit = [core for core, count in shared.items() if 2 * count >= min(len(near), len(cores[core]))]
        if fit:
            first = switches[alike[near][0]][0]
            best = max(fit, key=lambda core: (shared[core], first in cores[core], -core))
            members[best] += alike[near]
            continue
        for switch in near:
            cores_with.setdefault(switch, []).append(len(cores))
        cores.append(near)
        members.append(list(alike[near]))
    parts = [
        _Part(sorted(items), [host for item in sorted(items) for host in held[item]], []) for items in members
    ]
    votes: dict[int, Counter[int]] = {}
    for index, part in enumerate(parts):
        for item in part.items:
            for switch in switches[item]:
                votes.setdefault(switch, Counter())[index] += len(held[item])
    for switch, count in votes.items():
        parts[max(count, key=lambda index: (count[index], -index))].switches.append(switch)
    return parts


def _connected(below: Sequence[_Part], near: Sequence[Sequence[int]]) -> list[_Part]:
    """Clusters that any cables join, however few: what the levels so far kept apart."""
    owner = {host: index for index, part in enumerate(below) for host in part.hosts}
    reached: dict[int, int] = {}  # switch -> root cluster of its piece
    parent = list(range(len(below)))

    def top(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for host, index in owner.items():
        todo = list(near[host])
        while todo:
            switch = todo.pop()
            if switch in reached:
                parent[top(reached[switch])] = top(index)
                continue
            reached[switch] = index
            todo += near[switch]
    pieces: dict[int, list[int]] = {}
    for index in range(len(below)):
        pieces.setdefault(top(index), []).append(index)
    return [
        _Part(items, [host for item in items for host in below[item].hosts], []) for items in pieces.values()
    ]


def _in_order(
    levels: Sequence[Sequence[_Part]], names: Sequence[str], place: Mapping[int, int]
) -> tuple[tuple[Cluster, ...], ...]:
    """Sort from the top by the hosts' names and give names."""
    if not levels:
        return ()
    first = [[min(place[host] for host in part.hosts) for part in level] for level in levels]
    order = [sorted(range(len(levels[-1])), key=first[-1].__getitem__)]
    for height in range(len(levels) - 1, 0, -1):
        key = first[height - 1].__getitem__
        order.append([item for part in order[-1] for item in sorted(levels[height][part].items, key=key)])
    order.reverse()
    taken = set(names)
    found = []
    for height, (level, rows) in enumerate(zip(levels, order, strict=True)):
        below = {old: new for new, old in enumerate(order[height - 1])} if height else {}
        stem = "root" if len(level) == 1 and height else (*_MADE_UP, f"level{height}-")[min(height, 3)]
        clusters = []
        for number, row in enumerate(rows):
            part = level[row]
            made_up = stem if stem == "root" else f"{stem}{number}"
            while made_up in taken:
                made_up += "x"
            clusters.append(
                Cluster(
                    names[part.switches[0]] if len(part.switches) == 1 else made_up,
                    tuple(sorted(part.hosts, key=place.__getitem__)),
                    tuple(sorted(part.switches, key=place.__getitem__)),
                    tuple(sorted(below[item] for item in part.items)) if height else (),
                )
            )
        found.append(tuple(clusters))
    return tuple(found)
