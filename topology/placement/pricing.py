"""`Prices`: what a map costs, quickly when it differs from the last accepted one in a few ranks.

Only the edges of ranks whose NIC changed are taken off the links and put on again, with the same port draws. The price is
that of `topology.loads.predict`, but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from topology.draws import DrawnPhase
from topology.loads import US_PER_BYTE_AT_1_GBPS, sorted_percentile
from topology.placement.estimate import step_us
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
    """Prices of maps of one problem; a map is the slot of each unit.

    Raises:
        InputError: a host without a NIC.
        UnknownPathError: two hosts have no route between them.
    """

    def __init__(self, problem: Problem) -> None:
        fabric = problem.routing.fabric
        self._problem = problem
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

    def price(self, slot_of_unit: Ints) -> Price:
        """Price of a map; `accept` makes it the one that the next are compared with."""
        problem = self._problem
        nic = problem.nics(slot_of_unit)
        moved = nic != self._nic
        states = [
            self._changed(phase, number, moved, nic) for number, phase in enumerate(problem.traffic.phases)
        ]
        self._tried = (nic, states)
        times = np.stack([state.times for state in states]) if states else np.zeros((0, problem.draws))
        if problem.background is not None:
            whole = float(times.mean(axis=1).sum())
            share = times.mean(axis=1) / whole if whole else times.mean(axis=1)
            times = np.stack(
                [
                    self._times(state, problem.background * part)
                    for state, part in zip(states, share, strict=True)
                ]
            )
        step = step_us(problem.traffic.phases, times)
        hop_bytes = sum(float(state.forced.sum() + state.drawn.sum() / problem.draws) for state in states)
        return Price(float(sorted_percentile(np.sort(step), 95)), hop_bytes)

    def accept(self) -> None:
        """Keep the map that was priced last."""
        self._nic, self._states = self._tried

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
        forced[np.abs(forced) <= least] = 0.0
        loads[np.abs(loads) <= least] = 0.0
        changed = _State(forced, loads, state.times)
        return replace(changed, times=self._times(changed, None))

    def _times(self, state: _State, others: Floats | None) -> Floats:
        """(D,) time of the busiest link, as `topology.loads.phase_times` has it."""
        met = state.forced if others is None else state.forced + others
        alone = np.where(state.forced > 0, met, 0.0) * self._per_byte
        between = np.where(state.drawn > 0, state.drawn + met[self._links], 0.0) * self._per_byte[self._links]
        times: Floats = np.maximum(between.max(axis=1, initial=0.0), alone.max(initial=0.0))
        return times


def predicted_price(problem: Problem, slot_of_unit: Ints) -> Price:
    """Price of one map, without keeping what the next could start from: for fabrics where that is hundreds of megabytes.

    Raises:
        UnknownPathError: two hosts have no route between them.
    """
    result = problem.predicted(problem.placement(slot_of_unit, ""))
    return Price(result.time_us[2], float(result.link_bytes.sum()))


def _difference(new: Transfers, old: Transfers) -> Transfers:
    return Transfers(
        np.concatenate([new.src_port, old.src_port]),
        np.concatenate([new.dst_port, old.dst_port]),
        np.concatenate([new.bytes_, -old.bytes_]),
        np.concatenate([new.edge, old.edge]),
        np.concatenate([new.connection, old.connection]),
    )
