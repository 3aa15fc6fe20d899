"""Polarization: a switch that hashes as the one before it did has the choice already made, and next hops stay idle.

Two measures. `reach`: of all flows that one switch sends over one next hop, how many next hops of the following switch
are used; flows have random addresses, ports and QPs, so that only the two functions matter. `idle_loss`: what
uniform random traffic over the whole fabric loses on the most loaded link between switches beside ideal hashes.

A linear hash (CRC, XOR) under another seed is the same number XORed with a constant, so with power-of-two groups a
new seed renames the next hops but leaves as many of them idle; another offset or another function does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from topology.ecmp.choices import UnknownChoiceError
from topology.ecmp.roce import QPN_BITS, SPORT_FIRST, SPORT_LAST
from topology.ecmp.spec import FAMILIES, HashSpec
from topology.ecmp.tuples import ROCE_PORT, UDP, Tuples
from topology.ecmp.walk import FlowColumns, walked_loads
from topology.fabric import LinkState, NodeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from topology.routing import Routing

    Ints = NDArray[np.int64]

_SAMPLE, _PER_CELL, _MOST = 1 << 14, 64, 1 << 20
_COLUMNS = 64
"""Destination groups that are looked at: those of a fabric are alike."""
_PER_LINK, _LINKS = 200, 4096
"""Flows of uniform traffic for each link between switches (7% standard deviation of its load), and links at most."""
_GROUPS = 16
"""Destination groups between which uniform traffic runs."""
_HOPS = 8


@dataclass(frozen=True)
class Pair:
    """Two switches that choose one after the other.

    Attributes:
        first, second: node rows.
        link: the next hop of `first` that leads there, a directed link.
        reached, size: next hops of `second` that its flows use, and those that it has.
        same: both have the same function, offset and fields, whatever their seeds.
    """

    first: int
    second: int
    link: int
    reached: int
    size: int
    same: bool


def polarized(routing: Routing) -> tuple[list[Pair], int]:
    """Pairs of switches in which the second leaves next hops idle, and how many different pairs were looked at.

    Of pairs that agree in both hashes, both shapes and the first choice, one stands for all.
    """
    chained = _chained(routing)
    tables: dict[tuple[int, ...], Ints] = {}
    found = []
    choices = routing.choices
    for (spec_a, kind_a, position, spec_b, kind_b), (link, second) in chained.items():
        key = (spec_a, kind_a, spec_b, kind_b)
        if key not in tables:
            tables[key] = _joint(routing, *key)
        row = tables[key][position]
        if np.count_nonzero(row) < len(row):
            one, other = choices.specs[spec_a], choices.specs[spec_b]
            found.append(
                Pair(
                    first=int(routing.fabric.ports.node[routing.fabric.directed_ports[link, 0]]),
                    second=second,
                    link=link,
                    reached=int(np.count_nonzero(row)),
                    size=len(row),
                    same=replace(one, seed=0) == replace(other, seed=0),
                )
            )
    return found, len(chained)


def only_seeds_differ(routing: Routing, pair: Pair) -> bool:
    """Whether the two hashes are one linear function under two seeds."""
    one, other = routing.hashes[pair.first], routing.hashes[pair.second]
    return pair.same and one.seed != other.seed and FAMILIES[one.family].linear


def idle_loss(routing: Routing, seed: int = 0) -> float:
    """Part of the bandwidth that uniform random traffic loses on the most loaded link between switches to these hashes.

    Beside ideal hashes of the same flows, so that what random loads lose anyhow does not count.

    Where a speed is not known, links between switches count alike.

    Raises:
        UnknownPathError: a hash is not known or sprays packets, or there is no route.
    """
    ideal = with_hashes(routing, {node: ideal_like(node, spec) for node, spec in routing.hashes.items()})
    flows = _uniform_flows(routing, seed)
    between = routing.hops.between
    speed = routing.fabric.directed_gbps[between]
    if np.any(speed == 0):
        speed = np.ones_like(speed)
    busiest = []
    for hashed in (routing, ideal):
        loads = walked_loads(hashed, flows, np.ones(len(flows)))[0]
        busiest.append(float((loads[between] / speed).max(initial=0.0)))
    return max(0.0, 1 - busiest[1] / busiest[0]) if busiest[0] else 0.0


def with_hashes(routing: Routing, hashes: Mapping[int, HashSpec]) -> Routing:
    """The same next hops under other hashes."""
    return replace(routing, hashes=hashes)


def ideal_like(node: int, spec: HashSpec | None) -> HashSpec:
    """An ideal hash of the same fields for a switch; unknown ones get the five-tuple, spraying ones stay so."""
    if spec is None:
        return HashSpec("ideal", 2 * node, member=HashSpec("ideal", 2 * node + 1))
    if spec.family == "spray":
        return spec
    member = spec.member and HashSpec("ideal", 2 * node + 1, fields=spec.member.fields)
    return HashSpec("ideal", 2 * node, fields=spec.fields, member=member)


def random_tuples(count: int, seed: int = 0) -> Tuples:
    """RoCEv2 flows between random addresses."""
    generator = np.random.default_rng(seed)

    def draw(low: int, high: int) -> NDArray[np.uint32]:
        return generator.integers(low, high, count, dtype=np.uint32)

    same = np.ones(count, dtype=np.uint32)
    return Tuples(
        saddr=draw(0, 2**32),
        daddr=draw(0, 2**32),
        sport=draw(SPORT_FIRST, SPORT_LAST + 1),
        dport=same * np.uint32(ROCE_PORT),
        proto=same * np.uint32(UDP),
        dst_qp=draw(0, 2**QPN_BITS),
    )


def _joint(routing: Routing, spec_a: int, kind_a: int, spec_b: int, kind_b: int) -> Ints:
    """(n, m) flows by next hop of the first and of the second switch."""
    choices = routing.choices
    one, other = choices.choices[kind_a], choices.choices[kind_b]
    n, m = (sum(map(len, choice.members)) for choice in (one, other))
    tuples = random_tuples(min(max(_SAMPLE, _PER_CELL * n * m), _MOST))
    picked = one.pick(choices.specs[spec_a], tuples) * m + other.pick(choices.specs[spec_b], tuples)
    return np.bincount(picked, minlength=n * m).reshape(n, m).astype(np.int64)


def _chained(routing: Routing) -> dict[tuple[int, int, int, int, int], tuple[int, int]]:
    """(hash, shape, position, hash, shape) of two choices that follow one another -> one such (link, second node)."""
    hops, choices = routing.hops, routing.choices
    nodes = np.flatnonzero(routing.fabric.nodes.kind == NodeKind.SWITCH)
    found: dict[tuple[int, int, int, int, int], tuple[int, int]] = {}
    groups = hops.entry.shape[1]
    for column in np.unique(np.linspace(0, groups - 1, min(groups, _COLUMNS)).astype(np.int64)).tolist():
        sets = hops.sets(nodes, np.full(len(nodes), column))
        choosing = (sets >= 0) & (choices.size[sets] > 1) & (choices.spec_of[nodes] >= 0)
        first, chosen = nodes[choosing], sets[choosing].astype(np.int64)
        size = choices.size[chosen]
        index = np.repeat(np.arange(len(first)), size)
        position = np.arange(len(index)) - np.repeat(np.cumsum(size) - size, size)
        link = choices.link[choices.first[chosen[index]] + position]
        second = hops.node_after[link].astype(np.int64)
        rows = np.arange(len(link))
        for _ in range(_HOPS):
            after = hops.sets(second[rows], np.full(len(rows), column)).astype(np.int64)
            rows, after = rows[after >= 0], after[after >= 0]
            # Where there is no choice the flow goes on to the next switch.
            forced = choices.size[after] == 1
            ends = rows[~forced]
            known = choices.spec_of[second[ends]] >= 0
            key = np.stack(
                [
                    choices.spec_of[first[index[ends]]],
                    choices.kind[chosen[index[ends]]],
                    position[ends],
                    choices.spec_of[second[ends]],
                    choices.kind[after[~forced]],
                ],
                axis=1,
            )[known]
            unique, at = np.unique(key, axis=0, return_index=True)
            for combination, row in zip(unique.tolist(), ends[known][at].tolist(), strict=True):
                found.setdefault(tuple(combination), (int(link[row]), int(second[row])))
            rows, after = rows[forced], after[forced]
            second[rows] = hops.node_after[choices.link[choices.first[after]]]
            if not len(rows):
                break
    return {key: value for key, value in found.items() if _computable(routing, key)}


def _computable(routing: Routing, key: tuple[int, int, int, int, int]) -> bool:
    """Whether both choices are functions of the flow: no spraying, and a LAG's hash is known."""
    choices = routing.choices
    probe = random_tuples(1)
    try:
        for spec, kind in ((key[0], key[1]), (key[3], key[4])):
            choices.choices[kind].pick(choices.specs[spec], probe)
    except UnknownChoiceError:
        return False
    return True


