"""Port draws: transfers between NICs take paths by an ideal hash, again and again, in blocks that fit into memory.

The random numbers belong to (seed, draw, edge, connection) and not to the placement, so two placements compared with one
seed differ by their paths alone (common random numbers), and a draw is the same however many are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.hops import flows_of, refuse, walk_drawn, walk_forced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from topology.hops import Flows
    from topology.routing import Routing
    from topology.traffic import Transfers

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_BLOCK = 1 << 17
"""Flows x draws, and links x draws, of a block: some ten arrays of 8 bytes each."""
_KEPT = 1 << 18
"""Random numbers that are worth keeping: a search draws the same ones thousands of times."""


@dataclass(frozen=True)
class DrawnPhase:
    """One phase whose transfers are drawn when asked for.

    Attributes:
        routing: with its fabric.
        moved: the transfers.
        forced: (2L,) bytes where there is no choice.
        flows: those that have a choice, standing before it.
        seed: what the random numbers belong to beside draw, edge and connection.
    """

    routing: Routing
    moved: Transfers
    forced: Floats
    flows: Flows
    seed: tuple[int, ...]

    @classmethod
    def of(cls, routing: Routing, moved: Transfers, seed: tuple[int, ...]) -> DrawnPhase:
        """Prepare a phase.

        Raises:
            UnknownPathError: a transfer has no route.
        """
        forced, flows = walk_forced(routing, moved, flows_of(routing, moved))
        return cls(routing, moved, forced, flows, seed)

    @property
    def links(self) -> Ints:
        """(B,) directed links that the columns of `blocks` are about."""
        return self.routing.hops.between

    def blocks(self, draws: int) -> Iterator[tuple[slice, Floats]]:
        """Draws in order: which, and (d, B) bytes of the flows that have a choice; nothing when there are none.

        Raises:
            UnknownPathError: a transfer has no route.
        """
        if not len(self.flows):
            return
        step = max(1, _BLOCK // max(len(self.flows), len(self.links) // 2))
        for begin in range(0, draws, step):
            end = min(begin + step, draws)
            numbers = flow_numbers(self.moved, self.flows.row, self.seed, (begin, end))
            try:
                yield slice(begin, end), walk_drawn(self.routing.hops, self.flows, numbers)
            except IndexError:
                for row in self.flows.row.tolist():
                    self.routing.alternatives(int(self.moved.src_port[row]), int(self.moved.dst_port[row]))
                refuse(self.routing, self.moved, int(self.flows.row[0]))


def check_draws(draws: int) -> None:
    """Refuse to say anything about no draw.

    Raises:
        InputError: less than one draw.
    """
    if draws < 1:
        raise InputError(f"loads over port draws need at least one draw, not {draws}")


def flow_numbers(moved: Transfers, rows: Ints, seed: Sequence[int], draws: tuple[int, int]) -> Floats:
    """(D, F) numbers from 0 to 1 that decide the paths of F transfers in draws from the first to before the second.

    A number belongs to its seed, draw, edge and connection, whatever other transfers there are: every method that
    draws ports takes it from here.

    Args:
        moved: transfers of one phase.
        rows: (F,) which of them.
        seed: of the phase.
        draws: first draw, and the one after the last.
    """
    connections = int(moved.connection.max(initial=0)) + 1
    column = moved.edge[rows] * connections + moved.connection[rows]
    count = (int(moved.edge.max(initial=-1)) + 1) * connections
    return _uniform(seed, *draws, count).take(column, axis=1)


def _uniform(seed: Sequence[int], begin: int, end: int, count: int) -> Floats:
    """(draws, count or more) numbers; those of a draw start alike whatever the count."""
    # The next power of two, so that phases and parts of phases of like size share what is kept.
    roomy = 1 << max(count - 1, 1).bit_length()
    if (end - begin) * roomy <= _KEPT:
        return _kept(tuple(seed), begin, end, roomy)
    return _made(tuple(seed), begin, end, count)


def _made(seed: tuple[int, ...], begin: int, end: int, count: int) -> Floats:
    numbers = np.empty((end - begin, count))
    for row, draw in enumerate(range(begin, end)):
        np.random.default_rng((*seed, draw)).random(out=numbers[row])
    return numbers


_kept = lru_cache(maxsize=16)(_made)
