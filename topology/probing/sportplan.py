"""Source ports that spread flows, chosen from the probed table itself: nothing of a switch's hash need be known.

For programs that can set the port: `mlx5dv_modify_qp_udp_sport`, UCCL_UDP_SPORT_BASE, a socket's `bind`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status
from nettune.errors import InputError
from topology.cuts import nic_parts
from topology.ecmp.connections import us_per_byte
from topology.ecmp.steer import spread
from topology.placement.bound import cut_bound
from topology.traffic import Transfers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric
    from topology.probing.paths import ProbedPath, ProbePlan
    from topology.routing import Routing

    Ints = NDArray[np.int64]

SPORTS_SCHEMA = "nettune.sports/1"
_DRAWS = 200


@dataclass(frozen=True)
class SportPlan:
    """Chosen source ports of equal flows, and what they give.

    Attributes:
        sports: (source, destination) port rows -> a source port for each flow of the pair.
        short: pairs that have fewer ports with a known path than flows -> how many they have.
        efficiency: lower bound of the busiest link's time over its time under the chosen ports; 1 is ideal.
        random_efficiency: the same for ports drawn from the table at random: bound over mean time.
        sharing: flows on the link between switches that has most of them.
        random_sharing: the same for random ports, the mean over draws.
    """

    sports: Mapping[tuple[int, int], tuple[int, ...]]
    short: Mapping[tuple[int, int], int]
    efficiency: float
    random_efficiency: float
    sharing: float
    random_sharing: float

    def findings(self, flows: int, fabric: Fabric) -> list[Finding]:
        """UNKNOWN for each pair that could not be given its ports."""
        return [
            Finding(
                check="source-ports",
                status=Status.UNKNOWN,
                where=fabric.port_element(src),
                what=f"{known} source ports to {fabric.port_element(dst)} have a known path; {flows} flows need as many",
                evidence={"known": known, "flows": flows},
                fix="probe more source ports (--ports)",
            )
            for (src, dst), known in self.short.items()
        ]

    def to_json(self, made: ProbePlan, fabric: Fabric) -> dict[str, Any]:
        """Names and addresses in place of rows."""
        return {
            "schema": SPORTS_SCHEMA,
            "proto": made.proto,
            "dport": made.dport,
            "efficiency": round(self.efficiency, 4),
            "random_efficiency": round(self.random_efficiency, 4),
            "sharing": self.sharing,
            "random_sharing": round(self.random_sharing, 2),
            "pairs": [
                {
                    "src": str(fabric.port_element(src)),
                    "dst": str(fabric.port_element(dst)),
                    "src_address": fabric.ports.address[src],
                    "dst_address": fabric.ports.address[dst],
                    "sports": list(sports),
                }
                for (src, dst), sports in self.sports.items()
            ],
        }


def choose_sports(paths: Iterable[ProbedPath], routing: Routing, flows: int, *, seed: int = 0) -> SportPlan:
    """Different source ports for `flows` equal flows of each probed pair, all pairs spread together.

    Args:
        paths: as probed; those with unknown links are not chosen.
        routing: for the bound; its hashes are not looked at.
        flows: of each pair, all at the same time.
        seed: of ties, and of the draws of random ports to compare with.

    Raises:
        InputError: no flows, or a used link has no speed.
    """
    if flows < 1:
        raise InputError(f"{flows} flows of a pair cannot be steered")
    table: dict[tuple[int, int], list[ProbedPath]] = defaultdict(list)
    for path in paths:
        known = table[path.flow.src_port, path.flow.dst_port]
        if path.complete:
            known.append(path)
    short = {pair: len(known) for pair, known in table.items() if len(known) < flows}
    known_pairs = {pair: known for pair, known in table.items() if pair not in short}
    if not known_pairs:
        return SportPlan({}, short, 1.0, 1.0, 0.0, 0.0)
    # Sorted by path and dealt out in turn: each flow may take any path that has ports enough.
    dealt = [
        sorted(known, key=lambda path: (path.links, path.flow.sport or 0))[first::flows]
        for known in known_pairs.values()
        for first in range(flows)
    ]
    taken = _links(dealt)
    bytes_ = np.ones(len(dealt))
    used = np.zeros(routing.fabric.directed_count, dtype=np.bool_)
    used[taken[taken >= 0]] = True
    per_byte = us_per_byte(routing.fabric, used)
    generator = np.random.default_rng(seed)
    between = routing.hops.between
    # A NIC's own cable is no matter of choice, and as the busiest link it would hide the others.
    decided = np.zeros_like(per_byte)
    decided[between] = per_byte[between]
    chosen = spread(taken, bytes_, decided, generator)
    picked = [mine[number % len(mine)] for mine, number in zip(dealt, chosen.tolist(), strict=True)]
    sports = iter([path.flow.sport or 0 for path in picked])
    ends = np.repeat(np.array(list(known_pairs)), flows, axis=0)
    rows = np.arange(len(dealt))
    moved = Transfers(ends[:, 0], ends[:, 1], bytes_, rows, np.zeros_like(rows))
    bound_us = cut_bound(routing, moved, nic_parts(routing.fabric)).time_us

    def busiest(links: Ints) -> tuple[float, float]:
        """(us of the busiest link, flows on the fullest link between switches)."""
        flows_on = np.bincount(links[links >= 0], minlength=len(per_byte))
        return float((flows_on * per_byte).max()), float(flows_on[between].max(initial=0))

    all_links = _links([known for known in known_pairs.values() for _ in range(flows)])
    width = all_links.shape[1]
    drawn = [busiest(all_links[rows, generator.integers(0, width, len(rows))]) for _ in range(_DRAWS)]
    random_us, random_sharing = np.mean(drawn, axis=0).tolist()
    chosen_us, sharing = busiest(taken[rows, chosen])
    return SportPlan(
        sports={pair: tuple(next(sports) for _ in range(flows)) for pair in known_pairs},
        short=short,
        efficiency=bound_us / chosen_us,
        random_efficiency=bound_us / random_us,
        sharing=sharing,
        random_sharing=random_sharing,
    )


def _links(of_flow: list[list[ProbedPath]]) -> Ints:
    """(F, K, H) directed links of candidates, in a flow with fewer the same again and again; -1 behind the last."""
    width = max(map(len, of_flow))
    hops = max(len(path.links) for mine in of_flow for path in mine)
    found = np.full((len(of_flow), width, hops), -1, dtype=np.int64)
    for row, mine in enumerate(of_flow):
        for column in range(width):
            links = mine[column % len(mine)].links
            found[row, column, : len(links)] = links
    return found
