"""Max-min fair rates of flows on fixed paths, and a step of them as a fluid: flows end, the rest share again.

Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2; from memory): all rates rise together until a link is
full, its flows stop rising, and so on. Filled here many links at a time: a link whose fair share is the least along each
of its flows is full before any of them is stopped elsewhere, because shares only grow, so all such links are final at
once. What this leaves out: queues, congestion control, start-up, loss. It is the sweep tier, not the packet tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nettune.errors import InputError
from topology.draws import check_draws, flow_numbers
from topology.hops import flows_of
from topology.loads import US_PER_BYTE_AT_1_GBPS, percentiles
from topology.placement.mapping import Placement
from topology.results import NetworkResult, PhaseResult
from topology.routing import Routing
from topology.traffic import Phase, StepTraffic, Transfers, check_step, transfers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SAME_SHARE = 1e-12  # relative: shares of links that are equal on paper differ by rounding
_SAME_TIME = 1e-9  # relative: flows that end together on paper end in one event


@dataclass(frozen=True)
class Paths:
    """Links of F flows one after the other: flow f has `link[start[f] : start[f + 1]]`.

    Attributes:
        link: (K,) links.
        start: (F + 1,) where each flow's links begin; a flow may have none (both ends in one host).
    """

    link: Ints
    start: Ints

    @classmethod
    def of(cls, paths: Sequence[Sequence[int]]) -> Paths:
        """From the links of each flow."""
        lengths = [len(path) for path in paths]
        flat = [link for path in paths for link in path]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(np.array(flat, dtype=np.int64), start)

    @property
    def flow(self) -> Ints:
        """(K,) flow of each entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def only(self, flows: Bools) -> Paths:
        """Paths of the flows that a (F,) mask keeps."""
        lengths = np.diff(self.start)[flows]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Paths(self.link[flows[self.flow]], start)


def max_min_rates(paths: Paths, speed: Floats) -> Floats:
    """(F,) rates in the unit of the (L,) speeds; infinite for a flow without links, 0 over a link without speed."""
    flow, link = paths.flow, paths.link
    rates = np.full(len(paths.start) - 1, np.inf)
    free = np.asarray(speed, dtype=np.float64).copy()
    while len(link):
        crossing = np.bincount(link, minlength=len(free))
        share = np.divide(free, crossing, out=np.full(len(free), np.inf), where=crossing > 0)
        # The least share along each flow, then the least of these on each link.
        least = np.full(len(rates), np.inf)
        np.minimum.at(least, flow, share[link])
        lowest = np.full(len(free), np.inf)
        np.minimum.at(lowest, link, least[flow])
        full = (crossing > 0) & (share <= lowest * (1 + _SAME_SHARE))
        done = np.zeros(len(rates), dtype=np.bool_)
        done[flow[full[link]]] = True
        rates[done] = least[done]
        ended = done[flow]
        taken = np.bincount(link[ended], least[flow[ended]], minlength=len(free))
        free = np.maximum(free - taken, 0.0)
        flow, link = flow[~ended], link[~ended]
    return rates


def finish_us(
    paths: Paths,
    flow_bytes: Floats,
    speed_gbps: Floats,
    phase: Ints,
    after: Sequence[Sequence[int]],
    compute_us: Sequence[float] = (),
) -> tuple[Floats, Floats, Floats]:
    """When each phase starts, has sent all, and is over, microseconds; its flows share links with all that run then.

    Args:
        paths: links of each flow.
        flow_bytes: (F,) bytes.
        speed_gbps: (L,) speeds.
        phase: (F,) phase of each flow, below len(after).
        after: for each phase the phases that must be over before it starts, each of a lower number.
        compute_us: computation beside each phase, which is over when both are; none by default.

    Raises:
        InputError: a flow crosses a link without a speed.
    """
    left = flow_bytes.astype(np.float64)
    left[np.diff(paths.start) == 0] = 0.0
    alive = left > 0
    beside = np.array(compute_us or [0.0] * len(after), dtype=np.float64)
    begin, sent, over = (np.full(len(after), np.inf) for _ in range(3))
    now = 0.0
    while True:
        _turn_over(now, np.bincount(phase[alive], minlength=len(after)), after, beside, (begin, sent, over))
        running = alive & np.isfinite(begin)[phase]
        pauses = over[np.isfinite(over) & (over > now)]
        if not running.any() and not len(pauses):
            return begin, sent, over
        step = float(pauses.min()) - now if len(pauses) else np.inf
        if running.any():
            # In bytes per microsecond.
            rates = max_min_rates(paths.only(running), speed_gbps) / US_PER_BYTE_AT_1_GBPS
            if not rates.all():
                raise InputError(
                    "a flow crosses a link whose speed is not known; give the fabric's ports a speed"
                )
            needed = left[running] / rates
            step = min(step, float(needed.min()))
            ended = needed <= step * (1 + _SAME_TIME)
            left[running] = np.where(ended, 0.0, left[running] - rates * step)
            alive = left > 0
        now = float(pauses.min()) if len(pauses) and now + step >= pauses.min() else now + step


