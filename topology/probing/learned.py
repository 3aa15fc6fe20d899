"""What probing teaches of each switch's hash: a preset fitted to the paths that were seen, or none, with the evidence."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status
from topology.ecmp.fit import SEEDS, Fit, fit
from topology.ecmp.tuples import Tuples
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
    """

    fits: Mapping[int, Fit]
    routing: Routing

    def findings(self) -> list[Finding]:
        """One finding a switch: PASS where a preset explains it, UNKNOWN where none does."""
        fabric = self.routing.fabric
        return [
            Finding(
                check="ecmp-fit",
                status=Status.PASS if found.spec else Status.UNKNOWN,
                where=fabric.node_element(switch),
                what=f"hashes as {_words(found.spec)}: {found.reason}"
                if found.spec
                else f"no preset explains its hash: {found.reason}; use the table of probed ports",
                evidence=found.to_json(),
                required=False,
            )
            for switch, found in self.fits.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Switch -> evidence."""
        names = self.routing.fabric.nodes.name
        return {names[switch]: found.to_json() for switch, found in self.fits.items()}


def learn(paths: Iterable[ProbedPath], routing: Routing, *, seeds: Sequence[int] = SEEDS) -> Learned:
    """Fit a hash to every switch that chose among next hops.

    A switch's largest kind of choice counts (as many next hops of the same weights): what n next hops show of a seed
    is all that a fit knows of it. What other switches were found to be is tried first.

    Args:
        paths: as probed.
        routing: whose next hops, and their order, are taken; its hashes are not looked at.
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
        again = (fit(tuples, hop, usual, [spec], seeds=(spec.seed,)) for spec in known)
        found = next((one for one in again if one.spec in known), None) or fit(
            tuples, hop, usual, seeds=seeds
        )
        fits[switch] = found
        if found.spec is not None and found.spec not in known:
            known.append(found.spec)
    hashes = {switch: found.spec for switch, found in fits.items() if found.spec is not None}
    return Learned(fits, replace(routing, hashes=hashes, source="probing"))


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
    return f"{spec.family} with seed {spec.seed}"
