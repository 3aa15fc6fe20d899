"""Whether a ring may leave a host by another NIC than it came in (NCCL_CROSS_NIC), by how the rails are cabled.

NCCL's documentation (env.rst, NCCL_CROSS_NIC): 0 for networks of a switch for each NIC with a slow connection between the
rails, 1 where all NICs of a host are on the same switch, 2 (the default) prefers 0 and takes 1 where that is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.columns import LinkState, NodeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from topology.fabric import Fabric


def cross_nic(fabric: Fabric, rows: Mapping[str, Sequence[int]]) -> tuple[int | None, str]:
    """(0, 1, or None for NCCL's default; the reason).

    Args:
        fabric: the fabric.
        rows: port rows of each host's NICs.
    """
    if all(len(of_host) == 1 for of_host in rows.values()):
        return None, "every host has one NIC"
    leaves = {host: [fabric.leaf_of(row) for row in of_host] for host, of_host in rows.items()}
    used = sorted({leaf for of_host in leaves.values() for leaf in of_host if leaf is not None})
    if all(len(set(of_host)) == 1 for of_host in leaves.values()):
        return 1, "All NICs of a host are on one switch: another NIC is no further away, so rings may use any"
    rails: dict[int, set[int]] = {leaf: set() for leaf in used}
    for host, of_host in rows.items():
        for row, leaf in zip(of_host, leaves[host], strict=True):
            if leaf is not None:
                rails[leaf].add(int(fabric.ports.rail[row]))
    if any(of_leaf == {-1} or len(of_leaf) > 1 for of_leaf in rails.values()):
        return None, "the rails share some switches and not others, or are not told"
    names = fabric.nodes.name
    part = _parts(fabric)
    for leaf in used:
        if part[leaf] != part[used[0]]:
            return (
                0,
                f"No switches join the rails of {names[used[0]]} and {names[leaf]}: rings keep to their rail",
            )
    up, down = _capacity(fabric)
    for leaf in used:
        if 0 < up[leaf] < down[leaf]:
            return 0, (
                f"Rails meet above the leaves only, and {names[leaf]} has {up[leaf]:g} Gbit/s up for {down[leaf]:g}"
                " down: rings keep to their rail"
            )
    return None, "each rail has leaves of its own, whose uplinks carry as much as their hosts"


def _switch_links(fabric: Fabric) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(node, node, speed) of the cables that are up, of hosts too."""
    up = fabric.links.state == LinkState.UP
    ends = [fabric.ports.node[ports[up]] for ports in (fabric.links.port_a, fabric.links.port_b)]
    return ends[0], ends[1], fabric.directed_gbps[::2][up]


def _parts(fabric: Fabric) -> np.ndarray:
    """(N,) number of the part that each node is in when hosts forward nothing."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    a, b, _ = _switch_links(fabric)
    kind = fabric.nodes.kind
    inner = (kind[a] == NodeKind.SWITCH) & (kind[b] == NodeKind.SWITCH)
    shape = (len(kind),) * 2
    graph = coo_array((np.ones(int(inner.sum())), (a[inner], b[inner])), shape=shape)
    labels: np.ndarray = connected_components(graph, directed=False)[1]
    return labels


def _capacity(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """(N,) Gbit/s of each node's cables to switches, and to hosts."""
    a, b, speed = _switch_links(fabric)
    kind, count = fabric.nodes.kind, len(fabric.nodes.name)
    up, down = np.zeros(count), np.zeros(count)
    for own, far in ((a, b), (b, a)):
        to_switch = kind[far] == NodeKind.SWITCH
        np.add.at(up, own[to_switch], speed[to_switch])
        np.add.at(down, own[~to_switch], speed[~to_switch])
    return up, down
