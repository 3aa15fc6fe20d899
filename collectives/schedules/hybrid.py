"""Ring and tree at once: a share of the message over ring channels, the rest over tree channels.

NCCL cannot do this in one communicator (`NCCL_ALGO` is one for a call); two communicators on two streams can. Both
halves use the same NICs, so that the gain is bounded by what the links have left; `collectives.cost` chooses x.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives.schedules.compose import combine, over_channels, pipelined
from collectives.schedules.ring import Orders, ring_all_reduce
from collectives.schedules.schedule import Op, Schedule
from collectives.schedules.tree import double_tree
from nettune.errors import InputError


def hybrid(
    ranks: int,
    x: float,
    *,
    ring_channels: int = 1,
    tree_channels: int = 1,
    tree_chunks: int = 1,
    orders: Orders | None = None,
    nodes: Sequence[Sequence[int]] | None = None,
    pattern: str = "tree",
) -> Schedule:
    """All-reduce of x of the message by rings and 1 - x by double trees, starting together.

    Args:
        ranks: number of ranks.
        x: 0 (trees only) to 1 (rings only).
        ring_channels: copies of each ring; they are channels 0 .. of the result.
        tree_channels: copies of the double tree, of two channels each.
        tree_chunks: parts of the trees' share that follow each other.
        orders: of the rings, see `ring.ring_all_gather`.
        nodes: of the trees, see `tree.double_tree`.
        pattern: of the trees.

    Raises:
        InputError: x outside 0 to 1; what the two builders refuse.
    """
    if not 0 <= x <= 1:
        raise InputError(f"hybrid: share x = {x:g} is not between 0 and 1")
    ring = ring_all_reduce(ranks, channels=ring_channels, orders=orders)
    tree = double_tree(Op.ALL_REDUCE, ranks, nodes=nodes, pattern=pattern)
    tree = pipelined(over_channels(tree, tree_channels), tree_chunks)
    parts = [(part, share) for part, share in ((ring, x), (tree, 1 - x)) if share > 0]
    name = f"hybrid: {x:.4g} {ring.name}, {1 - x:.4g} {tree.name}"
    return combine([part for part, _ in parts], [share for _, share in parts], name=name)
