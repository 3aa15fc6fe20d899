"""Alpha and beta of each class of paths, from messages that go back and forth between two ranks that are alone.

A trip is half of a round trip, several of them behind one barrier. The classes are those of
`collectives.prediction.path_class`; of each, some pairs are measured, other ones in each initialisation.

Alpha is the time of messages that take the wire next to no time, beta the slope between two that fill it for long. A
line through sizes in between says more than the link's rate: the first bytes of each message pass at once through what
token buckets have saved up, and others late by TCP's slow start; in a difference of two long messages neither is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from collectives.bench import Method, Progress
from collectives.communicator import Communicator, Seat, connected
from collectives.cost.alpha_beta import Model, Point, Terms, fit
from collectives.prediction import Links, path_class
from nettune.errors import InputError
from nettune.launch.caller import Caller

if TYPE_CHECKING:
    from topology.routing import Routing

SHORT_BYTES = (8, 16, 32)  # less than their headers
LONG_BYTES = (256 << 10, 2 << 20)  # token buckets of 2 ms hold 25 kB at 100 Mbit/s
_TRIPS = 2  # round trips behind one barrier: the ranks leave it at different moments


def pairs_by_class(
    routing: Routing | None, nics: Sequence[int], ranks: int
) -> dict[str, list[tuple[int, int]]]:
    """Pairs of ranks of each class of paths; one class where no fabric is known."""
    pairs = [(one, other) for one in range(ranks) for other in range(one + 1, ranks)]
    if routing is None:
        return {"all": pairs}
    found: dict[str, list[tuple[int, int]]] = {}
    for one, other in pairs:
        links: Links = routing.alternatives(int(nics[one]), int(nics[other]))[0][1]
        found.setdefault(path_class(links), []).append((one, other))
    return found


def fitted(
    agents: Caller,
    seats: Sequence[Seat],
    classes: dict[str, list[tuple[int, int]]],
    method: Method,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Model:
    """Measure and fit.

    Args:
        agents: running agents.
        seats: of the ranks.
        classes: from `pairs_by_class`.
        method: how often; one pair of each class is measured in each initialisation.
        seed: of the choice of pairs.
        progress: takes a line after each initialisation.

    Raises:
        InputError: fewer than two ranks.
        AgentError: a rank failed.
    """
    if not any(classes.values()):
        raise InputError("bench --fit: it takes at least two ranks")
    draw = random.Random(seed)
    points: list[Point] = []
    for init in range(method.inits):
        with connected(
            agents, seats, backend=method.backend, iface=method.iface, timeout_s=method.timeout_s
        ) as ranks:
            for name, pairs in classes.items():
                there, back = draw.choice(pairs)
                times_us = {
                    size_bytes: _trip_us(ranks, there, back, size_bytes, method)
                    for size_bytes in (*SHORT_BYTES, *LONG_BYTES)
                }
                points += points_of(times_us, name, init)
        if progress is not None:
            progress(f"fit: initialisation {init + 1} of {method.inits}, classes {', '.join(classes)}")
    return fit(points, seed)


def points_of(times_us: Mapping[int, Sequence[float]], path: str, init: int) -> list[Point]:
    """Points of one initialisation for `fit`: short messages as they are, long ones by what the longer takes more.

    Args:
        times_us: by size the time of a trip in each repeat; `SHORT_BYTES` and `LONG_BYTES`.
        path: class of the path.
        init: number of the initialisation.
    """
    points = [
        Point(size, time_us, Terms(1.0, 0.0, 0.0), path, init)
        for size in SHORT_BYTES
        for time_us in times_us[size]
    ]
    long, longer = LONG_BYTES
    more_us = median(times_us[longer]) - median(times_us[long])
    if more_us > 0:  # else something else took the time
        points.append(Point(longer - long, more_us, Terms(0.0, 1.0, 0.0), path, init))
    return points


def _trip_us(ranks: Communicator, there: int, back: int, size_bytes: int, method: Method) -> list[float]:
    work = [
        {"name": f"{number}", "op": "p2p", "size_bytes": size_bytes, "edges": [edge]}
        for number, edge in enumerate([[there, back], [back, there]] * _TRIPS)
    ]
    times = ranks.step(work, repeats=method.repeats, warmup=method.warmup)
    return [1e6 * time_s / len(work) for time_s in times.job_s]


def latencies(model: Model) -> Callable[[Links], float]:
    """Fitted latency of a message over given links; 0 for a class that was not measured."""

    def latency(links: Links) -> float:
        constant = model.alpha_us.get(path_class(links)) or model.alpha_us.get("all")
        return constant.value if constant is not None else 0.0

    return latency
