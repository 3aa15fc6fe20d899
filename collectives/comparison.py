"""What a comparison of orders found: initialisations, orders, their intervals and JSON forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from collectives.communicator import Seat
from collectives.linkbytes import LinkBytes
from nettune.stats import Interval, bootstrap_median, bootstrap_ratio

COMPARISON_SCHEMA = "nettune.comparison/1"


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


def _interval(groups: Sequence[Sequence[float]]) -> Interval:
    if len(groups) > 1:
        return bootstrap_median(groups)
    return Interval(median(groups[0]), float("nan"), float("nan"))


def _interval_json(interval: Interval) -> dict[str, float | None]:
    return {
        key: None if value != value else value  # noqa: PLR0124 - NaN is the value that differs from itself
        for key, value in interval._asdict().items()
    }
