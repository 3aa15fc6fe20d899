"""Jobs as rows of a workload: schedules of collectives step by step, a training step phase by phase, plain flows.

Each function takes the rows after which each rank may begin, and returns those after which each rank is done, so that
jobs, phases and iterations follow one another rank by rank, without barriers that no network has.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from topology.traffic import check_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collectives.scenarios.workload import WorkloadBuilder
    from collectives.schedules import Schedule
    from topology.fabric import Fabric
    from topology.traffic import Phase, StepTraffic

Rows = list[int]


@dataclass(frozen=True)
class Member:
    """A job on its NICs.

    Attributes:
        builder: takes the rows.
        fabric: whose ports.
        name: of the job; phases begin with it.
        ports: port row of each rank's NIC.
        connections: queue pairs over which each message is split.
        priority: lossless class.
    """

    builder: WorkloadBuilder
    fabric: Fabric
    name: str
    ports: Sequence[int]
    connections: int = 1
    priority: int = 0

    def send(
        self,
        ranks: tuple[int, int],
        bytes_: float,
        phase: str,
        after: Iterable[int],
        *,
        channel: int = 0,
        connections: int | None = None,
    ) -> Rows:
        """Rows of one message; a moment where both ranks sit in one host or accelerator domain."""
        ports = self.ports[ranks[0]], self.ports[ranks[1]]
        waits = list(dict.fromkeys(after))
        if not bytes_ or self._together(*ports):
            return [self.builder.moment(waits)]
        parts = self.connections if connections is None else connections
        return [
            self.builder.flow(
                ports,
                bytes_ / parts,
                f"{self.name}/{phase}",
                after=waits,
                connection=(self.name, *ranks, channel, part),
                priority=self.priority,
            )
            for part in range(parts)
        ]

    def _together(self, one: int, other: int) -> bool:
        first, second = int(self.fabric.ports.node[one]), int(self.fabric.ports.node[other])
        domain = self.fabric.nodes.nvl_domain
        return first == second or (domain[first] >= 0 and bool(domain[first] == domain[second]))


def add_schedule(job: Member, schedule: Schedule, size_bytes: float, ready: Rows, phase: str) -> Rows:
    """A collective, each step after those that wrote its chunk at its sender, as `Schedule` promises.

    Chunks that go from one rank to another in one round by one channel are one message.

    Returns:
        A moment for each rank: all that it sends and receives is over.
    """
    wrote: dict[tuple[int, int], Rows] = {}
    read: dict[tuple[int, int], Rows] = defaultdict(list)
    touched: list[Rows] = [[row] for row in ready]
    for step in schedule.rounds():
        messages: dict[tuple[int, int, int], list[tuple[int, bool]]] = defaultdict(list)
        columns = (step.src, step.dst, step.chunk, step.channel, step.reduce)
        for src, dst, chunk, channel, reduce in zip(*(one.tolist() for one in columns), strict=True):
            messages[src, dst, channel].append((chunk, reduce))
        sent: list[tuple[tuple[int, int, int], list[tuple[int, bool]], Rows]] = []
        for (src, dst, channel), chunks in messages.items():
            after = [ready[src], ready[dst]]
            for chunk, _ in chunks:
                after += wrote.get((src, chunk), ())
                after += read.get((dst, chunk), ())
            bytes_ = size_bytes * float(sum(schedule.share[chunk] for chunk, _ in chunks))
            rows = job.send((src, dst), bytes_, phase, after, channel=channel)
            sent.append(((src, dst, channel), chunks, rows))
            touched[src] += rows
            touched[dst] += rows
        # Inside a round everything is read before anything is written.
        for (src, _, _), chunks, rows in sent:
            for chunk, _ in chunks:
                read[src, chunk] += rows
        for (_, dst, _), chunks, rows in sent:
            for chunk, reduce in chunks:
                wrote[dst, chunk] = [*wrote.get((dst, chunk), ()), *rows] if reduce else rows
                read[dst, chunk] = []
    return [job.builder.moment(rows) for rows in touched]


def add_step(job: Member, traffic: StepTraffic, ready: Rows, iteration: str = "") -> Rows:
    """A training step: all edges of a phase at once, phases after one another as their `after` says.

    A rank begins a phase when itself and its partner are done with the phases before; with `compute_us` it is done with
    the phase only when that time has passed too.

    Returns:
        A moment for each rank.

    Raises:
        InputError: as `topology.traffic.check_step`.
    """
    check_step(traffic, len(job.ports))
    done: dict[str, Rows] = {}
    for phase in traffic.phases:
        begins = [[done[name][rank] for name in phase.after] or [row] for rank, row in enumerate(ready)]
        touched = _phase(job, phase, begins, f"{phase.name}{iteration}")
        if phase.compute_us:
            for rank, begin in enumerate(begins):
                touched[rank].append(job.builder.moment(begin, gap_us=phase.compute_us))
        done[phase.name] = [job.builder.moment(rows) for rows in touched]
    return [
        job.builder.moment([row, *(rows[rank] for rows in done.values())]) for rank, row in enumerate(ready)
    ]


def _phase(job: Member, phase: Phase, begins: Sequence[Rows], name: str) -> list[Rows]:
    touched = [list(begin) for begin in begins]
    edges = zip(phase.src.tolist(), phase.dst.tolist(), phase.edge_bytes.tolist(), strict=True)
    for src, dst, bytes_ in edges:
        rows = job.send((src, dst), bytes_, name, [*begins[src], *begins[dst]], connections=phase.connections)
        touched[src] += rows
        touched[dst] += rows
    return touched


def add_pairs(
    job: Member, pairs: Sequence[tuple[int, int]], size_bytes: float, ready: Rows, phase: str
) -> Rows:
    """The same message between each of these pairs of ranks, all at once.

    Returns:
        A moment for each rank.
    """
    touched: list[Rows] = [[row] for row in ready]
    for src, dst in pairs:
        rows = job.send((src, dst), size_bytes, phase, [ready[src], ready[dst]])
        touched[src] += rows
        touched[dst] += rows
    return [job.builder.moment(rows) for rows in touched]


def starts(
    builder: WorkloadBuilder, ranks: int, start_us: float, jitter_us: float, random: np.random.Generator
) -> Rows:
    """A moment for each rank at which it begins: uniform between the start and the start + jitter."""
    late = random.random(ranks) * jitter_us
    return [builder.moment(start_us=start_us + float(one)) for one in late]


def again(builder: WorkloadBuilder, done: Rows, compute_us: float) -> Rows:
    """When each rank begins the next iteration: it computes for `compute_us` first."""
    return [builder.moment([row], gap_us=compute_us) for row in done]
