"""Source ports that spread flows, chosen from the probed table itself: nothing of a switch's hash need be known.

For programs that can set the port: `mlx5dv_modify_qp_udp_sport`, UCCL_UDP_SPORT_BASE, a socket's `bind`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
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
    Floats = NDArray[np.float64]

SPORTS_SCHEMA = "nettune.sports/1"
_DRAWS, _PASSES = 200, 8


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
    ways = _Ways.of(known_pairs, flows)
    used = np.zeros(routing.fabric.directed_count, dtype=np.bool_)
    used[ways.links[ways.links >= 0]] = True
    per_byte = us_per_byte(routing.fabric, used)
    between = routing.hops.between
    # A NIC's own cable is no matter of choice, and as the busiest link it would hide the others.
    decided = np.zeros_like(per_byte)
    decided[between] = per_byte[between]
    generator = np.random.default_rng(seed)
    sports, way = ways.dealt(_choice(ways, decided, generator))
    ends = np.repeat(np.array(list(known_pairs)), flows, axis=0)
    rows = np.arange(len(ends))
    moved = Transfers(ends[:, 0], ends[:, 1], np.ones(len(ends)), rows, np.zeros_like(rows))
    bound_us = cut_bound(routing, moved, nic_parts(routing.fabric)).time_us

    def busiest(taken: Ints) -> tuple[float, float]:
        """(us of the busiest link, flows on the fullest link between switches)."""
        links = ways.links[taken]
        flows_on = np.bincount(links[links >= 0], minlength=len(per_byte))
        return float((flows_on * per_byte).max()), float(flows_on[between].max(initial=0))

    # (draws, pairs x flows)
    random = np.concatenate(
        [each[generator.integers(0, len(each), (_DRAWS, flows))] for each in ways.way_of_port], axis=1
    )
    drawn = [busiest(taken) for taken in random]
    random_us, random_sharing = np.mean(drawn, axis=0).tolist()
    chosen_us, sharing = busiest(way)
    return SportPlan(
        sports={pair: tuple(sports[at * flows : (at + 1) * flows]) for at, pair in enumerate(known_pairs)},
        short=short,
        efficiency=bound_us / chosen_us,
        random_efficiency=bound_us / random_us,
        sharing=sharing,
        random_sharing=random_sharing,
    )


@dataclass(frozen=True)
class _Ways:
    """The different paths of each pair.

    Attributes:
        links: (W, H) directed links of each path, -1 behind the last.
        sports: (W lists) source ports that take it.
        of_pair: paths of each pair.
        way_of_port: path of each probed port of each pair.
        flows: of each pair.
    """

    links: Ints
    sports: list[list[int]]
    of_pair: list[list[int]]
    way_of_port: list[Ints]
    flows: int

    @classmethod
    def of(cls, table: Mapping[tuple[int, int], list[ProbedPath]], flows: int) -> _Ways:
        hops = max(len(path.links) for known in table.values() for path in known)
        links: list[list[int]] = []
        sports: list[list[int]] = []
        of_pair, way_of_port = [], []
        for known in table.values():
            number: dict[tuple[int, ...], int] = {}
            for path in known:
                if path.links not in number:
                    number[path.links] = len(links)
                    links.append([*path.links, *[-1] * (hops - len(path.links))])
                    sports.append([])
                sports[number[path.links]].append(path.flow.sport or 0)
            of_pair.append(list(number.values()))
            way_of_port.append(np.array([number[path.links] for path in known]))
        return cls(np.array(links), sports, of_pair, way_of_port, flows)

    def dealt(self, chosen: list[int]) -> tuple[list[int], Ints]:
        """(source port, path) of each flow: a port of the chosen path, or of another where that one has none left."""
        left = [list(reversed(ports)) for ports in self.sports]
        found = np.array(chosen)
        late = []
        sports = [0] * len(chosen)
        for flow, way in enumerate(chosen):
            if left[way]:
                sports[flow] = left[way].pop()
            else:
                late.append(flow)
        for flow in late:
            found[flow] = max(self.of_pair[flow // self.flows], key=lambda way: len(left[way]))
            sports[flow] = left[found[flow]].pop()
        return sports, found


def _choice(ways: _Ways, per_byte: Floats, generator: np.random.Generator) -> list[int]:
    """Path of each flow; a path that more flows choose than it has ports is closed to those, and all choose again."""
    options = [list(ways.of_pair[pair]) for pair in range(len(ways.of_pair)) for _ in range(ways.flows)]
    chosen: list[int] = []
    for _ in range(_PASSES):
        width = max(map(len, options))
        padded = np.array([(mine * width)[:width] for mine in options])
        picked = spread(ways.links[padded], np.ones(len(options)), per_byte, generator)
        chosen = padded[np.arange(len(options)), picked].tolist()
        taken: Counter[int] = Counter()
        full = False
        for flow, way in enumerate(chosen):
            taken[way] += 1
            if taken[way] > len(ways.sports[way]) and len(options[flow]) > 1:
                options[flow].remove(way)
                full = True
        if not full:
            break
    return chosen
