"""What one run gives: completion times, counters, samples, and why it stopped where it did not end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from collectives.fabric_sim.core import Status
from collectives.fabric_sim.network import PS_PER_US, Network


@dataclass(frozen=True)
class Result:
    """What one run gives. Arrays are `array.array`; `numpy.asarray` takes them without a copy.

    Attributes:
        network: that was simulated.
        classes: data classes in use; per-class columns have a value for each link and class.
        seed: of the run.
        start_us: when each flow might start at the earliest (flows that wait for others start later).
        finish_ps: last acknowledgement at the sender; -1: not finished.
        delivered_ps: last byte at the receiver; -1: not.
        total: counters of the whole run (`core.TOTALS`).
        column: counters of each flow, link, or link and class (`core.RESULTS`).
        samples: rows of (ps, queue bytes of each watched link, bit/s of each watched flow), flat.
        sample_width: values in a row.
        waits: (link, link) pairs at the end: the first is paused by PFC and waits for the second, which is paused, too.
    """

    network: Network
    classes: int
    seed: int
    status: Status
    start_us: array[float]
    finish_ps: array[int]
    delivered_ps: array[int]
    total: dict[str, int]
    column: dict[str, array[Any]] = field(repr=False)
    samples: array[float] = field(repr=False)
    sample_width: int
    waits: tuple[tuple[int, int], ...]

    @property
    def fct_us(self) -> list[float]:
        """Completion time of each flow that finished, from its start to the last acknowledgement."""
        return [
            done / PS_PER_US - start
            for done, start in zip(self.finish_ps, self.start_us, strict=True)
            if done >= 0
        ]

    def stuck(self) -> str | None:
        """Why flows are left although nothing moves, in one line; None where all is well."""
        if self.status is not Status.STUCK:
            return None
        left = self.total["unfinished"]
        if self.waits:
            circle = circle_of(self.waits)
            name = self.network.link_name
            if circle:
                ports = ", ".join(f"{name(a)} paused behind {name(b)}" for a, b in circle[:6])
                more = f" and {len(circle) - 6} more" if len(circle) > 6 else ""
                return f"PFC deadlock, {left} flows left: {ports}{more}; route up-down, or break the circle of buffers"
        paused = [i // self.classes for i, is_paused in enumerate(self.column["link_is_paused"]) if is_paused]
        if paused:
            ports = ", ".join(self.network.link_name(link) for link in paused[:4])
            return f"no progress, {left} flows left: paused ports are {ports}"
        lost = self.total["losses"] + self.total["drops"]
        if lost:
            return f"no progress, {left} flows left: {lost} packets were lost and nothing sends them again; set a time-out"
        return f"no progress, {left} flows left: they wait for flows that never end (a circle of `after`, or a failed flow)"


def circle_of(waits: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A circle in a relation "waits for", as its pairs in order; empty where there is none."""
    after: dict[int, list[int]] = {}
    for a, b in waits:
        after.setdefault(a, []).append(b)
    done: set[int] = set()
    for start in after:
        trail: list[int] = []
        node: int | None = start
        while node is not None and node not in done and node not in trail:
            trail.append(node)
            node = next((b for b in after.get(node, ()) if b not in done), None)
        if node is not None and node in trail:
            circle = [*trail[trail.index(node) :], node]
            return list(pairwise(circle))
        done.update(trail)
    return []
