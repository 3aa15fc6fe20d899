"""How long a schedule takes on known paths: its messages as a fluid that waits for what the schedule makes it wait for.

Each message starts when the steps of its sender that it depends on are over (`collectives.executors.program`), stands
behind earlier messages of its connection, shares links max-min fairly with all messages under way, and arrives a latency
after its last byte has left. So, unlike a sum over all edges, levels of a tree wait for one another, and two connections
that share a link only by turns do not slow each other. Left out: queues, congestion control, processors of the hosts.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectives.cost.maxmin import Paths, max_min_rates
from collectives.executors.program import Layout, program
from collectives.schedules import Schedule
from nettune.errors import InputError
from topology.loads import US_PER_BYTE_AT_1_GBPS

Floats = NDArray[np.float64]
Edge = tuple[int, int, int]
"""Source and destination rank, channel."""

_INSIDE_A_HOST = 1e18  # Gbit/s: what crosses no link takes no time
_SAME_TIME = 1e-9  # relative: messages that end together on paper end in one event


@dataclass(frozen=True)
class Lane:
    """What an edge's messages travel on.

    Attributes:
        connection: messages of equal connections follow one another.
        links: directed links; none inside a host.
        latency_us: from the last byte's leaving to the receiver's next step.
    """

    connection: object
    links: tuple[int, ...]
    latency_us: float = 0.0


class _Graph:
    """Steps of all ranks with the steps that each waits for."""

    def __init__(self, schedule: Schedule, elements: int) -> None:
        layout = Layout.of(schedule, elements)
        self.edge: list[Edge | None] = []
        self.elements: list[int] = []
        self.waiting: list[int] = []
        self.followers: list[list[int]] = []
        self.landing: dict[int, int] = {}
        sends: dict[tuple[int, int, int], int] = {}
        lands: dict[tuple[int, int, int], int] = {}
        for rank in range(schedule.ranks):
            base = len(self.edge)
            for step in program(schedule, layout, rank):
                message = step.message
                number = len(self.edge)
                key = (message.src, message.dst, message.tag)
                (sends if step.sends else lands)[key] = number
                self.edge.append((message.src, message.dst, message.channel) if step.sends else None)
                self.elements.append(message.elements)
                # A landing waits for its message too.
                self.waiting.append(len(step.after) + (not step.sends))
                self.followers.append([])
                for earlier in step.after:
                    self.followers[base + earlier].append(number)
        for key, number in sends.items():
            self.landing[number] = lands[key]


def schedule_time_us(
    schedule: Schedule,
    elements: int,
    item_bytes: float,
    lanes: Mapping[Edge, Lane],
    speed_gbps: Floats,
) -> float:
    """Microseconds from the common start until the last rank has its result.

    Args:
        schedule: what is carried out.
        elements: of the message.
        item_bytes: bytes on the wire for each element.
        lanes: of each edge of the schedule.
        speed_gbps: (2L,) of directed links.

    Raises:
        InputError: an edge without a lane, or a link without a speed.
    """
    return simulator(schedule, elements)(item_bytes, lanes, speed_gbps)


Simulator = Callable[[float, Mapping[Edge, Lane], Floats], float]
"""`schedule_time_us` of one schedule and number of elements; takes the other arguments."""


def simulator(schedule: Schedule, elements: int) -> Simulator:
    """`schedule_time_us` for many choices of lanes: the schedule is looked at once."""
    graph = _Graph(schedule, elements)
    return lambda item_bytes, lanes, speed_gbps: _Simulation(graph, item_bytes, lanes, speed_gbps).run()


class _Simulation:
    def __init__(
        self, graph: _Graph, item_bytes: float, lanes: Mapping[Edge, Lane], speed_gbps: Floats
    ) -> None:
        self._graph = graph
        self._item_bytes = item_bytes
        self._lanes = lanes
        self._speed = speed_gbps
        self._waiting = list(graph.waiting)
        self._queues: dict[object, deque[int]] = {}
        self._left: dict[int, float] = {}
        self._arrivals: list[tuple[float, int]] = []
        self._known: dict[frozenset[Edge | None], dict[Edge | None, float]] = {}
        self._now = 0.0

    def run(self) -> float:
        for number, waiting in enumerate(self._graph.waiting):
            if not waiting:
                self._release(number)
        while self._queues or self._arrivals:
            heads = [queue[0] for queue in self._queues.values()]
            rates = self._rates(heads)
            ends = [self._left[number] / rate for number, rate in zip(heads, rates, strict=True)]
            step = min(ends, default=np.inf)
            if self._arrivals:
                step = min(step, self._arrivals[0][0] - self._now)
            for number, rate, end in zip(heads, rates, ends, strict=True):
                self._left[number] -= rate * step
                if end <= step * (1 + _SAME_TIME):
                    self._left[number] = 0.0
            self._now += step
            self._depart([number for number in heads if not self._left[number]])
            while self._arrivals and self._arrivals[0][0] <= self._now * (1 + _SAME_TIME):
                landing = heapq.heappop(self._arrivals)[1]
                self._waiting[landing] -= 1
                if not self._waiting[landing]:
                    self._release(landing)
        return self._now

    def _rates(self, heads: Sequence[int]) -> list[float]:
        """Bytes per microsecond of the messages under way; a pipeline comes to the same set of them again and again."""
        edges = [self._graph.edge[number] for number in heads]
        known = self._known.get(frozenset(edges))
        if known is None:
            rates = max_min_rates(Paths.of([self._lane(number).links for number in heads]), self._speed)
            if not rates.all():
                raise InputError(
                    "a message crosses a link whose speed is not known; give the fabric's ports a speed"
                )
            per_us = np.minimum(rates, _INSIDE_A_HOST) / US_PER_BYTE_AT_1_GBPS
            known = self._known[frozenset(edges)] = dict(zip(edges, per_us.tolist(), strict=True))
        return [known[edge] for edge in edges]

    def _lane(self, number: int) -> Lane:
        edge = self._graph.edge[number]
        if edge is None or edge not in self._lanes:
            raise InputError(f"schedule: no path is given for {edge} (source, destination, channel)")
        return self._lanes[edge]

    def _release(self, number: int) -> None:
        """Steps whose predecessors are over, from one on: messages join their connection, others free their followers."""
        ready = [number]
        while ready:
            number = ready.pop()
            if self._graph.edge[number] is not None:
                self._left[number] = self._graph.elements[number] * self._item_bytes
                self._queues.setdefault(self._lane(number).connection, deque()).append(number)
            freed = []
            for follower in self._graph.followers[number]:
                self._waiting[follower] -= 1
                if not self._waiting[follower]:
                    freed.append(follower)
            ready.extend(reversed(freed))

    def _depart(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            lane = self._lane(number)
            queue = self._queues[lane.connection]
            queue.popleft()
            if not queue:
                del self._queues[lane.connection]
            heapq.heappush(self._arrivals, (self._now + lane.latency_us, self._graph.landing[number]))
