"""Trees: NCCL's double binary tree, the binomial tree, and any other that is given by each rank's parent.

A rank of a tree sends a chunk to all its children at once; the time between levels is one round. Chunks follow each
other (`compose.pipelined`), so that every level works at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectives.schedules.compose import combine, for_op
from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError

PATTERNS = {"tree": (0, 0), "balanced": (1, 0), "split": (1, 1)}
"""Place in a node's chain of the rank that the node's first and second child hang on (see `node_tree`)."""


def btree(nodes: int) -> Ints:
    """(N,) parent of each node in NCCL's binary tree, -1 at its root, which is node 0.

    Node r with lowest set bit b hangs on (r ^ b) | 2b, or on r ^ b where that is no node, so that nodes and leaves
    alternate. Source: `ncclGetBtree` of src/graph/trees.cc, NCCL 2.30.7.
    """
    node = np.arange(nodes)
    bit = node & -node
    parent = (node ^ bit) | (bit << 1)
    parent = np.where(parent < nodes, parent, node ^ bit)
    parent[:1] = -1
    return parent


def numberings(nodes: int) -> tuple[Ints, Ints]:
    """(N,) node that plays each number of `btree`, in NCCL's first and second tree.

    The second is the mirror image for N even and shifted by one for N odd, so that a node with children in one tree
    mostly has none in the other (always for N even). Source: `ncclGetDtree` of src/graph/trees.cc, NCCL 2.30.7.
    """
    number = np.arange(nodes)
    return number, nodes - 1 - number if nodes % 2 == 0 else (number + 1) % nodes


def node_tree(number: Ints, chains: Sequence[Sequence[int]], pattern: str = "tree") -> Ints:
    """(n,) parents of ranks: `btree` over nodes, each of which is a chain of ranks.

    The first rank of a chain hangs on a rank of the parent's chain: the first (`tree`), the second for the parent's
    first child and the first for its second (`balanced`), or the second for both (`split`). A child is the first if
    its number in `btree` is below its parent's. Source: `ncclTopoPreset` and `connectTrees` of src/graph/connect.cc, NCCL
    2.30.7; unverified against a running NCCL.

    Args:
        number: (N,) node that plays each number.
        chains: ranks of each node.
        pattern: one of `PATTERNS`.

    Raises:
        InputError: no such pattern; chains that do not name every rank once.
    """
    ranks = sum(map(len, chains))
    if sorted(rank for chain in chains for rank in chain) != list(range(ranks)) or not all(map(len, chains)):
        raise InputError(f"tree: nodes are not lists that name each of 0..{ranks - 1} once")
    if pattern not in PATTERNS:
        raise InputError(f"tree: no pattern {pattern!r}; known: {', '.join(PATTERNS)}")
    found = np.full(ranks, -1, np.int64)
    for child, parent in enumerate(btree(len(chains)).tolist()):
        chain = chains[number[child]]
        found[list(chain[1:])] = chain[:-1]
        if parent >= 0:
            upper = chains[number[parent]]
            found[chain[0]] = upper[min(PATTERNS[pattern][child > parent], len(upper) - 1)]
    return found


def rerooted(parent: Ints, root: int) -> Ints:
    """The same tree with `root` taken from its parent and made the parent of the old root."""
    old = int(np.flatnonzero(parent < 0)[0])
    if root == old:
        return parent
    found = parent.copy()
    found[old], found[root] = root, -1
    return found


def tree_broadcast(parent: Ints, name: str = "tree", when: Ints | None = None) -> Schedule:
    """Broadcast of one chunk down a tree that is given by (n,) parents, -1 at the root.

    Args:
        parent: parents.
        name: of the schedule.
        when: (n,) round in which each rank receives; the depth of its parent if left out.

    Raises:
        InputError: not one root, or ranks that do not hang on it.
    """
    ranks = len(parent)
    roots = np.flatnonzero(parent < 0)
    depth = np.where(parent < 0, 0, -1)
    for level in range(ranks):
        below = np.flatnonzero((depth < 0) & (depth[parent] == level))
        if not len(below):
            break
        depth[below] = level + 1
    if len(roots) != 1 or depth.min() < 0:
        raise InputError("tree: parents must lead from every rank to one root")
    when = depth - 1 if when is None else when
    below = np.flatnonzero(parent >= 0)
    levels = [below[when[below] == number] for number in range(int(when.max()) + 1)]

    def make(number: int) -> Round:
        return Round.of(parent[levels[number]], levels[number], 0)

    return Schedule.of(Op.BROADCAST, ranks, len(levels), make, share=1.0, home=int(roots[0]), name=name)


def double_tree(
    op: Op,
    ranks: int,
    *,
    nodes: Sequence[Sequence[int]] | None = None,
    pattern: str = "tree",
    root: int | None = None,
) -> Schedule:
    """NCCL's double binary tree on two channels: half of the message over each tree.

    All-reduce goes up each tree to its root and down again. NCCL itself does not broadcast or reduce over trees; here
    both trees are hung on `root` for that (`rerooted`), a rule of ours.

    Args:
        op: all_reduce, broadcast or reduce.
        ranks: number of ranks.
        nodes: ranks of each node in the order of its chain; every rank is a node if left out.
        pattern: where the children of a node hang; see `node_tree`.
        root: of broadcast and reduce; 0 if left out.

    Raises:
        InputError: nodes that do not name every rank once; a root where there is none, or that is no rank.
    """
    if ranks < 1:
        raise InputError(f"tree: {ranks} ranks; use 1 or more")
    chains = [[rank] for rank in range(ranks)] if nodes is None else nodes
    root = 0 if root is None and op is not Op.ALL_REDUCE else root
    if root is not None and (op is Op.ALL_REDUCE or not 0 <= root < ranks):
        raise InputError(f"tree: root {root} is no rank of {ranks}, or {op} has none")
    parts = []
    for number in numberings(len(chains)):
        parents = node_tree(number, chains, pattern)
        if len(parents) != ranks:
            raise InputError(f"tree: nodes name {len(parents)} ranks of {ranks}")
        parts.append(for_op(tree_broadcast(parents if root is None else rerooted(parents, root)), op))
    return combine(parts, name="double tree")


def binomial(op: Op, ranks: int, *, root: int = 0) -> Schedule:
    """Binomial tree: ceil(log2 n) rounds, in each of which every rank that has the message sends it once.

    All-reduce is a reduce to the root and a broadcast. Source: Thakur, Rabenseifner, Gropp 2005, section 4.
    """
    if not 0 <= root < ranks:
        raise InputError(f"binomial: root {root} is no rank of {ranks}")
    place = np.arange(ranks)
    # The first round goes furthest: place p hears from p without its lowest bit.
    bit = place & -place
    levels = (ranks - 1).bit_length()
    when = levels - 1 - np.log2(np.maximum(bit, 1)).astype(np.int64)
    parent = np.full(ranks, -1, np.int64)
    parent[(place[1:] + root) % ranks] = ((place ^ bit)[1:] + root) % ranks
    return for_op(tree_broadcast(parent, "binomial", np.roll(np.where(place, when, -1), root)), op)
