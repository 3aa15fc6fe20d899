"""Steering a schedule over connections that are up: which of a pair's connections carries which of its messages.

Every connection has a source port of its own and so, where the hashes of switches are known, a path that is known. With
several connections for each pair of ranks, each edge of a schedule takes the one whose path leaves the most loaded link
least loaded (`topology.ecmp.steer.spread`). It needs no setting of a host: ports are not asked for, but chosen among
those that were drawn. NCCL's counterpart is NCCL_IB_QPS_PER_CONNECTION.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collectives.schedules import Edges
from nettune.errors import NettuneError
from topology.ecmp.connections import us_per_byte
from topology.ecmp.steer import spread

if TYPE_CHECKING:
    from collectives.connections import Connection
    from topology.placement.mapping import Placement
    from topology.routing import Routing

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidates:
    """Paths that each edge of a schedule may take: F edges, K connections of each pair, H hops at most.

    Attributes:
        edges: F edges with the shares that they carry.
        taken: (F, K, H) directed links, -1 behind the last.
        speed_us: (2L,) microseconds that a byte takes on each directed link; 0 where no candidate passes.
    """

    edges: Edges
    taken: Ints
    speed_us: Floats

    @classmethod
    def of(cls, routing: Routing, edges: Edges, connections: Sequence[Connection], copies: int) -> Candidates:
        """Where the connections of the ranks pass.

        Args:
            routing: with known hashes.
            edges: `Schedule.channel_edges`.
            connections: of the communicator, in both directions.
            copies: connections of each pair.

        Raises:
            UnknownPathError: a hash is not known.
            NettuneError: two ranks have fewer connections, or an address is not the fabric's.
        """
        flow_of = {
            (one.src, one.dst, one.copy): one.flow(routing.fabric)
            for one in connections
            if len(one.group) == max(len(other.group) for other in connections)
        }
        pairs = [(src, dst) for src, dst in zip(edges.src.tolist(), edges.dst.tolist(), strict=True)]
        try:
            flows = [flow_of[(*pair, copy)] for pair in pairs for copy in range(copies)]
        except KeyError as error:
            raise NettuneError(f"steering: no connection for (rank, rank, copy) {error}") from error
        paths = [routing.path(flow) for flow in flows]
        return cls._of_paths(
            routing, edges, [paths[start : start + copies] for start in range(0, len(paths), copies)]
        )

    @classmethod
    def anywhere(cls, routing: Routing, placement: Placement, edges: Edges) -> Candidates:
        """Every path that routing has for each edge: what connections enough would offer.

        Raises:
            UnknownPathError: two ranks have no route.
        """
        nic = placement.nic
        ways = [
            [links for _, links in routing.alternatives(int(nic[src]), int(nic[dst]))]
            for src, dst in zip(edges.src.tolist(), edges.dst.tolist(), strict=True)
        ]
        return cls._of_paths(routing, edges, ways)

    @classmethod
    def _of_paths(
        cls, routing: Routing, edges: Edges, ways: Sequence[Sequence[tuple[int, ...]]]
    ) -> Candidates:
        """An edge with fewer ways than others has them again."""
        width = max(map(len, ways), default=0)
        hops = max((len(path) for paths in ways for path in paths), default=0)
        taken = np.full((len(ways), width, hops), -1, np.int64)
        for row, paths in zip(taken, ways, strict=True):
            for place in range(width):
                path = paths[place % len(paths)]
                row[place, : len(path)] = path
        used = np.zeros(routing.fabric.directed_count, np.bool_)
        used[taken[taken >= 0]] = True
        return cls(edges, taken, us_per_byte(routing.fabric, used))

    def chosen(self, seed: int = 0) -> Ints:
        """(F,) connection of each edge."""
        return spread(self.taken, self.edges.share, self.speed_us, np.random.default_rng(seed))

    def by_channel(self) -> Ints:
        """(F,) connection of each edge without steering: channel c uses connection c."""
        connection: Ints = self.edges.channel % self.taken.shape[1]
        return connection

    def busiest_us(self, connection: Ints, size_bytes: float) -> float:
        """Time that the most loaded link needs under a choice, microseconds."""
        loads = np.zeros(len(self.speed_us) + 1)
        links = self.taken[np.arange(len(connection)), connection]
        np.add.at(loads, links, self.edges.share[:, None] * size_bytes)
        return float((loads[:-1] * self.speed_us).max(initial=0.0))

    def routes(self, connection: Ints) -> list[list[int]]:
        """[source, destination, channel, connection] of each edge, for the ranks."""
        edges = self.edges
        rows: list[list[int]] = np.column_stack([edges.src, edges.dst, edges.channel, connection]).tolist()
        return rows

    def links(self, connection: Ints) -> list[tuple[int, ...]]:
        """Directed links of each edge under a choice."""
        rows = self.taken[np.arange(len(connection)), connection]
        return [tuple(row[row >= 0].tolist()) for row in rows]
