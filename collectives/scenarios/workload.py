"""`Workload`: everything that a simulated fabric is to carry, as columns: flows, what they wait for, gaps.

A row is a flow between two NICs, or a **moment**: nothing is sent, it happens when all that it waits for is over and its
gap has passed. Moments keep the number of dependencies small: "rank 3 is done with phase 2" is one row that the flows of
the next phase wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOMENT = -1
MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Workload:
    """F rows, each after those that it waits for.

    Attributes:
        src_port, dst_port: (F,) port rows of the fabric; `MOMENT` for a moment.
        bytes_: (F,) bytes; 0 for a moment.
        start_us: (F,) not before this time.
        gap_us: (F,) time between the end of the last one waited for and the start.
        after_first: (F + 1,) row f waits for `after[after_first[f]:after_first[f + 1]]`.
        after: rows waited for, each below the row that waits.
        connection: (F,) flows of one connection share a queue pair and its rate; `MOMENT` for a moment.
        priority: (F,) lossless class, 0 to 7.
        phase: (F,) row of `phases`; -1 for moments.
        phases: name of each phase, `job/phase` or `job/phase/iteration`.
    """

    src_port: Ints
    dst_port: Ints
    bytes_: Floats
    start_us: Floats
    gap_us: Floats
    after_first: Ints
    after: Ints
    connection: Ints
    priority: Ints
    phase: Ints
    phases: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.src_port)

    @property
    def flows(self) -> Ints:
        """Rows that are flows."""
        return np.flatnonzero(self.src_port != MOMENT)


class WorkloadBuilder:
    """Collects rows; what a row waits for must be there already.

    Raises:
        InputError: more than `MOST_ROWS` rows.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, float, float, float, int, int, int]] = []
        self._after: list[int] = []
        self._first = [0]
        self._connections: dict[tuple[object, ...], int] = {}
        self._phases: dict[str, int] = {}

    def moment(self, after: Iterable[int] = (), *, start_us: float = 0.0, gap_us: float = 0.0) -> int:
        """A row without bytes; returns it."""
        return self._add((MOMENT, MOMENT, 0.0, start_us, gap_us, MOMENT, 0, -1), after)

    def flow(
        self,
        ports: tuple[int, int],
        bytes_: float,
        phase: str,
        *,
        after: Iterable[int] = (),
        start_us: float = 0.0,
        gap_us: float = 0.0,
        connection: Sequence[object] | None = None,
        priority: int = 0,
    ) -> int:
        """A flow; returns its row. Flows with an equal `connection` share one, the others have their own."""
        key = ("row", len(self._rows)) if connection is None else ("named", *connection)
        number = self._connections.setdefault(key, len(self._connections))
        named = self._phases.setdefault(phase, len(self._phases))
        return self._add((*ports, bytes_, start_us, gap_us, number, priority, named), after)

    def build(self) -> Workload:
        """The columns.

        Raises:
            InputError: nothing is sent.
        """
        if not self._phases:
            raise InputError("scenario: nothing is sent over the network")
        table = np.array(self._rows, dtype=np.float64)
        ints = [table[:, column].astype(np.int64) for column in (0, 1, 5, 6, 7)]
        return Workload(
            src_port=ints[0],
            dst_port=ints[1],
            bytes_=table[:, 2],
            start_us=table[:, 3],
            gap_us=table[:, 4],
            after_first=np.array(self._first, dtype=np.int64),
            after=np.array(self._after, dtype=np.int64),
            connection=ints[2],
            priority=ints[3],
            phase=ints[4],
            phases=tuple(self._phases),
        )

    def _add(self, row: tuple[int, int, float, float, float, int, int, int], after: Iterable[int]) -> int:
        if len(self._rows) >= MOST_ROWS:
            raise InputError(
                f"scenario: more than {MOST_ROWS:,} messages; send fewer ranks, channels, chunks or iterations"
            )
        self._rows.append(row)
        self._after.extend(after)
        self._first.append(len(self._after))
        return len(self._rows) - 1
