"""Where a rank's chunks are: in the buffers that a caller of the library's collective would pass.

| operation      | data (elements)            | result                          |
|----------------|----------------------------|---------------------------------|
| all_reduce     | N, becomes the sum         | the same                        |
| broadcast      | N, of the root, becomes it | the same                        |
| reduce         | N, spoilt but at the root  | the same at the root            |
| reduce_scatter | N, spoilt                  | the rank's block of N / n       |
| all_gather     | N, own block filled in     | the same                        |
| all_to_all     | N, block r for rank r      | N, block r from rank r          |
| p2p            | N, to each receiver        | N for each message to the rank  |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from collectives.executors.program import Layout, Message
from collectives.executors.transport import Array
from collectives.schedules import Op, Schedule
from collectives.schedules.schedule import TARGETED

Empty = Callable[[int], Array]


class Buffers:
    """A rank's data and result for one schedule; the same for any number of runs.

    Args:
        schedule: what is carried out.
        layout: of its chunks.
        rank: whose.
        data: N elements; see the table above.
        empty: makes room for a number of elements like those of `data`.
    """

    def __init__(self, schedule: Schedule, layout: Layout, rank: int, data: Array, empty: Empty) -> None:
        self._op = schedule.op
        self.data = data
        self._cells: dict[int, Array] = {}
        self._kept: list[tuple[Array, Array]] = []
        self._empty = empty
        self._layout = layout
        self.result = data
        block = layout.elements // schedule.ranks
        if self._op is Op.REDUCE_SCATTER:
            self.result = data[rank * block : (rank + 1) * block]
        if self._op in TARGETED:
            self._seat_targeted(schedule, rank, block)

    def _seat_targeted(self, schedule: Schedule, rank: int, block: int) -> None:
        layout = self._layout
        exchange = self._op is Op.ALL_TO_ALL
        arriving = np.flatnonzero(schedule.target == rank).tolist()
        self.result = self._empty(layout.elements if exchange else layout.elements * len(arriving))
        for chunk in np.flatnonzero(schedule.home == rank).tolist():
            self._put(chunk, self.data, block * int(schedule.target[chunk]) if exchange else 0)
        for place, chunk in enumerate(arriving):
            base = block * int(schedule.home[chunk]) if exchange else layout.elements * place
            own = self._cells.get(chunk)
            self._put(chunk, self.result, base)
            if own is not None:  # what a rank keeps for itself is not sent
                self._kept.append((self._cells[chunk], own))

    def _put(self, chunk: int, where: Array, base: int) -> None:
        first = base + int(self._layout.first[chunk])
        self._cells[chunk] = where[first : first + int(self._layout.length[chunk])]

    def begin(self) -> None:
        """Before each run: what stays at this rank goes to its place."""
        for there, here in self._kept:
            there[:] = here

    def view(self, message: Message) -> Array:
        """The elements of a message at this rank."""
        if self._op not in TARGETED:
            return self.data[message.first : message.last]
        chunk = message.chunks[0]
        if chunk not in self._cells:  # it only passes through here
            self._cells[chunk] = self._empty(message.elements)
        return self._cells[chunk]
