"""Alpha and beta of each class of paths, from messages that go back and forth between two ranks that are alone.

A trip is half of a round trip, several of them behind one barrier. The classes are those of
`collectives.prediction.path_class`; of each, some pairs are measured, other ones in each initialisation.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from collectives.bench import Method, Progress
from collectives.communicator import Seat, connected
from collectives.cost.alpha_beta import Model, Point, fit
from collectives.prediction import Links, path_class
from nettune.errors import InputError
from nettune.launch.caller import Caller

if TYPE_CHECKING:
    from topology.routing import Routing

SIZES_BYTES = (8, 4 << 10, 64 << 10, 256 << 10, 1 << 20)
_TRIPS = 3  # round trips behind one barrier: the ranks leave it at different moments


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
                for size_bytes in SIZES_BYTES:
                    work = list(_trips(there, back, size_bytes))
                    times = ranks.step(work, repeats=method.repeats, warmup=method.warmup)
                    points += [
                        Point(size_bytes, 1e6 * time_s / len(work), path=name, init=init)
                        for time_s in times.job_s
                    ]
        if progress is not None:
            progress(f"fit: initialisation {init + 1} of {method.inits}, classes {', '.join(classes)}")
    return fit(points, seed)


def _trips(there: int, back: int, size_bytes: int) -> list[dict[str, Any]]:
    return [
        {"name": f"{number}", "op": "p2p", "size_bytes": size_bytes, "edges": [edge]}
        for number, edge in enumerate([[there, back], [back, there]] * _TRIPS)
    ]


def latencies(model: Model) -> Callable[[Links], float]:
    """Fitted latency of a message over given links; 0 for a class that was not measured."""

    def latency(links: Links) -> float:
        constant = model.alpha_us.get(path_class(links)) or model.alpha_us.get("all")
        return constant.value if constant is not None else 0.0

    return latency
