"""What a schedule should take on a fabric: on the paths of real connections, over port draws, and at the very least."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collectives.cost.bound import OPERATIONS, Demand, collective_bound
from collectives.cost.schedule_time import Edge, Lane, Simulator, simulator
from collectives.linkbytes import ACK_FACTOR, WIRE_FACTOR
from collectives.schedules import Edges, Op, Schedule, build, p2p
from topology.placement.mapping import Placement

if TYPE_CHECKING:
    from topology.routing import Routing

Ints = NDArray[np.int64]
Links = tuple[int, ...]
Latency = Callable[[Links], float]
"""Microseconds of a message over given links."""

ON_WIRE = WIRE_FACTOR + ACK_FACTOR
"""Bytes on a wire per byte of payload where acknowledgements of the other direction pass too."""
_OPTIMAL = 1.02
_MOST_CHUNKS = 4096  # of all ranks together: seconds


def to_the_next(ranks: int) -> list[tuple[int, int]]:
    """Pairs of nccl-tests' sendrecv: every rank sends to the next one."""
    return [(rank, (rank + 1) % ranks) for rank in range(ranks)] if ranks > 1 else []


def library_schedule(op: Op, ranks: int, backend: str) -> Schedule | None:
    """The schedule that a library's own algorithm amounts to; None where that has not been measured."""
    if op is Op.ALL_REDUCE and backend == "gloo":
        # Two segments for each rank follow one another, see `collectives.traffic.RING_DIRECTION` for the direction.
        return build("ring", op, ranks, direction=-1, chunks=2)
    if op is Op.P2P:
        return p2p(ranks, to_the_next(ranks))
    return None


class Predictor:
    """Predictions of one schedule under one placement.

    Args:
        routing: forwarding state.
        placement: of the ranks.
        schedule: what is carried out.
        copies: connections of each pair, over which unsteered channels go in turn.
        latency: of a message over given links.

    Attributes:
        edges: of the schedule, by channel.
    """

    def __init__(
        self,
        routing: Routing,
        placement: Placement,
        schedule: Schedule,
        copies: int = 1,
        latency: Latency = lambda _links: 0.0,
    ) -> None:
        self._routing = routing
        self._placement = placement
        self._schedule = schedule
        self._copies = copies
        self._latency = latency
        self.edges = schedule.channel_edges
        self._simulators: dict[int, Simulator] = {}
        self._known: dict[tuple[int, float, tuple[Links, ...]], float] = {}

    def time_us(
        self, size_bytes: float, elements: int, links: Sequence[Links], *, wire: float = ON_WIRE
    ) -> float:
        """Time on given links of each edge; edges of one pair that take the same links share a connection."""
        key = (elements, wire, tuple(links))
        if key not in self._known:
            lanes: dict[Edge, Lane] = {}
            edges = zip(*_columns(self.edges), strict=True)
            for edge, taken in zip(edges, links, strict=True):
                lanes[edge] = Lane((edge[0], edge[1], taken), taken, self._latency(taken))
            if elements not in self._simulators:
                self._simulators[elements] = simulator(self._schedule, elements)
            item_bytes = wire * size_bytes / elements
            self._known[key] = self._simulators[elements](
                item_bytes, lanes, self._routing.fabric.directed_gbps
            )
        return self._known[key]

    def drawn_us(
        self, size_bytes: float, elements: int, draws: int = 10, seed: int = 0
    ) -> tuple[float, float, float]:
        """5th, 50th and 95th percentile over draws of each connection's path."""
        draw = random.Random(seed)
        times = [self.time_us(size_bytes, elements, self._drawn(draw)) for _ in range(draws)]
        low, middle, high = np.percentile(times, (5, 50, 95))
        return float(low), float(middle), float(high)

    def bound_us(self, size_bytes: float) -> float:
        """Cut bound of the operation; 0 for point to point, which has none."""
        if str(self._schedule.op) not in OPERATIONS:
            return 0.0
        demand = Demand(str(self._schedule.op), size_bytes, [list(range(self._schedule.ranks))])
        return collective_bound(self._routing.fabric, self._placement, [demand]).time_us

    def reaches(self, size_bytes: float, time_us: float) -> bool:
        """Whether a predicted time is no longer than the bound, headers and acknowledgements aside."""
        return 0 < time_us <= _OPTIMAL * ON_WIRE * self.bound_us(size_bytes)

    @property
    def feasible(self) -> bool:
        """Whether the schedule is small enough to be simulated in a moment."""
        return self._schedule.ranks * self._schedule.chunks <= _MOST_CHUNKS

    def _drawn(self, draw: random.Random) -> list[Links]:
        taken: dict[tuple[int, int, int], Links] = {}
        found = []
        nic = self._placement.nic
        for src, dst, channel in zip(*_columns(self.edges), strict=True):
            key = (src, dst, channel % self._copies)
            if key not in taken:
                ways = self._routing.alternatives(int(nic[src]), int(nic[dst]))
                taken[key] = draw.choices([way for _, way in ways], [part for part, _ in ways])[0]
            found.append(taken[key])
        return found


def _columns(edges: Edges) -> tuple[list[int], list[int], list[int]]:
    return edges.src.tolist(), edges.dst.tolist(), edges.channel.tolist()


def path_class(links: Links) -> str:
    """Class of a path: `host`, `leaf` (one switch) or `fabric` (through more than one)."""
    return "host" if not links else "leaf" if len(links) <= 2 else "fabric"
