"""Link states to routes, as a routing protocol would have them once it has converged.

A leaf reaches another leaf's prefix by every uplink whose spine still has a link to that leaf; a spine reaches a
leaf by every parallel link that is up. Next hops stand in the order of the links (spine by spine, parallel link by
parallel link), which is the order in which the kernel's multipath hash counts them. No path goes down and up again.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from nettune.lab.wiring import Wiring


@dataclass(frozen=True)
class Route:
    """A prefix and its equal next hops (gateway address, interface); none left means unreachable."""

    prefix: str
    hops: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        """`ip -batch` lines that make it so, whatever was there before."""
        if not self.hops:
            return [f"route replace unreachable {self.prefix} proto static"]
        hops = " ".join(f"nexthop via {gateway} dev {iface} weight 1" for gateway, iface in self.hops)
        return [f"route replace {self.prefix} proto static {hops}"]


def router_routes(wiring: Wiring, down: AbstractSet[str] = frozenset()) -> dict[str, list[Route]]:
    """Routes of every leaf and spine when the links whose keys are in `down` do not carry packets."""
    up = [link for link in wiring.links if link.kind == "uplink" and link.key not in down]
    served = {(link.upper.node, link.lower.node) for link in up}
    routes: dict[str, list[Route]] = {}
    for leaf in wiring.leaves:
        own = [link for link in up if link.lower.node == leaf]
        routes[leaf] = [
            Route(
                wiring.prefix(other),
                tuple(
                    (link.upper.address, link.lower.iface)
                    for link in own
                    if (link.upper.node, other) in served
                ),
            )
            for other in wiring.leaves
            if other != leaf
        ]
    for spine in wiring.spines:
        routes[spine] = [
            Route(
                wiring.prefix(leaf),
                tuple(
                    (link.lower.address, link.upper.iface)
                    for link in up
                    if link.upper.node == spine and link.lower.node == leaf
                ),
            )
            for leaf in wiring.leaves
        ]
    return routes
