"""Cuts of a fabric: disjoint parts of it, and how fast bytes can leave and enter each, whatever the routing.

Any set of nodes is a valid cut: what goes from inside to outside crosses a cable that leaves the set. The sets taken
here are the ones that bind in a tiered fabric: every NIC (or host), and at every tier the connected pieces that are left
when all switches above that tier are taken away: leaves, then pods, then planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.fabric import LinkState, NodeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Disjoint sets that endpoints fall into, M of them.

    Attributes:
        level: `nic`, `host`, or `tier 1`, `tier 2`, ... by the highest switches inside.
        of_node: (N,) part of each host's node row; -1 elsewhere, and everywhere when parts are made of NICs.
        of_port: (P,) part of each NIC's port row; -1 elsewhere.
        out_gbps, in_gbps: (M,) speed of all cables that leave, and that enter; infinite where one is unknown.
        names: (M,) for tables.
        out_cables, in_cables: (M,) how many cables that are.
        inside: (P,) part that each port is inside of, on switches too; -1 outside of all.
    """

    level: str
    of_node: Ints
    of_port: Ints
    out_gbps: Floats
    in_gbps: Floats
    names: tuple[str, ...]
    out_cables: Ints
    in_cables: Ints
    inside: Ints


def nic_parts(fabric: Fabric) -> list[Parts]:
    """Every NIC, then the NICs behind each piece of the fabric, for traffic whose NICs are decided.

    Hosts do not forward, so the NICs of one host are ends of their own: a rail's leaf is a cut even where rails meet
    again in the hosts.
    """
    nics, end = _nic_ends(fabric)
    names = [str(fabric.port_element(int(row))) for row in nics]
    return _families(fabric, end, names, "nic")


def tier_parts(fabric: Fabric) -> list[Parts]:
    """The levels of `nic_parts` above the NICs themselves: cheap on fabrics of tens of thousands of NICs."""
    nics, end = _nic_ends(fabric)
    found = [
        _parts(fabric, level, tier, end, ["a NIC with no switch"] * len(nics), "nic")
        for level, tier in _levels(fabric, "nic")[1:]
    ]
    return [parts for parts in found if len(parts.names) > 1]


def _nic_ends(fabric: Fabric) -> tuple[Ints, Ints]:
    """Port rows of the NICs, and the (P,) number of each port's NIC, -1 on switches."""
    nics = np.flatnonzero(fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST)
    end = np.full(len(fabric.ports.name), -1, dtype=np.int64)
    end[nics] = np.arange(len(nics))
    return nics, end


def host_parts(fabric: Fabric) -> list[Parts]:
    """Every host, then the hosts behind each piece, for collectives that may use any NIC of a host.

    Hosts of one accelerator domain (an NVL72 rack) are one part: what they exchange need not use the network.
    """
    hosts = np.flatnonzero(fabric.nodes.kind == NodeKind.HOST)
    domain = fabric.nodes.nvl_domain[hosts]
    keys = np.where(domain >= 0, domain, domain.max(initial=-1) + 1 + np.arange(len(hosts)))
    _, first, part = np.unique(keys, return_index=True, return_inverse=True)
    of_node = np.full(len(fabric.nodes.name), -1, dtype=np.int64)
    of_node[hosts] = part
    names = [
        str(fabric.node_element(int(row)))
        if fabric.nodes.nvl_domain[row] < 0
        else f"accelerator domain {fabric.nodes.nvl_domain[row]}"
        for row in hosts[first]
    ]
    end = of_node[fabric.ports.node]
    return _families(fabric, end, names, "host")


def _families(fabric: Fabric, end: Ints, names: list[str], kind: str) -> list[Parts]:
    """All levels that cut: with all switches inside, one piece is left, unless the fabric falls apart."""
    found = [_parts(fabric, level, tier, end, names, kind) for level, tier in _levels(fabric, kind)]
    return found[:1] + [parts for parts in found[1:] if len(parts.names) > 1]


def _levels(fabric: Fabric, ends: str) -> list[tuple[str, int]]:
    """The ends alone, then every tier."""
    tiers = np.unique(fabric.nodes.tier[fabric.nodes.kind == NodeKind.SWITCH])
    return [(ends, 0)] + [(f"tier {tier}", int(tier)) for tier in tiers[tiers > 0]]


def _parts(fabric: Fabric, level: str, tier: int, end: Ints, end_names: list[str], kind: str) -> Parts:
    """Pieces that are left of the fabric with only the switches up to a tier; `end` is the end of each port, -1 none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = len(end_names)
    inside = (fabric.nodes.kind == NodeKind.SWITCH) & (fabric.nodes.tier >= 0) & (fabric.nodes.tier <= tier)
    vertex_of_node: Ints = np.where(inside, ends + np.cumsum(inside, dtype=np.int64) - 1, -1)
    vertex = np.where(end >= 0, end, vertex_of_node[fabric.ports.node])
    count = ends + int(inside.sum())
    up = fabric.links.state == LinkState.UP
    a, b = vertex[fabric.links.port_a], vertex[fabric.links.port_b]
    held = up & (a >= 0) & (b >= 0)
    graph = coo_array((np.ones(int(held.sum())), (a[held], b[held])), shape=(count, count))
    _, labels = connected_components(graph, directed=False)
    piece: Ints = labels.astype(np.int64)
    used, part_of_end = np.unique(piece[:ends], return_inverse=True)
    number = np.full(count + 1, -1, dtype=np.int64)
    number[used] = np.arange(len(used))
    # One place more than there are vertices: whatever is outside has vertex -1 and lands there.
    part = number[np.append(piece, count)][vertex]
    sender, receiver = (part[fabric.directed_ports[:, side]] for side in (0, 1))
    crosses = np.repeat(up, 2) & (sender != receiver)
    # A cable of unknown speed may be as fast as one likes; only then the bound stays a bound.
    speed = np.where(fabric.directed_gbps > 0, fabric.directed_gbps, np.inf)
    (out_gbps, out_cables), (in_gbps, in_cables) = (
        (
            np.bincount(side[rows], speed[rows], minlength=len(used)).astype(np.float64),
            np.bincount(side[rows], minlength=len(used)).astype(np.int64),
        )
        for side, rows in ((side, crosses & (side >= 0)) for side in (sender, receiver))
    )
    of_port = np.where(end >= 0, part_of_end[end], -1)
    of_node = np.full(len(fabric.nodes.name), -1, dtype=np.int64)
    if kind == "host":
        of_node[fabric.ports.node[end >= 0]] = of_port[end >= 0]
    names = tuple(end_names) if tier == 0 else _piece_names(fabric, piece, used, vertex_of_node)
    return Parts(level, of_node, of_port, out_gbps, in_gbps, names, out_cables, in_cables, part)


def _piece_names(fabric: Fabric, piece: Ints, used: Ints, vertex_of_node: Ints) -> tuple[str, ...]:
    """Each piece by its first switch and how many more it has."""
    members: dict[int, list[str]] = {int(number): [] for number in used}
    for row in np.flatnonzero(vertex_of_node >= 0):
        number = int(piece[vertex_of_node[row]])
        if number in members:
            members[number].append(str(fabric.node_element(int(row))))
    return tuple(
        "a NIC with no switch"
        if not found
        else found[0] + (f" and {len(found) - 1} more" if found[1:] else "")
        for found in members.values()
    )
