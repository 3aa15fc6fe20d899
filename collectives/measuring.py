"""Measuring settings side by side: fresh initialisations, interleaved, every size in each of them.

The unit of replication is the initialisation, as in `collectives.bench`. What is measured is handed out size by size, so
that a rank that dies later costs nothing that was known before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from collectives.background import Watch, contaminated
from collectives.bench import Method, Order, Progress, Record
from collectives.busbw import busbw_factor
from collectives.communicator import Communicator, connected
from collectives.cost.hybrid import Plan
from collectives.linkbytes import Counters, LinkBytes
from collectives.prediction import Latency, Links, Predictor, library_schedule, to_the_next
from collectives.schedules import Op, Schedule
from collectives.setting import HYBRID, Setting, Shape, scheduled, spelled_out
from collectives.splitting import planned
from collectives.steering import Candidates, Ints
from nettune.errors import InputError
from nettune.launch.caller import Caller
from nettune.records import Measurement
from nettune.units import format_rate, format_size
from topology.placement.mapping import Placement

if TYPE_CHECKING:
    from topology.routing import Routing

COPIES = 8
"""Connections of each pair where they are to be chosen: with two ways, all but one of 128 pairs have both among them."""
_CHOICES = 8
_TELLING = ("gloo",)
"""Backends whose connections are their own: they can be told, chosen among and paced."""


@dataclass(frozen=True)
class Case:
    """What is measured in every setting.

    Attributes:
        op: the operation.
        sizes_bytes: message sizes, the largest buffer of a rank as in nccl-tests.
        dtype: nccl-tests' name of the type.
        cap_gbps: most that a NIC may send; None for no limit.
        copies: connections of each pair in steered settings.
    """

    op: Op
    sizes_bytes: tuple[int, ...]
    dtype: str = "float"
    cap_gbps: float | None = None
    copies: int = COPIES


@dataclass(frozen=True)
class Taken:
    """One size in one initialisation.

    Attributes:
        init: number of the initialisation.
        size_bytes: message size.
        times_s: per repeat the slowest rank's time.
        wrong: values that were wrong, all ranks together.
        exact_us: predicted on the paths of this initialisation's connections; None where they are not known.
    """

    init: int
    size_bytes: int
    times_s: tuple[float, ...]
    wrong: int
    exact_us: float | None = None


@dataclass
class Measured:
    """All that was measured of one setting.

    Attributes:
        setting: which.
        algorithm: name and options of the schedule; None for the library's own.
        ranks: of the job.
        taken: one entry for each size of each initialisation.
        links: bytes on each directed link over the timed repeats of the largest size, first initialisation.
        contaminated: why the bytes on links say that others used the network meanwhile; empty if they do not.
        predictor: of its schedule; None where there is no model or no fabric.
        plan: how a hybrid was split, where that was planned.
    """

    setting: Setting
    algorithm: Mapping[str, Any] | None
    ranks: int
    taken: list[Taken] = field(default_factory=list)
    links: tuple[LinkBytes, ...] = ()
    contaminated: list[str] = field(default_factory=list)
    predictor: Predictor | None = None
    plan: Plan | None = None

    def times_s(self, size_bytes: int) -> list[tuple[float, ...]]:
        """Times of one size by initialisation."""
        return [one.times_s for one in self.taken if one.size_bytes == size_bytes]


@dataclass(frozen=True)
class Place:
    """Where the ranks of a setting are and what is known of the way between them.

    Attributes:
        order: seats of the ranks.
        routing: forwarding state; None where no fabric is known.
        counters: reads the byte counters of ports.
    """

    order: Order
    routing: Routing | None = None
    counters: Counters | None = None

    def seats(self, init: int) -> tuple[Any, ...]:
        """Seat of each rank in one initialisation."""
        return tuple(self.order(init) if callable(self.order) else self.order)


def measure(
    agents: Caller,
    settings: Sequence[Setting],
    places: Mapping[str, Place],
    case: Case,
    method: Method,
    *,
    latency: Latency | None = None,
    record: Record | None = None,
    progress: Progress | None = None,
    results: list[Measured] | None = None,
) -> list[Measured]:
    """Measure every setting at every size.

    Args:
        agents: running agents.
        settings: what to measure, interleaved.
        places: by name of the order.
        case: the operation and its sizes.
        method: how often and how.
        latency: of a message, for predictions.
        record: takes each measured number as soon as it is there.
        progress: takes one line after each initialisation.
        results: list that is filled, so that it holds what was measured when this raises.

    Raises:
        InputError: settings that do not fit the ranks, or sizes that do not fit the type.
        AgentError: a rank died or hangs; the line names it.
    """
    found = results if results is not None else []
    busbw_factor(_NAMES.get(case.op, str(case.op)), 2)
    ready = [_Ready.of(setting, places[setting.order], case, method, latency) for setting in settings]
    found.extend(one.measured for one in ready)
    for init in range(method.inits):
        for one in ready:
            one.initialise(agents, init, record)
            if progress is not None:
                last = one.measured.taken[-1]
                rate = format_rate(8e-9 * last.size_bytes / median(last.times_s) * one.factor)
                progress(
                    f"{one.setting.name}, initialisation {init + 1} of {method.inits}: "
                    f"{format_size(last.size_bytes)} at {rate}"
                )
    return found


_NAMES = {Op.ALL_TO_ALL: "alltoall", Op.P2P: "sendrecv"}


def factor_of(op: Op, ranks: int) -> float:
    """Bus bandwidth over the algorithm's, as nccl-tests has it."""
    return busbw_factor(_NAMES.get(op, str(op)), ranks)


