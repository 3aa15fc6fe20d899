"""Measuring the communication of a step under several orders of hosts, so that the orders can be compared.

The unit of replication is the initialisation: new connections draw new ports and so new paths. Initialisation i of
every order runs before initialisation i + 1 of any, so that what drifts, drifts for all. An initialisation counts by
the median of its repeats, and the interval is drawn over initialisations (`nettune.stats`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from collectives import linkbytes
from collectives.communicator import Caller, Communicator, Seat, StepTimes, connected, slowest
from collectives.linkbytes import Counters, LinkBytes
from collectives.traffic import AllReduceTraffic, Work, sent_bytes
from nettune.errors import InputError
from nettune.records import Measurement
from nettune.stats import Interval, bootstrap_median, bootstrap_ratio
from nettune.units import format_rate

if TYPE_CHECKING:
    from topology.routing import Routing

COMPARISON_SCHEMA = "nettune.comparison/1"

Order = Sequence[Seat] | Callable[[int], Sequence[Seat]]
"""Seat of each rank, or a function of the initialisation's number that gives it."""
Record = Callable[[Measurement], None]
Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Method:
    """How often and how is measured.

    Attributes:
        inits: initialisations of each order.
        repeats: timed repeats in each.
        warmup: untimed operations before them; the first is checked value by value.
        timeout_s: for joining, and for each operation.
        iface: interface of seats that name none.
        backend: torch's name of the backend.
    """

    inits: int = 5
    repeats: int = 3
    warmup: int = 1
    timeout_s: float = 30.0
    iface: str = "eth0"
    backend: str = "gloo"

    def __post_init__(self) -> None:
        if self.inits < 1 or self.repeats < 1 or self.warmup < 1 or self.timeout_s <= 0:
            raise InputError("bench: inits, repeats and warmup are at least 1, and the time-out is above 0")


