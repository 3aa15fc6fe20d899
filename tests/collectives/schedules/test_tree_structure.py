"""NCCL's trees node by node, and how many edges cross leaves for the host orders that people use."""

from __future__ import annotations

import numpy as np
import pytest

from collectives.schedules import build
from collectives.schedules.tree import btree, node_tree, numberings, rerooted, tree_broadcast
from nettune.errors import InputError


def parents(nodes: int) -> tuple[list[int], list[int]]:
    """Both trees over nodes of one rank."""
    first, second = (node_tree(number, [[node] for node in range(nodes)]) for number in numberings(nodes))
    return first.tolist(), second.tolist()


def from_children(root: int, children: dict[int, tuple[int, ...]], nodes: int) -> list[int]:
    found = [-2] * nodes
    found[root] = -1
    for parent, those in children.items():
        for child in those:
            found[child] = parent
    return found


@pytest.mark.parametrize(
    ("nodes", "first", "second"),
    [
        # By hand from the rule: lowest set bit b, parent (r ^ b) | 2b, or r ^ b where that is out of range; then the
        # mirror image (even) or the shift by one (odd).
        (1, [-1], [-1]),
        (2, [-1, 0], [1, -1]),
        (3, [-1, 2, 0], [1, -1, 0]),
        (4, [-1, 2, 0, 2], [1, 3, 1, -1]),
        (5, [-1, 2, 4, 2, 0], [1, -1, 3, 0, 3]),
        (6, [-1, 2, 4, 2, 0, 4], [1, 5, 3, 1, 3, -1]),
        (8, [-1, 2, 4, 2, 0, 6, 4, 6], [1, 3, 1, 7, 5, 3, 5, -1]),
    ],
)
def test_small_trees(nodes, first, second):
    """Parents at every node of both trees."""
    assert parents(nodes) == (first, second)


def test_trees_that_nccl_draws():
    """The pictures in the comments of src/graph/trees.cc: 14 nodes, both trees of 12 and of 13."""
    lower = {4: (2,), 2: (1, 3), 6: (5, 7), 10: (9, 11)}
    low = {**lower, 0: (8,), 4: (2, 6)}
    assert btree(14).tolist() == from_children(0, {**low, 8: (4, 12), 12: (10, 13)}, 14)
    first, second = parents(12)
    assert first == from_children(0, {**low, 8: (4, 10)}, 12)
    mirrored = {11: (3,), 3: (1, 7), 1: (0, 2), 7: (5, 9), 5: (4, 6), 9: (8, 10)}
    assert second == from_children(11, mirrored, 12)
    first, second = parents(13)
    assert first == from_children(0, {**low, 8: (4, 12), 12: (10,)}, 13)
    shifted = {1: (9,), 9: (5, 0), 5: (3, 7), 3: (2, 4), 7: (6, 8), 0: (11,), 11: (10, 12)}
    assert second == from_children(1, shifted, 13)


@pytest.mark.parametrize("nodes", range(2, 131, 2))
def test_a_node_works_in_one_tree_only(nodes):
    """Even N: a node with children in one tree is a leaf of the other, so that nobody sends more than twice its half."""
    first, second = parents(nodes)
    assert not set(first) & set(second) - {-1}
    assert max(np.bincount(np.array(first)[np.array(first) >= 0])) <= 2


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        # Nodes of ranks (3n, 3n+1, 3n+2); btree of 4: 2 under 0 (second child), 1 (first) and 3 (second) under 2.
        ("tree", [-1, 0, 1, 6, 3, 4, 0, 6, 7, 6, 9, 10]),
        ("balanced", [-1, 0, 1, 7, 3, 4, 0, 6, 7, 6, 9, 10]),
        ("split", [-1, 0, 1, 7, 3, 4, 1, 6, 7, 7, 9, 10]),
    ],
)
def test_nodes_are_chains(pattern, wanted):
    """Inside a node each rank hangs on the one before it; children hang where the pattern says."""
    chains = [[3 * node, 3 * node + 1, 3 * node + 2] for node in range(4)]
    assert node_tree(numberings(4)[0], chains, pattern).tolist() == wanted


def test_a_child_is_first_or_second_by_its_number_in_the_unshifted_tree():
    """13 nodes shifted: node 11 is the first child of node 0 (they play 10 and 12), whatever their own numbers say."""
    chains = [[2 * node, 2 * node + 1] for node in range(13)]
    tree = node_tree(numberings(13)[1], chains, "balanced")
    assert tree[2 * 11] == 1
    assert tree[2 * 12] == 2 * 11


def test_a_tree_can_hang_on_any_rank():
    """The root is taken from its parent and the old root hangs on it."""
    assert rerooted(btree(6), 2).tolist() == [2, 2, -1, 2, 0, 4]
    for root in range(6):
        tree_broadcast(rerooted(btree(6), root)).check()


@pytest.mark.parametrize("parent", [[-1, -1], [1, 0], [-1, 2, 1]])
def test_what_is_no_tree_is_refused(parent):
    """Two roots, none, or ranks that hang on themselves."""
    with pytest.raises(InputError, match="one root"):
        tree_broadcast(np.array(parent))


def crossing(algorithm: str, order: np.ndarray, per_leaf: int) -> int:
    """Edges of a ring, or of both trees, whose ends are under different leaves; `order` is the host of each rank."""
    edges = build(algorithm, "all_reduce", len(order)).channel_edges
    ends = np.sort(np.stack([edges.src, edges.dst]), axis=0)
    pairs = np.unique(np.concatenate([ends, edges.channel[None]]), axis=1)
    leaf = order[pairs[:2]] // per_leaf
    return int(np.sum(leaf[0] != leaf[1]))


@pytest.mark.parametrize(
    ("hosts", "leaves", "algorithm", "depth_first", "by_name", "random", "cyclic"),
    [
        (128, 8, "ring", 8, 29, 112.6, 128),
        (128, 8, "double_tree", 22, 79, 223.7, 224),
        (64, 4, "ring", 4, 14, 49, 64),
        (64, 4, "double_tree", 10, 43, 96, 96),
    ],
)
def test_edges_that_cross_leaves(hosts, leaves, algorithm, depth_first, by_name, random, cyclic):
    """Hosts node0, node1, ... of contiguous leaves: in order, sorted by name (torchrun), at random, dealt out in turn."""
    per_leaf = hosts // leaves
    in_order = np.arange(hosts)
    assert crossing(algorithm, in_order, per_leaf) == depth_first
    sorted_by_name = np.array(sorted(range(hosts), key=lambda host: f"node{host}"))
    assert crossing(algorithm, sorted_by_name, per_leaf) == by_name
    assert crossing(algorithm, in_order.reshape(leaves, per_leaf).T.ravel(), per_leaf) == cyclic
    draw = np.random.default_rng(3)
    counts = [crossing(algorithm, draw.permutation(hosts), per_leaf) for _ in range(25)]
    error = np.std(counts) / np.sqrt(len(counts))
    edges = hosts if algorithm == "ring" else 2 * (hosts - 1)
    exact = edges * (hosts - per_leaf) / (hosts - 1)
    assert abs(np.mean(counts) - exact) < 4 * error
    assert abs(exact - random) < 0.5