def _turn_over(
    now: float,
    waiting: NDArray[np.intp],
    after: Sequence[Sequence[int]],
    compute_us: Floats,
    times: tuple[Floats, Floats, Floats],
) -> None:
    """Start each phase whose predecessors are over, end each that has nothing left; in order, so one call settles all."""
    begin, sent, over = times
    for number, others in enumerate(after):
        if not np.isfinite(begin[number]) and all(over[other] <= now for other in others):
            begin[number] = now
        if not np.isfinite(sent[number]) and np.isfinite(begin[number]) and not waiting[number]:
            sent[number] = now
            over[number] = max(now, begin[number] + compute_us[number])


def simulate(
    routing: Routing, placement: Placement, traffic: StepTraffic, *, draws: int = 20, seed: int = 0
) -> NetworkResult:
    """A step as a fluid with max-min fair rates, one simulation for each of D port draws; method `max-min`.

    Phases that run at the same time share links. The draws are those of method max-link: of one seed, both
    price the same paths.

    Raises:
        InputError: as `topology.traffic.check_step`; no draw, or a used link has no speed.
        UnknownPathError: a transfer has no route.
    """
    check_step(traffic, placement.ranks)
    check_draws(draws)
    phases = list(traffic.phases)
    numbers = {phase.name: number for number, phase in enumerate(phases)}
    after = [[numbers[name] for name in phase.after] for phase in phases]
    compute = [phase.compute_us for phase in phases]
    speed = routing.fabric.directed_gbps
    flows = [_Flows.of(routing, placement, phase, (seed, number)) for number, phase in enumerate(phases)]
    times = np.zeros((draws, len(phases)))
    step = np.zeros(draws)
    loads = np.zeros((len(phases), len(speed)))
    owner = np.repeat(np.arange(len(phases)), [len(found.carried) for found in flows])
    carried = np.concatenate([np.empty(0), *(found.carried for found in flows)])
    for draw in range(draws):
        paths = Paths.of([path for found in flows for path in found.drawn(draw)])
        begin, sent, over = finish_us(paths, carried, speed, owner, after, compute)
        times[draw], step[draw] = sent - begin, over.max(initial=0.0)
        np.add.at(loads, (owner[paths.flow], paths.link), carried[paths.flow] / draws)
    results = [
        PhaseResult(phase.name, percentiles(times[:, number]), loads[number])
        for number, phase in enumerate(phases)
    ]
    return NetworkResult("max-min", tuple(results), percentiles(step))


_Alternatives = tuple[Floats, list[tuple[int, ...]]]


@dataclass(frozen=True)
class _Flows:
    """Transfers of a phase that use the network: rows, paths of each with cumulated probabilities, and bytes."""

    moved: Transfers
    rows: Ints
    alternatives: list[_Alternatives]
    carried: Floats
    seed: tuple[int, int]

    @classmethod
    def of(cls, routing: Routing, placement: Placement, phase: Phase, seed: tuple[int, int]) -> _Flows:
        moved = transfers(phase, placement.nic)
        rows = flows_of(routing, moved).row
        known: dict[tuple[int, int], _Alternatives] = {}
        found: list[_Alternatives] = []
        for pair in zip(moved.src_port[rows].tolist(), moved.dst_port[rows].tolist(), strict=True):
            if pair not in known:
                paths = routing.alternatives(*pair)
                known[pair] = (np.cumsum([p for p, _ in paths]), [links for _, links in paths])
            found.append(known[pair])
        return cls(moved, rows, found, moved.bytes_[rows], seed)

    def drawn(self, draw: int) -> list[tuple[int, ...]]:
        """Links of each flow in one draw."""
        (numbers,) = flow_numbers(self.moved, self.rows, self.seed, (draw, draw + 1))
        return [
            links[min(int(np.searchsorted(edges, value, side="right")), len(links) - 1)]
            for (edges, links), value in zip(self.alternatives, numbers.tolist(), strict=True)
        ]