def cabled_nics(routing: Routing) -> Ints:
    """Port rows of NICs with a group and a cable that is up."""
    fabric = routing.fabric
    cabled = fabric.out_of_port >= 0
    if len(fabric.links.state):
        cabled &= fabric.links.state[fabric.out_of_port // 2] == LinkState.UP
    return np.flatnonzero((routing.group >= 0) & cabled)


def _uniform_flows(routing: Routing, seed: int) -> FlowColumns:
    """RoCEv2 flows between random NICs of different groups that have a route."""
    generator = np.random.default_rng(seed)
    hops, fabric = routing.hops, routing.fabric
    nics = cabled_nics(routing)
    groups = np.unique(routing.group[nics])
    if len(groups) > _GROUPS:
        nics = nics[np.isin(routing.group[nics], generator.choice(groups, _GROUPS, replace=False))]
    count = _PER_LINK * min(len(hops.between), _LINKS) if len(nics) else 0
    source, target = (generator.choice(nics, count) for _ in range(2))
    leaf = fabric.ports.node[fabric.directed_ports[fabric.out_of_port[source], 1]]
    apart = (routing.group[source] != routing.group[target]) & (hops.sets(leaf, hops.column[target]) >= 0)
    source, target = source[apart], target[apart]
    total = len(source)
    return FlowColumns(
        source,
        target,
        np.full(total, UDP),
        generator.integers(SPORT_FIRST, SPORT_LAST + 1, total),
        np.full(total, ROCE_PORT),
        generator.integers(0, 2**QPN_BITS, total),
    )
