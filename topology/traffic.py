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
        size_bytes: size of one message per rank and group, for tables; the largest where groups differ.
        src, dst: (E,) ranks; edges of one connection keep their direction.
        edge_bytes: (E,) bytes that the edge carries per step, all repeats together.
        after: names of the phases that must be over before it starts.
        connections: QPs or TCP connections that each edge's bytes are split over evenly.
        repeats: how many messages of `size_bytes` follow one another in a step.
        compute_us: computation per step that runs beside the phase: it is over when both are.
    """

    name: str
    op: str
    size_bytes: float
    src: Ints
    dst: Ints
    edge_bytes: Floats
    after: tuple[str, ...] = ()
    connections: int = 1
    repeats: int = 1
    compute_us: float = 0.0

    def __post_init__(self) -> None:
        columns = ((self.src, "i"), (self.dst, "i"), (self.edge_bytes, "if"))
        if any(getattr(column, "dtype", np.dtype(object)).kind not in kinds for column, kinds in columns):
            raise InputError(
                f"phase {self.name!r}: src and dst must be arrays of integers, edge_bytes of numbers"
            )
        if not len(self.src) == len(self.dst) == len(self.edge_bytes):
            raise InputError(f"phase {self.name!r}: src, dst and edge_bytes differ in length")
        if len(self.src) and (np.any(self.src == self.dst) or min(self.src.min(), self.dst.min()) < 0):
            raise InputError(f"phase {self.name!r}: an edge joins a rank to itself, or a rank is negative")
        known = np.isfinite(self.edge_bytes).all() and np.isfinite(self.compute_us)
        if not known or np.any(self.edge_bytes < 0) or self.compute_us < 0:
            raise InputError(f"phase {self.name!r}: bytes or compute_us are negative or no number")
        counts: tuple[Any, ...] = (self.connections, self.repeats)
        if not all(isinstance(count, int) and count > 0 for count in counts):
            raise InputError(
                f"phase {self.name!r}: connections and repeats must be whole numbers of 1 or more"
            )


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


def domain_of(traffic: StepTraffic) -> int:
    """Consecutive ranks whose traffic among each other the traffic leaves out; 1 where it leaves nothing out.

    Traffic that leaves out what stays inside hosts or accelerator domains says so by an attribute `domain`; a placement
    must then keep these ranks together.
    """
    return int(getattr(traffic, "domain", 1))


def check_step(traffic: StepTraffic, ranks: int) -> None:
    """Refuse a step that cannot be timed on `ranks` ranks that were placed.

    Raises:
        InputError: another number of ranks, an edge to a rank outside, two phases of one name, or a phase after one that
            does not come before it.
    """
    if traffic.ranks != ranks:
        raise InputError(f"the placement has {ranks} ranks, the job {traffic.ranks}")
    before: set[str] = set()
    for phase in traffic.phases:
        if max(phase.src.max(initial=0), phase.dst.max(initial=0)) >= ranks:
            raise InputError(f"phase {phase.name!r}: an edge names a rank that is not one of 0..{ranks - 1}")
        if phase.name in before or not set(phase.after) <= before:
            raise InputError(
                f"phase {phase.name!r}: names must differ, and what it comes after must stand before it"
            )
        before.add(phase.name)


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


def transfers(phase: Phase, port_of_rank: NDArray[Any], edges: Ints | None = None) -> Transfers:
    """Transfers of a phase when rank r uses port `port_of_rank[r]`; every edge becomes `phase.connections` rows.

    Args:
        phase: the phase.
        port_of_rank: (R,) port rows.
        edges: only these edges; all where left out.
    """
    chosen = np.arange(len(phase.src)) if edges is None else edges
    repeated = np.repeat(chosen, phase.connections)
    return Transfers(
        src_port=port_of_rank[phase.src[repeated]],
        dst_port=port_of_rank[phase.dst[repeated]],
        bytes_=phase.edge_bytes[repeated] / phase.connections,
        edge=repeated,
        connection=np.tile(np.arange(phase.connections), len(chosen)),
    )


def merged(moved: Transfers) -> Transfers:
    """The same bytes with one row for each pair of NICs: for tables and other tools, not for port draws."""
    ports = int(max(moved.src_port.max(initial=0), moved.dst_port.max(initial=0))) + 1
    pairs, index = np.unique(moved.src_port * ports + moved.dst_port, return_inverse=True)
    rows = np.arange(len(pairs))
    bytes_ = np.bincount(index, moved.bytes_, minlength=len(pairs)).astype(np.float64)
    return Transfers(pairs // ports, pairs % ports, bytes_, rows, np.zeros_like(rows))
