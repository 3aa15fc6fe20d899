"""Slurm's tree plugin: the lowest switch that fits, the leaves that fit best, ranks by leaf and hostname.

Ranks follow the leaf's number, which is its place in topology.conf, then the host's (`topology_g_get_rank` of
topology/tree: leaf index << 16). Siblings in the tree above the leaves are not looked at. How hosts are chosen
(`_eval_nodes_topo` of select/cons_tres: the smallest switch that has enough; in it the tightest leaf that is enough, else the
largest, until there is enough) is from memory of that source, unverified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.naming import natural_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem


def order(problem: Problem) -> NDArray[np.int64]:
    """(units,) slot of each unit.

    topology.conf is taken to list the leaves by name. On rail fabrics a leaf is a leaf group, whose switches follow the name
    of the first.
    """
    path = problem.clusters[problem.slots[:, 0]]
    inside = np.ones(len(path), dtype=np.bool_)
    for level in range(path.shape[1]):
        sizes = np.bincount(path[:, level] + 1)[1:]
        enough = np.flatnonzero(sizes >= problem.units)
        if len(enough):
            inside = path[:, level] == enough[np.argmin(sizes[enough])]
            break
    left = {
        int(leaf): np.flatnonzero(inside & (path[:, 0] == leaf)).tolist()
        for leaf in np.unique(path[inside, 0])
    }
    chosen: list[int] = []
    while len(chosen) < problem.units:
        missing = problem.units - len(chosen)
        fits = [leaf for leaf in left if len(left[leaf]) >= missing]
        leaf = (
            min(fits, key=lambda one: len(left[one])) if fits else max(left, key=lambda one: len(left[one]))
        )
        chosen += left.pop(leaf)[:missing]
    names = problem.routing.fabric.nodes.name
    leaf_key = [
        min((natural_key(names[switch]) for switch in group.switches), default=natural_key(group.name))
        for group in problem.tree.groups
    ]
    none = natural_key("")
    chosen.sort(
        key=lambda slot: (
            leaf_key[path[slot, 0]] if path[slot, 0] >= 0 else none,
            natural_key(problem.hosts[int(problem.slots[slot, 0])]),
        )
    )
    rest = np.setdiff1d(np.arange(len(problem.slots)), chosen)
    return problem.fill(np.concatenate([np.array(chosen, dtype=np.int64), rest]))
