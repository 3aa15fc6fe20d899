"""Rounds of transfers that share no link, and that together cross every link in each direction several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.fill import Filler
from nettune.qualify.ports import find_pairs
from topology.fabric import LinkState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from nettune.qualify.flows import ProbeFlow
    from nettune.qualify.ports import Pair
    from topology.fabric import Fabric
    from topology.routing import Routing

    Floats = NDArray[np.float64]

Round = tuple["ProbeFlow", ...]
_NEARLY = 0.99
"""Rates that differ by less count as the same."""


@dataclass(frozen=True)
class ProbePlan:
    """What to send.

    Attributes:
        rounds: flows of one round share no directed link, but for those of a set (equal `fills`), which together ask no
            link for more than its rate.
        pairs: all pairs of NICs with a route among those wanted, for later rounds.
        unroutable: (source port, target port, reason).
        crossings: (2L,) expected number of flows of the plan over each directed link.
        most_gbps: (2L,) the most that the hosts can ever send over each directed link, by all ways together.
        filler: finds more sets of flows.
    """

    rounds: tuple[Round, ...]
    pairs: tuple[Pair, ...]
    unroutable: tuple[tuple[int, int, str], ...]
    crossings: Floats
    most_gbps: Floats
    filler: Filler

    @property
    def flows(self) -> int:
        """Number of transfers."""
        return sum(map(len, self.rounds))


def make_plan(
    fabric: Fabric,
    routing: Routing,
    hosts: Sequence[str],
    *,
    at_once: int = 4,
    most_pairs: int = 240,
    cover: int = 4,
    seed: int = 0,
) -> ProbePlan:
    """Every ordered pair of hosts at least once, rail by rail; on a large fabric as many as `most_pairs` allows.

    Args:
        fabric: the fabric.
        routing: its forwarding state.
        hosts: hosts that can send and receive.
        at_once: most transfers in a round; what the machines in between (and an emulating one) carry with ease.
        most_pairs: above this number each NIC sends to a few others, chosen at random, and not to all.
        cover: transfers that should cross each directed link, where that many pairs can.
        seed: seeds the choice.
    """
    rng = np.random.default_rng(seed)
    wanted = wanted_pairs(fabric, hosts, most_pairs, rng)
    pairs, refused = find_pairs(routing, wanted)
    # A fabric whose rails do not meet has no such paths, and nothing is missed then.
    pairs += find_pairs(routing, between_leaves(fabric, hosts, wanted, most_pairs // 4))[0]
    filler = Filler(fabric, routing, hosts, pairs, rng)
    crossings = np.zeros(fabric.directed_count)
    rounds = pack(pairs, crossings, at_once)
    sets, most_gbps = _filled(fabric, pairs, filler)
    rounds += pack_sets(sets, crossings, at_once)
    rounds += pack(_missing(pairs, rounds, crossings, cover), crossings, at_once)
    return ProbePlan(tuple(rounds), tuple(pairs), tuple(refused), crossings, most_gbps, filler)


def _filled(fabric: Fabric, pairs: Sequence[Pair], filler: Filler) -> tuple[list[Round], Floats]:
    """Sets for the links that no single flow fills, and the most that any flows can bring over each link."""
    speeds = fabric.directed_gbps
    level = _levels(fabric, [flow for pair in pairs for flow in pair.flows])
    most = speeds.copy()
    up = np.repeat(fabric.links.state == LinkState.UP, 2)
    short = [int(link) for link in np.flatnonzero(up & (level < _NEARLY * speeds))]
    sets: list[Round] = []
    for link in short:
        if level[link] >= _NEARLY * speeds[link]:
            continue
        left = frozenset(one for one in short if level[one] < _NEARLY * speeds[one])
        filling = filler.fill(link, like=left)
        if filling is None or filling.gbps < _NEARLY * speeds[link]:
            most[link] = filler.most_gbps(link)
        if filling is not None and filling.gbps * _NEARLY > level[link]:
            sets.append(filling.flows)
            level = np.maximum(level, _loads(fabric, filling.flows))
    return sets, most


def _levels(fabric: Fabric, flows: Iterable[ProbeFlow]) -> Floats:
    """(2L,) rate of the fastest of these flows over each directed link."""
    level = np.zeros(fabric.directed_count)
    for flow in flows:
        rows = list(flow.links)
        level[rows] = np.maximum(level[rows], flow.nominal_gbps)
    return level


def _loads(fabric: Fabric, flows: Round) -> Floats:
    """(2L,) rate of flows that run at once over each directed link."""
    loads = np.zeros(fabric.directed_count)
    for flow in flows:
        loads[list(flow.links)] += flow.nominal_gbps
    return loads


def wanted_pairs(
    fabric: Fabric, hosts: Sequence[str], most_pairs: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Ordered pairs of NICs of different hosts, equal rails; all of them, or each NIC with a few random others."""
    by_rail: dict[int, list[int]] = {}
    for host in hosts:
        for position, nic in enumerate(_cabled_nics(fabric, host)):
            by_rail.setdefault(position, []).append(nic)
    wanted: list[tuple[int, int]] = []
    nics = sum(map(len, by_rail.values()))
    for members in by_rail.values():
        count = len(members)
        offsets = list(range(1, count))
        peers = max(4, most_pairs // max(nics, 1))
        if sum(len(m) * (len(m) - 1) for m in by_rail.values()) > most_pairs and peers < len(offsets):
            offsets = sorted(1 + int(o) for o in rng.choice(count - 1, size=peers, replace=False))
            members = [members[int(i)] for i in rng.permutation(count)]  # noqa: PLW2901 - neighbours are not peers
        wanted += [(members[i], members[(i + offset) % count]) for offset in offsets for i in range(count)]
    return wanted


def between_leaves(
    fabric: Fabric, hosts: Sequence[str], wanted: Sequence[tuple[int, int]], most: int
) -> list[tuple[int, int]]:
    """Two pairs of NICs for every ordered pair of leaves that `wanted` leaves out.

    Transfers that stay on their rail meet the same two leaves always, and do not tell the uplink of one from that of
    the other.
    """
    nics: dict[int, list[int]] = {}
    for host in hosts:
        for nic in _cabled_nics(fabric, host):
            nics.setdefault(_leaf(fabric, nic), []).append(nic)
    have = {(_leaf(fabric, src), _leaf(fabric, dst)) for src, dst in wanted}
    node = fabric.ports.node
    added: list[tuple[int, int]] = []
    for src_leaf, senders in nics.items():
        for dst_leaf, receivers in nics.items():
            if src_leaf == dst_leaf or (src_leaf, dst_leaf) in have:
                continue
            for shift in range(min(2, len(senders))):
                src = senders[shift]
                others = [nic for nic in receivers if node[nic] != node[src]]
                if others and len(added) < most:
                    added.append((src, others[shift % len(others)]))
    return added


def _leaf(fabric: Fabric, nic: int) -> int:
    leaf = fabric.leaf_of(nic)
    return -1 if leaf is None else leaf


def _cabled_nics(fabric: Fabric, host: str) -> list[int]:
    return [nic for nic in fabric.nics(host) if fabric.link_of_port[nic] >= 0 and fabric.ports.address[nic]]


def pack(pairs: Iterable[Pair], crossings: Floats, at_once: int) -> list[Round]:
    """Rounds that hold one flow of each pair; adds to `crossings` what they cross.

    Greedy: a round takes the pair whose NICs have most left to do, over the free path that was crossed least.
    """
    waiting = list(pairs)
    rounds = []
    while waiting:
        todo: dict[int, int] = {}
        for pair in waiting:
            for nic in (pair.src_port, pair.dst_port):
                todo[nic] = todo.get(nic, 0) + 1
        order = sorted(waiting, key=lambda pair: -(todo[pair.src_port] + todo[pair.dst_port]))
        used: set[int] = set()
        taken: list[ProbeFlow] = []
        left = []
        for pair in order:
            free = (
                [flow for flow in pair.flows if used.isdisjoint(flow.links)] if len(taken) < at_once else []
            )
            if not free:
                left.append(pair)
                continue
            chosen = min(free, key=lambda flow: _crossed(flow, crossings))
            used |= chosen.links
            taken.append(chosen)
            for probability, links in chosen.alternatives:
                crossings[list(links)] += probability
        rounds.append(tuple(taken))
        waiting = left
    return rounds


def pack_sets(sets: Iterable[Round], crossings: Floats, at_once: int) -> list[Round]:
    """Rounds of whole sets that share no link, at most `at_once` flows in each where a set is not larger; as `pack`."""
    rounds: list[list[ProbeFlow]] = []
    for flows in sets:
        links = frozenset().union(*(flow.links for flow in flows))
        for flow in flows:
            crossings[list(flow.links)] += 1
        for taken in rounds:
            if len(taken) + len(flows) <= at_once and all(links.isdisjoint(flow.links) for flow in taken):
                taken.extend(flows)
                break
        else:
            rounds.append(list(flows))
    return [tuple(flows) for flows in rounds]


def _crossed(flow: ProbeFlow, crossings: Floats) -> float:
    """Sum of squares favours a path with evenly used links over one with a busy and an idle link."""
    return sum(
        probability * float(np.square(crossings[list(links)]).sum())
        for probability, links in flow.alternatives
    )


def _missing(pairs: Sequence[Pair], rounds: Sequence[Round], crossings: Floats, cover: int) -> list[Pair]:
    """Pairs, each cut down to the flow over the wanted path, that give every link its fastest flow and `cover` crossings."""
    by_link: dict[int, list[tuple[Pair, ProbeFlow]]] = {}
    for pair in pairs:
        for flow in pair.flows:
            for link in flow.links:
                by_link.setdefault(link, []).append((pair, flow))
    expected = crossings.copy()
    level: dict[int, float] = {}
    added: list[Pair] = []

    def note(flow: ProbeFlow) -> None:
        for link in flow.links:
            level[link] = max(level.get(link, 0.0), flow.nominal_gbps)

    def add(pair: Pair, flow: ProbeFlow) -> None:
        added.append(type(pair)(pair.src_port, pair.dst_port, (flow,)))
        note(flow)
        for probability, links in flow.alternatives:
            expected[list(links)] += probability

    for flows in rounds:
        for flow in flows:
            note(flow)
    for link, candidates in by_link.items():
        pair, flow = max(candidates, key=lambda one: one[1].nominal_gbps)
        if level.get(link, 0.0) < _NEARLY * flow.nominal_gbps:
            add(pair, flow)
    for link, candidates in by_link.items():
        for pair, flow in candidates:
            if expected[link] >= cover:
                break
            add(pair, flow)
    return added
