"""`Prices`: what a map costs, quickly when it differs from the last accepted one in a few ranks.

Only the edges of ranks whose NIC changed are taken off the links and put on again, with the same port draws. The price is
that of `topology.loads.predict`, but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from topology.draws import DrawnPhase
from topology.loads import US_PER_BYTE_AT_1_GBPS, sorted_percentile
from topology.traffic import Transfers, transfers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem
    from topology.traffic import Phase

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Adding and taking away the same bytes may leave this share of them on a link.
_ROUNDING = 1e-9


class Price(NamedTuple):
    """What a map costs: p95 of the step's time over port draws, then bytes x links crossed."""

    time_us: float
    hop_bytes: float


@dataclass(frozen=True)
class _State:
    """A phase under a map: (2L,) bytes without a choice, (D, B) drawn bytes, (D,) times."""

    forced: Floats
    drawn: Floats
    times: Floats


class Prices:
    """Prices of maps of one problem; a map is the number of each rank's host in `problem.hosts`.

    Raises:
        InputError: a host without a NIC.
        UnknownPathError: two hosts have no route between them.
    """

    def __init__(self, problem: Problem) -> None:
        fabric = problem.routing.fabric
        self._problem = problem
        self._nics = problem.nic_table
        self._links = problem.routing.hops.between
        speed = fabric.directed_gbps
        # A link of unknown speed costs nothing here; `predict` refuses the map in the end if it is used.
        self._per_byte = np.divide(US_PER_BYTE_AT_1_GBPS, speed, out=np.zeros_like(speed), where=speed > 0)
        self._nic = np.full(problem.traffic.ranks, -1, dtype=np.int64)
        empty = _State(
            np.zeros(len(speed)), np.zeros((problem.draws, len(self._links))), np.zeros(problem.draws)
        )
        self._states = [empty] * len(problem.traffic.phases)
        self._tried = (self._nic, self._states)

    def price(self, hosts: Ints) -> Price:
        """Price of a map; `accept` makes it the one that the next are compared with."""
        problem = self._problem
        nic = self._nic_of(hosts)
        moved = nic != self._nic
        states = [
            self._changed(phase, number, moved, nic) for number, phase in enumerate(problem.traffic.phases)
        ]
        self._tried = (nic, states)
        ends: dict[str, Floats] = {}
        step = np.zeros(problem.draws)
        for phase, state in zip(problem.traffic.phases, states, strict=True):
            end = np.maximum(state.times, phase.compute_us)
            if phase.after:
                end = end + np.max([ends[name] for name in phase.after], axis=0)
            ends[phase.name] = end
            step = np.maximum(step, end)
        hop_bytes = sum(float(state.forced.sum() + state.drawn.sum() / problem.draws) for state in states)
        return Price(float(sorted_percentile(np.sort(step), 95)), hop_bytes)

    def accept(self) -> None:
        """Keep the map that was priced last."""
        self._nic, self._states = self._tried

    def _nic_of(self, hosts: Ints) -> Ints:
        """NIC of each rank: ranks on one host take its rails in turn, as in `Placement.of_hosts`."""
        order = np.argsort(hosts, kind="stable")
        ordered = hosts[order]
        place = np.empty(len(hosts), dtype=np.int64)
        place[order] = np.arange(len(hosts)) - np.searchsorted(ordered, ordered)
        table, counts = self._nics
        nic: Ints = table[hosts, place % counts[hosts]]
        return nic

    def _changed(self, phase: Phase, number: int, moved: NDArray[np.bool_], nic: Ints) -> _State:
        state = self._states[number]
        edges = np.flatnonzero(moved[phase.src] | moved[phase.dst])
        if not len(edges):
            return state
        new = transfers(phase, nic, edges)
        change = new if self._nic[0] < 0 else _difference(new, transfers(phase, self._nic, edges))
        drawn = DrawnPhase.of(self._problem.routing, change, (self._problem.seed, number))
        forced = state.forced + drawn.forced
        loads = state.drawn.copy()
        for which, block in drawn.blocks(self._problem.draws):
            loads[which] += block
        least = _ROUNDING * float(phase.edge_bytes.max(initial=0.0))
        through = forced[self._links]
        alone = forced * self._per_byte
        busy = np.where(loads > least, loads + through, 0.0) * self._per_byte[self._links]
        return _State(forced, loads, np.maximum(busy.max(axis=1, initial=0.0), alone.max(initial=0.0)))


def _difference(new: Transfers, old: Transfers) -> Transfers:
    return Transfers(
        np.concatenate([new.src_port, old.src_port]),
        np.concatenate([new.dst_port, old.dst_port]),
        np.concatenate([new.bytes_, -old.bytes_]),
        np.concatenate([new.edge, old.edge]),
        np.concatenate([new.connection, old.connection]),
    )
