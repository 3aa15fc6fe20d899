"""What probing teaches of each switch's hash: a preset fitted to the paths that were seen, or none, with the evidence."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status
from topology.ecmp.fit import SEEDS, TOLERANCE, Fit, confirmed, fit
from topology.ecmp.spec import FAMILIES
from topology.ecmp.tuples import FIVE_TUPLE, Tuples
from topology.probing.paths import observations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from topology.ecmp.spec import HashSpec
    from topology.fabric import Fabric
    from topology.probing.paths import ProbedPath
    from topology.routing import FlowKey, Routing


@dataclass(frozen=True)
class Learned:
    """Fits by switch, and the routing with the hashes that were found in place of those it had.

    Attributes:
        fits: switch row -> fit, of every switch that was seen to choose.
        routing: with the fitted hashes only.
        seeds: that were tried where a seed cannot be solved for.
    """

    fits: Mapping[int, Fit]
    routing: Routing
    seeds: Sequence[int] = SEEDS

    def findings(self) -> list[Finding]:
        """One finding a switch: PASS where a preset explains it, UNKNOWN where none does."""
        fabric = self.routing.fabric
        return [
            Finding(
                check="ecmp-fit",
                status=Status.PASS if found.spec else Status.UNKNOWN,
                where=fabric.node_element(switch),
                what=f"hashes as {_words(found.spec)}: {found.reason}{self._doubt(switch, found)}"
                if found.spec
                else f"its hash is not known: {found.reason}",
                evidence=found.to_json(),
                required=False,
                fix="" if found.spec else self._advice(switch, found),
            )
            for switch, found in self.fits.items()
        ]

    def _doubt(self, switch: int, found: Fit) -> str:
        if found.tried == 1 or not self._parallel(switch):
            return ""
        return "; which of parallel cables a packet took is taken from the address that answered"

    def _advice(self, switch: int, found: Fit) -> str:
        if found.explained >= (1 - TOLERANCE) * found.rows:
            return "probe more source ports (--ports) or other pairs (--pair)"
        listed = f"of Linux and ideal hashes seeds {self.seeds[0]} to {self.seeds[-1]} were tried, --seeds tries others"
        if self._parallel(switch):
            return (
                "let routers answer from the interface the packet came in by (Linux: icmp_errors_use_inbound_ifaddr=1), else "
                f"the wrong one of parallel cables is named; {listed}"
            )
        return f"rely on the table of probed ports; {listed}"

    def _parallel(self, switch: int) -> bool:
        """Whether several of its cables lead to one neighbour."""
        fabric = self.routing.fabric
        ends = fabric.ports.node[fabric.directed_ports]
        far = ends[ends[:, 0] == switch, 1]
        return len(np.unique(far)) < len(far)

    def to_json(self) -> dict[str, Any]:
        """Switch -> evidence."""
        names = self.routing.fabric.nodes.name
        return {names[switch]: found.to_json() for switch, found in self.fits.items()}


def learn(paths: Iterable[ProbedPath], routing: Routing, *, seeds: Sequence[int] = SEEDS) -> Learned:
    """Fit a hash to every switch that chose among next hops.

    A switch's largest kind of choice counts (as many next hops of the same weights): what n next hops show of a seed
    is all that a fit knows of it. The hash that the routing has is kept where it explains what was seen; then what other
    switches were found to be is tried, then everything.

    Args:
        paths: as probed.
        routing: whose next hops, and their order, are taken.
        seeds: tried where a seed cannot be solved for.
    """
    fits: dict[int, Fit] = {}
    known: list[HashSpec] = []
    for switch, seen in observations(paths, routing).items():
        weights = [routing.table[switch, group].weights for _, group, _ in seen]
        usual, _ = Counter(weights).most_common(1)[0]
        rows = [row for row, own in zip(seen, weights, strict=True) if own == usual]
        tuples = _tuples([flow for flow, _, _ in rows], routing.fabric)
        hop = np.array([index for _, _, index in rows], dtype=np.int64)
        own = routing.hashes.get(switch)
        as_known = (
            confirmed(own, tuples, hop, usual) if own is not None and FAMILIES[own.family].module else None
        )
        again = (fit(tuples, hop, usual, [spec], seeds=(spec.seed,)) for spec in known)
        found = (
            as_known
            or next((one for one in again if one.spec in known), None)
            or fit(tuples, hop, usual, seeds=seeds)
        )
        fits[switch] = found
        if found.spec is not None and found.spec not in known:
            known.append(found.spec)
    hashes = {switch: found.spec for switch, found in fits.items() if found.spec is not None}
    return Learned(fits, replace(routing, hashes=hashes, source="probing"), seeds)


def _tuples(flows: Sequence[FlowKey], fabric: Fabric) -> Tuples:
    def address(row: int) -> int:
        return int(ipaddress.IPv4Address(fabric.ports.address[row]))

    columns = zip(
        *(
            (address(flow.src_port), address(flow.dst_port), flow.sport or 0, flow.dport, flow.proto)
            for flow in flows
        ),
        strict=True,
    )
    return Tuples(*(np.array(column, dtype=np.uint32) for column in columns))


def _words(spec: HashSpec) -> str:
    offset = f", offset {spec.offset}" if spec.offset else ""
    fields = f", over {', '.join(spec.fields)}" if spec.fields != FIVE_TUPLE else ""
    return f"{spec.family} with seed {spec.seed}{offset}{fields}"
