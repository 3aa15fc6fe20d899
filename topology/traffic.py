"""What a job puts on the wire, as placement and load prediction see it: phases of transfers between ranks.

`collectives.traffic` makes these from a job's description; this floor knows nothing of collectives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Phase:
    """One communication phase of a step: all transfers in it run at once.

    Attributes:
        name: unique in the step, `dp all-reduce`.
        op: `all_reduce`, `all_to_all`, `p2p`, ...
        size_bytes: message size per rank and group, for tables.
        after: names of the phases that must be over before it starts.
        src, dst: (E,) ranks; edges of one connection keep their direction.
        edge_bytes: (E,) bytes that the edge carries per step.
        connections: QPs or TCP connections that each edge's bytes are split over evenly.
    """

    name: str
    op: str
    size_bytes: float
    src: Ints
    dst: Ints
    edge_bytes: Floats
    after: tuple[str, ...] = ()
    connections: int = 1

    def __post_init__(self) -> None:
        if not len(self.src) == len(self.dst) == len(self.edge_bytes):
            raise InputError(f"phase {self.name!r}: src, dst and edge_bytes differ in length")
        if len(self.src) and (np.any(self.src == self.dst) or min(self.src.min(), self.dst.min()) < 0):
            raise InputError(f"phase {self.name!r}: an edge joins a rank to itself, or a rank is negative")
        if np.any(self.edge_bytes < 0) or self.connections < 1:
            raise InputError(f"phase {self.name!r}: bytes are negative, or there are no connections")


class StepTraffic(Protocol):
    """A training step's communication."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        ...

    @property
    def phases(self) -> Sequence[Phase]:
        """Phases in an order in which each comes after those it waits for."""
        ...


@dataclass(frozen=True)
class Transfers:
    """T transfers between NICs as columns.

    Attributes:
        src_port, dst_port: (T,) port rows.
        bytes_: (T,) bytes.
        edge: (T,) edge of the phase that it belongs to; the same edge draws the same random numbers everywhere.
        connection: (T,) which of the edge's connections.
    """

    src_port: Ints
    dst_port: Ints
    bytes_: Floats
    edge: Ints
    connection: Ints


def transfers(phase: Phase, port_of_rank: NDArray[Any]) -> Transfers:
    """Transfers of a phase when rank r uses port `port_of_rank[r]`; every edge becomes `phase.connections` rows."""
    edges = np.repeat(np.arange(len(phase.src)), phase.connections)
    return Transfers(
        src_port=port_of_rank[phase.src[edges]],
        dst_port=port_of_rank[phase.dst[edges]],
        bytes_=phase.edge_bytes[edges] / phase.connections,
        edge=edges,
        connection=np.tile(np.arange(phase.connections), len(phase.src)),
    )
