"""All-to-all: every rank has a chunk for every rank. The message size is what one rank has for all.

Chunk a * n + b goes from rank a to rank b; what a rank keeps for itself is a chunk that is not sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from collectives.schedules.groups import Groups, group_table
from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError


def pairwise(ranks: int) -> Schedule:
    """n-1 rounds; in round t rank r sends to r + t and receives from r - t: (n-1)/n of the message each way.

    Source: Thakur, Rabenseifner, Gropp 2005, section 4.3 (the version for any n). NCCL 2.30.7 issues the same pairs in an
    order of its own (by node, then local rank), and several at once.
    """
    if ranks < 1:
        raise InputError(f"pairwise: {ranks} ranks; use 1 or more")
    rank = np.arange(ranks)

    def make(number: int) -> Round:
        to = (rank + number + 1) % ranks
        return Round.of(rank, to, rank * ranks + to)

    return _all_to_all(ranks, ranks - 1, make, "pairwise")


def two_step(ranks: int, *, groups: Groups) -> Schedule:
    """First inside the node to the rank of the receiver's rail, then along that rail, as NCCL's PXN.

    A rank sends (g-1)/g of the message to its own node and (N-1)/N to others, N groups of g ranks; every transfer
    between nodes joins ranks of the same place in their groups. Rounds: g-1 inside, N-1 across. Source: NCCL 2.12
    (`ncclPxnDisable`, NCCL_P2P_PXN_LEVEL; a message to local rank j of another node leaves through local rank j); NCCL does
    both steps of a message in one flow, so that rounds are ours: unverified.

    Raises:
        InputError: groups of unequal size, or that do not name every rank once.
    """
    table = group_table("two_step", ranks, groups)
    nodes, size = table.shape
    node, place = (axis.ravel()[:, None] for axis in np.indices(table.shape))

    def make(number: int) -> Round:
        if number < size - 1:
            # To the local rank of rail `other`: what is for that rail's ranks in every node.
            other = (place + number + 1) % size
            via, goal = table[node, other], table[:, other[:, 0]].T
            return _rows(table[node, place], via, table[node, place] * ranks + goal)
        # What all local ranks have for one rank of the same rail.
        goal = table[(node + number - size + 2) % nodes, place]
        return _rows(table[node, place], goal, table[node[:, 0]] * ranks + goal)

    return _all_to_all(ranks, size - 1 + nodes - 1, make, f"two-step by rail, groups of {size}")


def _rows(src: Ints, dst: Ints, chunk: Ints) -> Round:
    return Round.of(
        np.broadcast_to(src, chunk.shape).ravel(), np.broadcast_to(dst, chunk.shape).ravel(), chunk.ravel()
    )


def _all_to_all(ranks: int, count: int, make: Callable[[int], Round], name: str) -> Schedule:
    home, target = (axis.ravel() for axis in np.indices((ranks, ranks)))
    share = np.full(ranks * ranks, 1 / ranks)
    return Schedule.of(Op.ALL_TO_ALL, ranks, count, make, share=share, home=home, target=target, name=name)
