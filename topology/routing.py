"""`Routing`: which links a flow may take (`spread`) and, where the hash is known, which it takes (`path`).

Before a job only distributions over port draws exist, so `spread` answers; after connecting, real 5-tuples are known,
so `path` answers exactly. The two are never mixed: `path` refuses where a hash is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError, NettuneError
from nettune.schemas import check_schema
from topology.ecmp import HashSpec
from topology.ecmp.choices import ChoiceTable
from topology.ecmp.walk import FlowColumns
from topology.ecmp.walk import paths as walked_paths
from topology.fabric import LinkState, NodeKind
from topology.hops import HopTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from topology.fabric import Fabric

ROUTING_SCHEMA = "nettune.routing/1"
_MAX_HOPS = 32


class UnknownPathError(NettuneError):
    """The path of a flow cannot be known: no route, or several next hops and no known hash."""


@dataclass(frozen=True)
class FlowKey:
    """One flow between two ports of the fabric.

    Attributes:
        src_port, dst_port: port rows of the two NICs.
        proto: 6 TCP, 17 UDP.
        sport, dport: transport ports; sport None before the connection exists.
        dst_qp: RoCE destination QP, for switches that hash it.
    """

    src_port: int
    dst_port: int
    proto: int = 6
    sport: int | None = None
    dport: int = 0
    dst_qp: int | None = None


@dataclass(frozen=True)
class NextHops:
    """Ordered next hops of one switch towards one group: directed links and their weights."""

    links: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.links or len(self.links) != len(self.weights) or min(self.weights) < 1:
            raise InputError("routing: next hops need at least one link, and a weight of 1 or more for each")


@dataclass(frozen=True)
class Routing:
    """Forwarding state of a fabric.

    Attributes:
        fabric: the fabric that the rows refer to.
        group: (P,) destination group of each host port, -1 none; ports of one group are routed alike by every switch
            that they are not cabled to.
        table: (switch row, group) -> `NextHops`.
        hashes: switch row -> `HashSpec`; absent where the hash is not known.
        source: where it came from: `shortest paths`, `FIB`, `LFT`, `probing`.
    """

    fabric: Fabric
    group: np.ndarray[Any, np.dtype[np.int64]]
    table: Mapping[tuple[int, int], NextHops]
    hashes: Mapping[int, HashSpec] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.group) != len(self.fabric.ports.name):
            raise InputError("routing: one group for each port of the fabric is needed")
        senders = self.fabric.ports.node[self.fabric.directed_ports[:, 0]].tolist()
        # A switch sends to most groups over the same next hops: that object is looked at once.
        looked_at = {(switch, id(hops)): hops for (switch, _), hops in self.table.items()}
        for (switch, _), hops in looked_at.items():
            if any(
                not 0 <= link < self.fabric.directed_count or senders[link] != switch for link in hops.links
            ):
                raise InputError(
                    f"routing: a next hop of {self.fabric.nodes.name[switch]} does not leave through it"
                )

    @classmethod
    def shortest_paths(cls, fabric: Fabric, hash_spec: HashSpec | None = None) -> Routing:
        """Equal-cost shortest paths over cables that are up, next hops in order of port row, weights 1."""
        from scipy.sparse.csgraph import shortest_path

        leaves = [fabric.leaf_of(port) for port in range(len(fabric.ports.name))]
        is_nic = fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST
        group = np.array(
            [leaf if nic and leaf is not None else -1 for leaf, nic in zip(leaves, is_nic, strict=True)]
        )
        targets = sorted({int(leaf) for leaf in group if leaf >= 0})
        table: dict[tuple[int, int], NextHops] = {}
        switches = np.flatnonzero(fabric.nodes.kind == NodeKind.SWITCH)
        # Hosts do not forward: distances are counted between switches only.
        between = fabric.adjacency[switches][:, switches]
        hops_to = shortest_path(
            between, unweighted=True, indices=[int(np.searchsorted(switches, t)) for t in targets]
        )
        distance = np.full((len(targets), len(fabric.nodes.name)), np.inf)
        distance[:, switches] = hops_to
        sender, receiver = (fabric.ports.node[fabric.directed_ports[:, end]] for end in (0, 1))
        up = np.repeat(fabric.links.state == LinkState.UP, 2)
        # Next hops in order of switch, then of port, so that those of one switch stand together.
        order = np.lexsort((fabric.directed_ports[:, 0], sender))
        sender, receiver, up = sender[order], receiver[order], up[order]
        kept: dict[bytes, NextHops] = {}
        for row, target in enumerate(targets):
            reached = np.isfinite(distance[row, sender])
            closer = np.flatnonzero(up & reached & (distance[row, receiver] + 1 == distance[row, sender]))
            if not len(closer):
                continue
            links, at = order[closer], sender[closer]
            bounds = [*np.flatnonzero(np.diff(at, prepend=-1)).tolist(), len(at)]
            for switch, (begin, end) in zip(at[bounds[:-1]].tolist(), pairwise(bounds), strict=True):
                part = links[begin:end]
                key = part.tobytes()
                if key not in kept:
                    kept[key] = NextHops(tuple(part.tolist()), (1,) * len(part))
                table[switch, target] = kept[key]
        hashes = {int(switch): hash_spec for switch in switches} if hash_spec else {}
        return cls(fabric, group, table, hashes, "shortest paths")

    def path(self, flow: FlowKey) -> tuple[int, ...]:
        """Directed links of a flow, exactly.

        Raises:
            UnknownPathError: the source port, or a QP that is hashed, is not known, a hash is not known or sprays
                packets, or there is no route.
        """
        return self.paths([flow])[0]

    def paths(self, flows: Sequence[FlowKey]) -> list[tuple[int, ...]]:
        """Directed links of many flows, exactly; vectorised by switch.

        Raises:
            UnknownPathError: as `path`.
        """
        columns = FlowColumns.of(flows)
        return [tuple(link for link in row if link >= 0) for row in walked_paths(self, columns).tolist()]

    def spread(self, src_port: int, dst_port: int) -> dict[int, float]:
        """Directed link -> probability that a flow with a port drawn at random crosses it (ideal hash)."""
        loads: dict[int, float] = {}
        for probability, links in self.alternatives(src_port, dst_port):
            for link in links:
                loads[link] = loads.get(link, 0.0) + probability
        return loads

    def alternatives(self, src_port: int, dst_port: int) -> list[tuple[float, tuple[int, ...]]]:
        """All paths between two NICs with their probabilities under an ideal hash; they sum to 1.

        Raises:
            UnknownPathError: no route.
        """
        key = (src_port, dst_port)
        if key not in self._alternatives:
            start: list[int] = []
            node = self._first_hop(FlowKey(src_port, dst_port), start)
            self._alternatives[key] = list(self._walk(node, dst_port, tuple(start), 1.0))
        return self._alternatives[key]

    @cached_property
    def hops(self) -> HopTable:
        """The same next hops as arrays, for many flows at once."""
        return HopTable.of(self)

    @cached_property
    def choices(self) -> ChoiceTable:
        """The same next hops as the switches' hashes see them."""
        return ChoiceTable.of(self)

    @cached_property
    def _alternatives(self) -> dict[tuple[int, int], list[tuple[float, tuple[int, ...]]]]:
        return {}

    def _walk(
        self, node: int, dst_port: int, links: tuple[int, ...], probability: float
    ) -> list[tuple[float, tuple[int, ...]]]:
        if node < 0:
            return [(probability, links)]
        if len(links) > _MAX_HOPS:
            raise UnknownPathError("routing: the next hops form a loop")
        last = self._last_hop(node, dst_port)
        if last is not None:
            return [(probability, (*links, last))]
        hops = self._hops(node, int(self.group[dst_port]), FlowKey(-1, dst_port))
        total = sum(hops.weights)
        found: list[tuple[float, tuple[int, ...]]] = []
        for link, weight in zip(hops.links, hops.weights, strict=True):
            far = int(self.fabric.ports.node[self.fabric.directed_ports[link, 1]])
            found += self._walk(far, dst_port, (*links, link), probability * weight / total)
        return found

    def _first_hop(self, flow: FlowKey, links: list[int]) -> int:
        """Append the link out of the source NIC; returns the node behind it, -1 where source and target are one host."""
        fabric = self.fabric
        if fabric.ports.node[flow.src_port] == fabric.ports.node[flow.dst_port]:
            return -1  # inside one host nothing crosses the network
        out = int(fabric.out_of_port[flow.src_port])
        if out < 0 or fabric.links.state[out // 2] != LinkState.UP:
            raise UnknownPathError(f"{fabric.port_element(flow.src_port)} has no cable that is up")
        links.append(out)
        far_port = int(fabric.directed_ports[out, 1])
        return -1 if far_port == flow.dst_port else int(fabric.ports.node[far_port])

    def _last_hop(self, node: int, dst_port: int) -> int | None:
        into = int(self.fabric.out_of_port[dst_port])
        if into < 0 or self.fabric.links.state[into // 2] != LinkState.UP:
            raise UnknownPathError(f"{self.fabric.port_element(dst_port)} has no cable that is up")
        towards = into ^ 1
        return towards if self.fabric.ports.node[self.fabric.directed_ports[towards, 0]] == node else None

    def _hops(self, node: int, group: int, flow: FlowKey) -> NextHops:
        hops = self.table.get((node, group))
        if hops is None:
            target = self.fabric.port_element(flow.dst_port)
            raise UnknownPathError(f"{self.fabric.nodes.name[node]} has no route to {target}")
        return hops

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`; the fabric is kept beside it, not in it."""
        return {
            "schema": ROUTING_SCHEMA,
            "source": self.source,
            "group": self.group.tolist(),
            "table": [
                [switch, group, list(hops.links), list(hops.weights)]
                for (switch, group), hops in self.table.items()
            ],
            "hashes": [[switch, spec.to_json()] for switch, spec in self.hashes.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], fabric: Fabric) -> Routing:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, or rows that do not fit the fabric.
        """
        check_schema(data, ROUTING_SCHEMA)
        try:
            table = {
                (int(s), int(g)): NextHops(tuple(map(int, ls)), tuple(map(int, ws)))
                for s, g, ls, ws in data["table"]
            }
            hashes = {int(switch): HashSpec.from_json(spec) for switch, spec in data["hashes"]}
            return cls(fabric, np.array(data["group"], dtype=np.int64), table, hashes, str(data["source"]))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InputError(f"not a routing: {type(error).__name__}: {error}") from error