@dataclass(frozen=True, kw_only=True)
class InitResult:
    """One initialisation of one order.

    Attributes:
        init: its number.
        seats: seat of each rank.
        init_s: slowest rank's time to join.
        times_s: per repeat the job's time: the slowest rank's.
        phases_s: name of a phase to the same for that phase alone.
        bus_bytes: bytes that the busiest rank sends in a step.
        links: bytes on each directed link over all timed repeats; empty without counters.
    """

    init: int
    seats: tuple[Seat, ...]
    init_s: float
    times_s: tuple[float, ...]
    phases_s: Mapping[str, tuple[float, ...]]
    bus_bytes: float
    links: tuple[LinkBytes, ...] = ()

    @property
    def busbw_gbps(self) -> tuple[float, ...]:
        """Per repeat, Gbit/s: bytes that the busiest rank sends over the time; nccl-tests' busbw for an all-reduce."""
        return tuple(8e-9 * self.bus_bytes / time_s for time_s in self.times_s)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object."""
        return {
            "init": self.init,
            "hosts": [seat if isinstance(seat, str) else list(seat) for seat in self.seats],
            "init_s": self.init_s,
            "times_s": list(self.times_s),
            "busbw_gbps": list(self.busbw_gbps),
            "phases_s": {name: list(times) for name, times in self.phases_s.items()},
            "links": [link.to_json() for link in self.links],
        }


@dataclass(frozen=True, kw_only=True)
class OrderResult:
    """All initialisations of one order."""

    name: str
    inits: tuple[InitResult, ...]

    @property
    def busbw_gbps(self) -> Interval:
        """Median over initialisations with its interval, Gbit/s; with one initialisation the limits are NaN."""
        return _interval([one.busbw_gbps for one in self.inits])

    @property
    def time_s(self) -> Interval:
        """The same of the step's time."""
        return _interval([one.times_s for one in self.inits])

    def phase_s(self, name: str) -> Interval:
        """The same of one phase's time."""
        return _interval([one.phases_s[name] for one in self.inits])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object; a limit that is not known is null."""
        return {
            "name": self.name,
            "busbw_gbps": _interval_json(self.busbw_gbps),
            "time_s": _interval_json(self.time_s),
            "phases_s": {name: _interval_json(self.phase_s(name)) for name in self.inits[0].phases_s},
            "inits": [one.to_json() for one in self.inits],
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Orders measured side by side.

    Attributes:
        ranks: ranks of the job.
        orders: results by name, in the order they were given.
    """

    ranks: int
    orders: Mapping[str, OrderResult] = field(default_factory=dict)

    def speedup(self, base: str, other: str) -> Interval:
        """Busbw of `other` over that of `base`; initialisations of one number are pairs.

        Raises:
            InputError: fewer than two initialisations.
        """
        groups = [[one.busbw_gbps for one in self.orders[name].inits] for name in (base, other)]
        return bootstrap_ratio(groups[0], groups[1], paired=True)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`."""
        return {
            "schema": COMPARISON_SCHEMA,
            "ranks": self.ranks,
            "orders": [result.to_json() for result in self.orders.values()],
        }


@dataclass(frozen=True)
class SizePoint:
    """One message size of one order, within one initialisation; median over repeats."""

    size_bytes: int
    time_s: float
    busbw_gbps: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object."""
        return dict(vars(self))


def random_order(hosts: Sequence[Seat], seed: int = 0) -> Callable[[int], list[Seat]]:
    """Another permutation in each initialisation; the same seed gives the same ones."""

    def seats(init: int) -> list[Seat]:
        return random.Random(f"{seed}/{init}").sample(list(hosts), len(hosts))

    return seats


def compare_orders(
    agents: Caller,
    orders: Mapping[str, Order],
    traffic: Work,
    method: Method,
    *,
    counters: Counters | None = None,
    routing: Routing | None = None,
    record: Record | None = None,
    progress: Progress | None = None,
    run: str = "bench",
) -> Comparison:
    """Measure a step's communication under each order, interleaved.

    Args:
        agents: running agents, at least one on each host of the orders.
        orders: name to seats of the ranks.
        traffic: `AllReduceTraffic` or `JobTraffic`.
        method: how often and how.
        counters: reads the byte counters of ports; asked before and after the timed repeats.
        routing: with it and `counters`, exact predicted bytes stand beside the measured ones.
        record: takes each measured number as soon as it is there, so that a failure later loses none.
        progress: takes one line after each initialisation.
        run: name for the records.

    Raises:
        InputError: no order, or seats that do not fit the job or the agents.
        AgentError: a rank died, hangs or computed a wrong sum; the line names it.
        UnknownPathError: `routing` does not know the hash of a switch.
    """
    if not orders:
        raise InputError("bench: no order to measure")
    results: dict[str, list[InitResult]] = {name: [] for name in orders}
    for init in range(method.inits):
        for name, order in orders.items():
            seats = tuple(order(init) if callable(order) else order)
            if len(seats) != traffic.ranks:
                raise InputError(
                    f"bench: order {name!r} seats {len(seats)} ranks, the job has {traffic.ranks}"
                )
            one = _initialisation(agents, seats, init, traffic, method, counters, routing)
            results[name].append(one)
            if record is not None:
                _record(record, run, f"order={name}", one)
            if progress is not None:
                rate = format_rate(median(one.busbw_gbps))
                progress(f"order {name}, initialisation {init + 1} of {method.inits}: {rate}")
    done = {name: OrderResult(name=name, inits=tuple(inits)) for name, inits in results.items()}
    return Comparison(ranks=traffic.ranks, orders=done)


def sweep_sizes(
    agents: Caller,
    orders: Mapping[str, Order],
    sizes_bytes: Sequence[int],
    method: Method,
    *,
    record: Record | None = None,
    progress: Progress | None = None,
    run: str = "bench",
) -> dict[str, list[SizePoint]]:
    """All-reduce busbw against message size, one initialisation of each order; `method.inits` is not used.

    Raises:
        InputError, AgentError: as `compare_orders`.
    """
    found: dict[str, list[SizePoint]] = {}
    for name, order in orders.items():
        seats = tuple(order(0) if callable(order) else order)
        with _connect(agents, seats, [], method) as ranks:
            for size_bytes in sizes_bytes:
                traffic = AllReduceTraffic(len(seats), size_bytes, method.backend)
                times = ranks.step(traffic.work, repeats=method.repeats, warmup=method.warmup)
                one = _result(0, seats, ranks, traffic, times)
                rate_gbps = median(one.busbw_gbps)
                point = SizePoint(size_bytes, median(one.times_s), rate_gbps)
                found.setdefault(name, []).append(point)
                if record is not None:
                    _record(record, run, f"order={name},size={size_bytes}", one)
                if progress is not None:
                    progress(f"order {name}, {size_bytes} bytes: {format_rate(rate_gbps)}")
    return found


def _connect(agents: Caller, seats: Sequence[Seat], groups: Sequence[Sequence[int]], method: Method) -> Any:
    return connected(
        agents, seats, backend=method.backend, iface=method.iface, timeout_s=method.timeout_s, groups=groups
    )


def _initialisation(
    agents: Caller,
    seats: tuple[Seat, ...],
    init: int,
    traffic: Work,
    method: Method,
    counters: Counters | None,
    routing: Routing | None,
) -> InitResult:
    work = traffic.work
    with _connect(agents, seats, traffic.process_groups, method) as ranks:
        # Warm-up is a call of its own: its bytes must be over before the counters are read.
        ranks.step(work, repeats=0, warmup=method.warmup)
        before = counters() if counters is not None else None
        times = ranks.step(work, repeats=method.repeats, check=False)
        result = _result(init, seats, ranks, traffic, times)
        if counters is None or before is None or routing is None:
            return result
        measured = linkbytes.measured_bytes(routing.fabric, before, counters())
        predicted = None
        if routing.hashes:
            flows = linkbytes.payload_flows(traffic, work, ranks.connections())
            predicted = method.repeats * linkbytes.predicted_bytes(routing, flows)
        links = tuple(linkbytes.table(routing.fabric, measured, predicted))
    return replace(result, links=links)


def _result(
    init: int, seats: tuple[Seat, ...], ranks: Communicator, traffic: Work, times: StepTimes
) -> InitResult:
    return InitResult(
        init=init,
        seats=seats,
        init_s=ranks.init_s,
        times_s=tuple(times.job_s),
        phases_s={name: tuple(slowest(of_rank)) for name, of_rank in times.phases_s.items()},
        bus_bytes=sent_bytes(traffic),
    )


def _record(record: Record, run: str, trial: str, one: InitResult) -> None:
    def add(repeat: int, metric: str, value: float, unit: str) -> None:
        record(
            Measurement(
                run=run,
                trial=trial,
                init=one.init,
                repeat=repeat,
                rank=-1,
                metric=metric,
                value=value,
                unit=unit,
            )
        )

    for repeat, (time_s, rate_gbps) in enumerate(zip(one.times_s, one.busbw_gbps, strict=True)):
        add(repeat, "step_time", time_s, "s")
        add(repeat, "busbw", rate_gbps, "gbps")
        for name, times_s in one.phases_s.items():
            add(repeat, f"phase_time:{name}", times_s[repeat], "s")


def _interval(groups: Sequence[Sequence[float]]) -> Interval:
    if len(groups) > 1:
        return bootstrap_median(groups)
    return Interval(median(groups[0]), float("nan"), float("nan"))


def _interval_json(interval: Interval) -> dict[str, float | None]:
    return {
        key: None if value != value else value  # noqa: PLR0124 - NaN is the value that differs from itself
        for key, value in interval._asdict().items()
    }
