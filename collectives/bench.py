"""Measuring the communication of a step under several orders of hosts, so that the orders can be compared.

The unit of replication is the initialisation: new connections draw new ports and so new paths. Initialisation i of
every order runs before initialisation i + 1 of any, so that what drifts, drifts for all. An initialisation counts by
the median of its repeats, and the interval is drawn over initialisations (`nettune.stats`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from collectives import linkbytes
from collectives.communicator import Communicator, Seat, StepTimes, connected, slowest
from collectives.comparison import Comparison, InitResult, OrderResult, SizePoint
from collectives.linkbytes import Counters
from collectives.traffic import AllReduceTraffic, Work, sent_bytes
from nettune.errors import InputError, NettuneError
from nettune.launch.caller import Caller
from nettune.records import Measurement
from nettune.units import format_rate

if TYPE_CHECKING:
    from topology.routing import Routing

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
        AgentError: a rank died or hangs; the line names it.
        NettuneError: a sum was wrong.
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
                _refuse_wrong(times)
                one = _result(0, seats, ranks, traffic, times)
                rate_gbps = median(one.busbw_gbps)
                point = SizePoint(size_bytes, median(one.times_s), rate_gbps)
                found.setdefault(name, []).append(point)
                if record is not None:
                    _record(record, run, f"order={name},size={size_bytes}", one)
                if progress is not None:
                    progress(f"order {name}, {size_bytes} bytes: {format_rate(rate_gbps)}")
    return found


def _connect(
    agents: Caller, seats: Sequence[Seat], groups: Sequence[Sequence[int]], method: Method
) -> AbstractContextManager[Communicator]:
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
        _refuse_wrong(ranks.step(work, repeats=0, warmup=method.warmup))
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


def _refuse_wrong(times: StepTimes) -> None:
    if times.wrong:
        raise NettuneError(
            f"bench: {times.wrong} values of the results are wrong; trust no figure of these hosts"
        )


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
