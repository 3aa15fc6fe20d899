"""All maps of a small problem: slots that no path tells apart are one class, and every class map is priced from a table.

With 3 leaves of 3 hosts there are 9! maps of 9 nodes, but 1,680 ways to spread them over the leaves, and 280 where the
leaves are alike. The table has the drawn bytes of every pair of units for every two classes, so that a map is a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.draws import DrawnPhase
from topology.fabric import LinkState, NodeKind
from topology.loads import US_PER_BYTE_AT_1_GBPS, sorted_percentile
from topology.placement.estimate import step_us
from topology.traffic import transfers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from topology.placement.problem import Problem
    from topology.traffic import Phase

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_MOST_TABLE = 1 << 24
"""Numbers in a table: 128 MiB."""
_BLOCK = 1 << 21
_MOST_UNITS = 200
_SLOWER = 8
"""How many times longer a map takes without a table."""


def class_of_slot(problem: Problem) -> Ints:
    """(S,) class of each slot: same switches, same routes, same speeds, same accelerator domain."""
    fabric, ports = problem.routing.fabric, problem.port_of_place
    wire = fabric.out_of_port[ports]
    far = np.where(wire >= 0, fabric.ports.node[fabric.directed_ports[wire, 1]], -1)
    speed = np.where(wire >= 0, fabric.directed_gbps[wire], 0.0)
    domain = fabric.nodes.nvl_domain[problem.rows[problem.slots]]
    others = np.zeros((len(ports), 0)) if problem.background is None else problem.background[wire]
    looks = np.concatenate([far, problem.routing.hops.column[ports], speed, domain, others], axis=1)
    _, found = np.unique(looks, axis=0, return_inverse=True)
    return found.ravel().astype(np.int64)


def twins(problem: Problem, classes: Ints) -> Ints:
    """(classes,) a class before it that may change names with it, -1 none: alike in size, speeds and switches above."""
    fabric, count = problem.routing.fabric, int(classes.max()) + 1
    found = np.full(count, -1, dtype=np.int64)
    if problem.pins or problem.background is not None:
        return found
    sizes = np.bincount(classes)
    sender, receiver = fabric.ports.node[fabric.directed_ports].T
    up = np.repeat(fabric.links.state == LinkState.UP, 2)
    seen: dict[tuple[object, ...], int] = {}
    for number in range(count):
        slot = int(np.argmax(classes == number))
        looks: list[object] = [int(sizes[number])]
        for port in problem.port_of_place[slot].tolist():
            wire = int(fabric.out_of_port[port])
            leaf = int(receiver[wire])
            rows = np.flatnonzero((sender == leaf) & up & (fabric.nodes.kind[receiver] == NodeKind.SWITCH))
            rows = rows[np.argsort(fabric.directed_ports[rows, 0])]
            looks += [
                float(fabric.directed_gbps[wire]),
                *receiver[rows].tolist(),
                *fabric.directed_gbps[rows].tolist(),
            ]
        if (fabric.nodes.nvl_domain[problem.rows[problem.slots[slot]]] >= 0).any():
            looks.append(number)
        key = tuple(looks)
        found[number] = seen.get(key, -1)
        seen[key] = number
    return found


def class_maps(problem: Problem, classes: Ints, most: int) -> Ints | None:
    """(M, units) class of each unit in every different map; None where there are more than `most`, or too many units."""
    if problem.units > _MOST_UNITS:
        return None
    before = twins(problem, classes)
    free = np.bincount(classes).tolist()
    pinned = [int(classes[slot]) if slot >= 0 else -1 for slot in problem.pinned.tolist()]
    for chosen in pinned:
        if chosen >= 0:
            free[chosen] -= 1
    found: list[tuple[int, ...]] = []
    whole = list(free)

    def extend(head: tuple[int, ...]) -> bool:
        if len(head) == problem.units:
            found.append(head)
            return len(found) <= most
        fixed = pinned[len(head)]
        if fixed >= 0:
            return extend((*head, fixed))
        for number in range(len(free)):
            twin = int(before[number])
            # Of classes that are alike the earlier is used first.
            if not free[number] or (
                twin >= 0 and free[number] == whole[number] and free[twin] == whole[twin]
            ):
                continue
            free[number] -= 1
            go_on = extend((*head, number))
            free[number] += 1
            if not go_on:
                return False
        return True

    return np.array(found, dtype=np.int64).reshape(-1, problem.units) if extend(()) else None


class ClassTable:
    """Prices of class maps, those of `topology.placement.pricing.Prices` but for rounding."""

    def __init__(self, problem: Problem, classes: Ints) -> None:
        self._problem, fabric = problem, problem.routing.fabric
        speed = fabric.directed_gbps
        self._per_byte = np.divide(US_PER_BYTE_AT_1_GBPS, speed, out=np.zeros_like(speed), where=speed > 0)
        self._links = problem.routing.hops.between
        self._count = int(classes.max()) + 1
        first = [np.flatnonzero(classes == number) for number in range(self._count)]
        # The second slot of a class stands for the other end of an edge inside it.
        self._example = np.array([(slots[0], slots[min(1, len(slots) - 1)]) for slots in first])
        self._phases = [self._of(phase, number) for number, phase in enumerate(problem.traffic.phases)]

    @staticmethod
    def fits(problem: Problem, classes: Ints) -> bool:
        """Whether a table is small enough, and NICs' bytes are the same in every map."""
        size, count = problem.ranks_in_a_unit, int(classes.max()) + 1
        pairs = sum(
            len(np.unique(phase.src // size * problem.units + phase.dst // size))
            for phase in problem.traffic.phases
        )
        numbers = pairs * count**2 * problem.draws * max(len(problem.routing.hops.between), 1)
        domains = problem.routing.fabric.nodes.nvl_domain[problem.rows]
        return numbers <= _MOST_TABLE and problem.background is None and not (domains >= 0).any()

    def _of(self, phase: Phase, number: int) -> tuple[Ints, Ints, Floats, Floats]:
        """Units at both ends of each pair; (pairs, c, c, D, B) bytes; (units, c) time of the busiest NIC."""
        problem, size = self._problem, self._problem.ranks_in_a_unit
        keys, index = np.unique(phase.src // size * problem.units + phase.dst // size, return_inverse=True)
        src, dst = keys // problem.units, keys % problem.units
        table = np.zeros((len(keys), self._count, self._count, problem.draws, len(self._links)))
        for pair in range(len(keys)):
            rows = np.flatnonzero(index == pair)
            for one in range(self._count):
                for other in range(self._count):
                    if src[pair] == dst[pair] and one != other:
                        continue
                    table[pair, one, other] = self._drawn(phase, number, rows, (one, other))
        return src, dst, table, self._nic_us(phase)

    def _drawn(self, phase: Phase, number: int, rows: Ints, between: tuple[int, int]) -> Floats:
        problem, size = self._problem, self._problem.ranks_in_a_unit
        src, dst = self._example[between[0], 0], self._example[between[1], 1]
        if len(rows) and phase.src[rows[0]] // size == phase.dst[rows[0]] // size:
            dst = src
        nic = np.zeros(problem.traffic.ranks, dtype=np.int64)
        nic[phase.src[rows]] = problem.port_of_place[src][phase.src[rows] % size]
        nic[phase.dst[rows]] = problem.port_of_place[dst][phase.dst[rows] % size]
        drawn = DrawnPhase.of(problem.routing, transfers(phase, nic, rows), (problem.seed, number))
        loads = np.tile(drawn.forced[self._links], (problem.draws, 1))
        for which, block in drawn.blocks(problem.draws):
            loads[which] += block
        return loads

    def _nic_us(self, phase: Phase) -> Floats:
        problem, size = self._problem, self._problem.ranks_in_a_unit
        apart = phase.src // problem.ranks_per_host != phase.dst // problem.ranks_per_host
        found = np.zeros((problem.units, self._count))
        for number in range(self._count):
            ports = problem.port_of_place[self._example[number, 0]]
            _, nic = np.unique(ports, return_inverse=True)
            out = problem.routing.fabric.out_of_port[ports]
            per_byte = self._per_byte[out]
            for rank in (phase.src[apart], phase.dst[apart]):
                count = int(nic.max()) + 1
                total = np.bincount(
                    rank // size * count + nic[rank % size],
                    phase.edge_bytes[apart] * per_byte[rank % size],
                    minlength=problem.units * count,
                )
                found[:, number] = np.maximum(
                    found[:, number], total.reshape(problem.units, count).max(axis=1)
                )
        return found

    def prices(self, maps: Ints) -> tuple[Floats, Floats]:
        """(M,) p95 of the step's time of (M, units) class maps, and (M,) mean bytes on links between switches."""
        draws, wide = self._problem.draws, max(len(self._links), 1)
        step = max(1, _BLOCK // (draws * wide))
        parts = [self._block(maps[begin : begin + step]) for begin in range(0, len(maps), step)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _block(self, maps: Ints) -> tuple[Floats, Floats]:
        draws, times, hop_bytes = self._problem.draws, [], np.zeros(len(maps))
        units = np.arange(self._problem.units)
        for src, dst, table, nic_us in self._phases:
            loads = np.zeros((len(maps), draws, len(self._links)))
            for pair, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
                loads += table[pair, maps[:, a], maps[:, b]]
            busy = (loads * self._per_byte[self._links]).max(axis=2, initial=0.0)
            hop_bytes += loads.sum(axis=(1, 2)) / draws
            times.append(np.maximum(busy, nic_us[units, maps].max(axis=1)[:, None]))
        stacked = np.stack(times) if times else np.zeros((0, len(maps), draws))
        step = step_us(self._problem.traffic.phases, stacked)
        return sorted_percentile(np.sort(step, axis=1).T, 95), hop_bytes


def best_of_all(problem: Problem, most: int) -> Ints | None:
    """(units,) slots of the best map, by exhaustion over all class maps; None where there are more than `most`."""
    from topology.placement.pricing import Prices

    classes = class_of_slot(problem)
    table = ClassTable.fits(problem, classes)
    maps = class_maps(problem, classes, most if table else most // _SLOWER)
    if maps is None:
        return None
    if table:
        time_us, hop_bytes = ClassTable(problem, classes).prices(maps)
    else:
        prices = Prices(problem)
        found = [prices.price(slots_of_classes(problem, classes, one)) for one in maps]
        time_us, hop_bytes = (np.array(column) for column in zip(*found, strict=True))
    least = float(time_us.min())
    as_fast = np.flatnonzero(time_us <= least * (1 + 1e-9))
    return slots_of_classes(problem, classes, maps[as_fast[np.argmin(hop_bytes[as_fast])]])


def slots_of_classes(problem: Problem, classes: Ints, chosen: Ints) -> Ints:
    """(units,) slots of a class map, those of a class in order."""
    found = problem.pinned.copy()
    queues: list[Iterator[int]] = [
        iter(np.setdiff1d(np.flatnonzero(classes == number), found[found >= 0]).tolist())
        for number in range(int(classes.max()) + 1)
    ]
    for unit in np.flatnonzero(found < 0).tolist():
        found[unit] = next(queues[int(chosen[unit])])
    return found