@dataclass
class _Ready:
    """A setting with its schedule, place and results."""

    setting: Setting
    place: Place
    case: Case
    method: Method
    measured: Measured
    schedule: Schedule | None
    wanted: dict[str, Any] | None
    latency: Latency | None
    factor: float

    @classmethod
    def of(
        cls, setting: Setting, place: Place, case: Case, method: Method, latency: Latency | None
    ) -> _Ready:
        seats = place.seats(0)
        if method.backend not in _TELLING and (setting.steer or case.cap_gbps is not None):
            raise InputError(
                f"setting {setting.name!r}: {method.backend} does not hand out its connections, so none can be "
                "chosen or paced; use gloo for +steer and --cap"
            )
        if setting.steer and place.routing is None:
            raise InputError(f"setting {setting.name!r}: steering needs a fabric; give --lab")
        shape = Shape.by_host([seat if isinstance(seat, str) else seat[0] for seat in seats])
        if place.routing is not None:
            shape = Shape.of(place.routing, placement_of(place.routing, seats).nic.tolist())
        plan = None
        if setting.algorithm == HYBRID and "x" not in setting.options:
            if place.routing is None:
                raise InputError(
                    f"setting {setting.name!r}: give the share of the rings, x=0.5; no fabric is known"
                )
            size_bytes = max(case.sizes_bytes)
            setting, plan = planned(
                setting, shape, place.routing, placement_of(place.routing, seats), size_bytes
            )
        schedule = scheduled(setting, case.op, shape)
        wanted = spelled_out(setting, case.op, shape)
        measured = Measured(setting, wanted, len(seats), plan=plan)
        factor = factor_of(case.op, len(seats))
        return cls(setting, place, case, method, measured, schedule, wanted, latency, factor)

    def initialise(self, agents: Caller, init: int, record: Record | None) -> None:
        """One fresh initialisation, with every size."""
        seats = self.place.seats(init)
        copies = 1
        if self.schedule is not None and self.method.backend in _TELLING:
            copies = self.case.copies if self.setting.steer else min(self.schedule.channels, self.case.copies)
        with connected(
            agents,
            seats,
            backend=self.method.backend,
            iface=self.method.iface,
            timeout_s=self.method.timeout_s,
            connections=copies,
        ) as ranks:
            phase, paths = self._phase(ranks, seats, copies)
            if self.case.cap_gbps is not None:
                ranks.cap_rate(self._each_connection(self.case.cap_gbps, len(seats)))
            for size_bytes in self.case.sizes_bytes:
                self._one_size(ranks, init, {**phase, "size_bytes": size_bytes}, paths, record)

    def _phase(
        self, ranks: Communicator, seats: Sequence[Any], copies: int
    ) -> tuple[dict[str, Any], list[Links] | None]:
        """What the ranks carry out, and the links of each edge of its schedule where they are known."""
        phase: dict[str, Any] = {
            "name": str(self.case.op),
            "op": str(self.case.op),
            "dtype": self.case.dtype,
            "groups": [list(range(len(seats)))],
        }
        if self.case.op is Op.P2P:
            phase["edges"] = [list(pair) for pair in to_the_next(len(seats))]
        if self.wanted is not None:
            phase |= {"schedule": self.wanted, "rounds": self.setting.rounds}
        routing = self.place.routing
        model = self.schedule or library_schedule(self.case.op, len(seats), self.method.backend)
        if routing is None or model is None:
            return phase, None
        placement = placement_of(routing, seats)
        self.measured.predictor = Predictor(
            routing, placement, model, copies, self.latency or (lambda _links: 0.0)
        )
        if not routing.hashes:
            if self.setting.steer:
                raise InputError(
                    f"setting {self.setting.name!r}: no switch's hash is known, so no port can be chosen"
                )
            return phase, None
        if self.method.backend not in _TELLING:
            return phase, None
        candidates = Candidates.of(routing, model.channel_edges, ranks.connections(), copies)
        chosen = candidates.by_channel()
        if self.setting.steer:
            chosen = self._best(candidates, self.measured.predictor)
        if self.wanted is not None:
            phase["routes"] = candidates.routes(chosen)
        return phase, candidates.links(chosen)

    def _best(self, candidates: Candidates, predictor: Predictor) -> Ints:
        """Of several choices that load the busiest link alike, the one that the schedule is predicted to finish first."""
        if not predictor.feasible:
            return candidates.chosen()
        size_bytes = max(self.case.sizes_bytes)
        elements = self._elements(size_bytes)
        choices = [candidates.chosen(seed) for seed in range(_CHOICES)]
        return min(choices, key=lambda one: predictor.time_us(size_bytes, elements, candidates.links(one)))

    def _one_size(
        self,
        ranks: Communicator,
        init: int,
        phase: Mapping[str, Any],
        paths: list[Links] | None,
        record: Record | None,
    ) -> None:
        size_bytes, repeats = int(phase["size_bytes"]), self.method.repeats
        routing, counters = self.place.routing, self.place.counters
        warm = ranks.step([phase], repeats=0, warmup=self.method.warmup)
        watch = None
        if routing is not None and counters is not None and size_bytes == max(self.case.sizes_bytes):
            watch = Watch.begun(routing, counters)
        times = ranks.step([phase], repeats=repeats, check=False)
        if watch is not None:
            links = watch.ended(self._payload(paths, size_bytes, repeats))
            self.measured.links = self.measured.links or links
            why = contaminated(links)
            if why:
                self.measured.contaminated.append(f"initialisation {init + 1}: {why}")
        exact_us = None
        predictor = self.measured.predictor
        if predictor is not None and paths is not None and predictor.feasible:
            exact_us = predictor.time_us(size_bytes, self._elements(size_bytes), paths)
        taken = Taken(init, size_bytes, tuple(times.job_s), warm.wrong, exact_us)
        self.measured.taken.append(taken)
        if record is not None:
            for repeat, time_s in enumerate(taken.times_s):
                _record(record, self.setting.name, taken, repeat, "time", time_s, "s")
                _record(
                    record,
                    self.setting.name,
                    taken,
                    repeat,
                    "busbw",
                    8e-9 * size_bytes / time_s * self.factor,
                    "gbps",
                )
            _record(record, self.setting.name, taken, 0, "wrong", taken.wrong, "values")

    def _elements(self, size_bytes: int) -> int:
        return size_bytes // ITEM_BYTES[self.case.dtype]

    def _payload(self, paths: list[Links] | None, size_bytes: int, repeats: int) -> dict[int, float] | None:
        """Payload bytes on each directed link over the timed repeats."""
        predictor = self.measured.predictor
        if paths is None or predictor is None:
            return None
        loads: dict[int, float] = {}
        for links, share in zip(paths, predictor.edges.share.tolist(), strict=True):
            for link in links:
                loads[link] = loads.get(link, 0.0) + repeats * share * size_bytes
        return loads

    def _each_connection(self, cap_gbps: float, ranks: int) -> float:
        """Bytes per second of one connection, so that the busiest rank stays below the cap."""
        model = self.schedule or library_schedule(self.case.op, ranks, self.method.backend)
        out = ranks - 1
        if model is not None:
            edges = model.channel_edges
            out = max((edges.src.tolist().count(rank) for rank in range(ranks)), default=1)
        return cap_gbps * 1e9 / 8 / max(out, 1)


ITEM_BYTES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int64": 8, "uint8": 1}
"""Of the types by nccl-tests' names, as `collectives.backends.operations.DTYPES` has them."""


def placement_of(routing: Routing, seats: Sequence[Any]) -> Placement:
    """Where the seats are; a seat that names its interface uses that NIC."""
    fabric = routing.fabric
    found = Placement.of_hosts(fabric, [seat if isinstance(seat, str) else seat[0] for seat in seats])
    nic = found.nic.copy()
    for rank, seat in enumerate(seats):
        if not isinstance(seat, str):
            nic[rank] = fabric.port_row(*seat)
    return replace(found, nic=nic)


def _record(
    record: Record, setting: str, taken: Taken, repeat: int, metric: str, value: float, unit: str
) -> None:
    trial = f"setting={setting},size={taken.size_bytes}"
    record(
        Measurement(
            run="bench",
            trial=trial,
            init=taken.init,
            repeat=repeat,
            rank=-1,
            metric=metric,
            value=value,
            unit=unit,
        )
    )
