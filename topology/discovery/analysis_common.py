"""What the rules of the analysis share: majorities of groups, kinds of hosts, far ends, short findings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.discovery.voting import MIN_VOTERS
from topology.fabric import Fabric, NodeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]


_IDENTITY = re.compile(r"(?:[0-9a-f]{2}[:_.-]?){5,7}[0-9a-f]{2}$", re.IGNORECASE)


@dataclass(frozen=True)
class Majority:
    """For each of n elements, what its group says.

    Attributes:
        usual: (n,) most frequent value in the element's group.
        votes: (n,) how many elements of the group have it.
        voters: (n,) size of the group.
    """

    usual: Floats
    votes: Ints
    voters: Ints

    @property
    def decided(self) -> Bools:
        """(n,) whether at least three vote and a strict majority agrees."""
        result: Bools = (self.voters >= MIN_VOTERS) & (2 * self.votes > self.voters)
        return result


def majority(groups: Ints, values: Floats) -> Majority:
    """The vote inside each group; equal groups are equal numbers, any numbers, (n,) both."""
    if not len(groups):
        none = np.empty(0, dtype=np.int64)
        return Majority(np.empty(0), none, none)
    order = np.lexsort((values, groups))
    group, value = groups[order], values[order]
    new_group = np.r_[True, group[1:] != group[:-1]]
    starts = np.flatnonzero(new_group | np.r_[True, value[1:] != value[:-1]])
    lengths = np.diff(np.r_[starts, len(group)])
    number_of = np.cumsum(new_group) - 1
    run_group = number_of[starts]
    # the longest run of each group: runs sorted by group, then by length; the last of each group wins
    best = np.lexsort((lengths, run_group))
    winner = best[np.r_[run_group[best][1:] != run_group[best][:-1], True]]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = number_of
    sizes = np.bincount(number_of)
    return Majority(value[starts[winner]][back], lengths[winner][back], sizes[back])


def numbered(*columns: Ints) -> Ints:
    """0, 1, 2, ... for the distinct rows of columns of at least -1, (n,)."""
    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        key = key * (int(column.max(initial=0)) + 2) + column + 1
    inverse: Ints = np.unique(key, return_inverse=True)[1]
    return inverse


def far_ports(fabric: Fabric) -> Ints:
    """(P,) row of the port at the other end of each port's cable; -1 when it is empty."""
    far = np.full(len(fabric.ports.name), -1, dtype=np.int64)
    far[fabric.links.port_a] = fabric.links.port_b
    far[fabric.links.port_b] = fabric.links.port_a
    return far


def link_nodes(fabric: Fabric) -> tuple[Ints, Ints]:
    """(L,) node rows of both ends of each cable."""
    return fabric.ports.node[fabric.links.port_a], fabric.ports.node[fabric.links.port_b]


def kinds_of(names: Sequence[str]) -> list[str]:
    """The kind of each host by its name: `dgx#` of dgx007, so that login nodes are not measured by GPU nodes.

    Names out of a hardware identity alone are of one kind. Where most hosts would be alone in their kind, as with names out of random letters, all are of one kind.
    """
    stems = [
        _IDENTITY.sub("#", name) if _IDENTITY.search(name) else re.sub(r"[0-9]+", "#", name) for name in names
    ]
    sizes = Counter(stems)
    alone = sum(sizes[stem] < MIN_VOTERS for stem in stems)
    return [""] * len(names) if 2 * alone > len(names) else stems


def node_kinds(fabric: Fabric) -> Ints:
    """(N,) number of each host's kind; 0 for switches."""
    kinds = np.zeros(len(fabric.nodes.name), dtype=np.int64)
    rows = np.flatnonzero(fabric.nodes.kind == NodeKind.HOST)
    stems = kinds_of([fabric.nodes.name[row] for row in rows.tolist()])
    numbers = {stem: number for number, stem in enumerate(dict.fromkeys(stems), 1)}
    kinds[rows] = [numbers[stem] for stem in stems]
    return kinds


def port_name(fabric: Fabric, port: int) -> str:
    """`leaf0:Eth5`."""
    return f"{fabric.nodes.name[int(fabric.ports.node[port])]}:{fabric.ports.name[port]}"
