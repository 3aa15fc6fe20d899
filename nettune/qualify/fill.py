"""Filling a link that no single flow fills: several flows at once, none of which asks a link for more than it has."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.ports import find_pairs
from topology.routing import UnknownPathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nettune.qualify.flows import ProbeFlow
    from nettune.qualify.ports import Pair
    from topology.fabric import Fabric
    from topology.routing import Routing

    Way = tuple[int, int, tuple[int, ...]]

_MOST_PAIRS = 5000
"""Pairs of NICs that are looked at; on a fabric with more, what cannot be filled is not called impossible."""
_MOST_WAYS = 800
_LEAST_PART = 0.02
"""Flows that add less than this to a link are left out."""
_FULL = 0.99
_BONUS = 0.001


@dataclass(frozen=True)
class Filling:
    """Flows to send at once.

    Attributes:
        link: the directed link that they share.
        flows: each with its part of the rate in `nominal_gbps`; one flow where one is enough.
        gbps: their sum.
    """

    link: int
    flows: tuple[ProbeFlow, ...]
    gbps: float

    def full(self, speeds: NDArray[np.float64]) -> set[int]:
        """Directed links that they fill, at the nominal rates of all links (2L,)."""
        loads: dict[int, float] = {}
        for flow in self.flows:
            for link in flow.links:
                loads[link] = loads.get(link, 0.0) + flow.nominal_gbps
        return {link for link, load in loads.items() if load >= _FULL * speeds[link]}


class Filler:
    """Finds fillings on one fabric.

    Args:
        fabric: the fabric.
        routing: its forwarding state.
        hosts: hosts that can send and receive.
        pairs: pairs whose source ports are known already; others are searched for when they are needed.
        rng: chooses pairs and ways on a large fabric.
    """

    def __init__(
        self,
        fabric: Fabric,
        routing: Routing,
        hosts: Sequence[str],
        pairs: Sequence[Pair],
        rng: np.random.Generator,
    ) -> None:
        self._fabric = fabric
        self._routing = routing
        self._hosts = hosts
        self._pairs = {(pair.src_port, pair.dst_port): pair for pair in pairs}
        self._rng = rng

    @cached_property
    def _ways(self) -> tuple[dict[int, list[Way]], bool]:
        """Ways over each directed link, and whether none was left out."""
        fabric = self._fabric
        nics = [
            nic
            for host in self._hosts
            for nic in fabric.nics(host)
            if fabric.link_of_port[nic] >= 0 and fabric.ports.address[nic]
        ]
        node = fabric.ports.node
        pairs = [(a, b) for a in nics for b in nics if node[a] != node[b]]
        complete = len(pairs) <= _MOST_PAIRS
        if not complete:
            pairs = [pairs[int(i)] for i in self._rng.choice(len(pairs), _MOST_PAIRS, replace=False)]
        over: dict[int, list[Way]] = {}
        for src, dst in pairs:
            try:
                alternatives = self._routing.alternatives(src, dst)
            except UnknownPathError:
                continue
            for _, links in alternatives:
                for link in links:
                    over.setdefault(link, []).append((src, dst, links))
        return over, complete

    def most_gbps(self, link: int) -> float:
        """The most that all hosts together can ever send over a directed link (where not all ways are known: its rate)."""
        over, complete = self._ways
        ways = over.get(link, [])
        speed = float(self._fabric.directed_gbps[link])
        if not complete or len(ways) > _MOST_WAYS:
            return speed
        return min(speed, float(self._parts(ways, link, frozenset()).sum()))

    def fill(
        self, link: int, *, avoid: frozenset[int] = frozenset(), like: frozenset[int] = frozenset()
    ) -> Filling | None:
        """Flows that together come as near to a link's nominal rate as the fabric allows.

        Args:
            link: the directed link.
            avoid: directed links that no flow may cross.
            like: directed links of which one should be filled as well, where it costs nothing.

        Returns:
            None where no way over it is known.
        """
        ways = [way for way in self._ways[0].get(link, []) if avoid.isdisjoint(way[2])]
        if len(ways) > _MOST_WAYS:
            ways = [ways[int(i)] for i in self._rng.choice(len(ways), _MOST_WAYS, replace=False)]
        if not ways:
            return None
        parts = self._parts(ways, link, like)
        chosen = np.flatnonzero(parts > _LEAST_PART * float(self._fabric.directed_gbps[link]))
        wanted = list(dict.fromkeys(ways[row][:2] for row in chosen))
        fresh = find_pairs(self._routing, [pair for pair in wanted if pair not in self._pairs])[0]
        self._pairs |= {(pair.src_port, pair.dst_port): pair for pair in fresh}
        known = {
            (*pair, flow.alternatives[0][1]): flow
            for pair in wanted
            if pair in self._pairs
            for flow in self._pairs[pair].flows
            if flow.known
        }
        flows = tuple(
            dataclasses.replace(known[ways[row]], nominal_gbps=float(parts[row]), fills=link)
            for row in chosen
            if ways[row] in known
        )
        if not flows:
            return None
        if len(flows) == 1:
            flows = (dataclasses.replace(flows[0], fills=-1),)
        return Filling(link, flows, sum(flow.nominal_gbps for flow in flows))

    def _parts(self, ways: Sequence[Way], link: int, like: frozenset[int]) -> NDArray[np.float64]:
        """Rate of each way that maximises the sum, with no link beyond its nominal rate: a linear programme."""
        from scipy.optimize import linprog

        speeds = self._fabric.directed_gbps
        limits = sorted({over for way in ways for over in way[2] if speeds[over] > 0})
        if not limits:
            return np.zeros(len(ways))
        matrix = np.zeros((len(speeds), len(ways)))
        for column, way in enumerate(ways):
            matrix[list(way[2]), column] = 1.0
        # One of them only: otherwise the flows would be spread over all and fill none.
        shared = Counter(over for way in ways for over in way[2] if over in like and over != link)
        second = shared.most_common(1)[0][0] if shared else -1
        gain = np.array([1 + _BONUS * (second in way[2]) for way in ways])
        # Scaled to about 1, where the solver's tolerances are meant to be.
        scale = float(speeds[link]) or 1.0
        found = linprog(-gain, A_ub=matrix[limits], b_ub=speeds[limits] / scale, method="highs-ds")
        return np.asarray(found.x) * scale if found.status == 0 else np.zeros(len(ways))
