"""What the seeds of a scenario came to: completion times, phases, links, counters; `NetworkResult` among it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from topology.loads import percentiles
from topology.results import NetworkResult, PhaseResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from collectives.fabric_sim.result import Result
    from collectives.scenarios.translate import Layout

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

COUNTERS = {
    "pfc_pauses": "pauses",
    "ecn_marks": "marks",
    "cnps": "cnps",
    "retransmissions": "retransmissions",
    "timeouts": "timeouts",
    "drops": "drops",
    "losses": "losses",
    "packet_hops": "data_hops",
}
"""Names of counters here -> in the simulator."""
_PS_PER_US = 1e6


@dataclass(frozen=True)
class Samples:
    """Queues and rates over time, of the first seed.

    Attributes:
        time_us: (S,).
        queue_bytes: directed link -> (S,).
        rate_gbps: row of the workload -> (S,).
    """

    time_us: Floats
    queue_bytes: Mapping[int, Floats]
    rate_gbps: Mapping[int, Floats]


@dataclass(frozen=True)
class SeedOutcome:
    """One seed; F flows of the workload, P phases, L cables.

    Attributes:
        seed: of draws.
        fct_us: (F,) from when a flow may start to its last acknowledgement; NaN: never.
        job: (F,) name of the job of each flow.
        phases: name without its iteration -> its time, the mean over its iterations; NaN: never over.
        phase_bytes: phase -> (2L,) payload on each directed link.
        phase_retransmissions: phase -> packets sent again.
        end_us: when the last flow was over; NaN: never.
        ran_us: simulated time.
        counters: names of `COUNTERS`, and `pfc_paused_us`.
        link_paused_us: (2L,) time for which the sender of each directed link was paused.
        link_marks: (2L,) packets marked there.
        link_peak_bytes: (2L,) longest queue.
        stuck: why nothing moved any more; None where all went on.
        samples: only where asked for.
    """

    seed: int
    fct_us: Floats
    job: NDArray[np.str_]
    phases: Mapping[str, float]
    phase_bytes: Mapping[str, Floats]
    phase_retransmissions: Mapping[str, float]
    end_us: float
    ran_us: float
    counters: Mapping[str, float]
    link_paused_us: Floats
    link_marks: Floats
    link_peak_bytes: Floats
    stuck: str | None
    samples: Samples | None = None

    @classmethod
    def of(cls, layout: Layout, result: Result, directed: int) -> SeedOutcome:
        """Out of what the simulator returns."""
        work = layout.workload
        rows = work.flows
        finish = np.where(
            np.asarray(result.finish_ps) >= 0, np.asarray(result.finish_ps) / _PS_PER_US, np.nan
        )
        begin = _begins(layout, np.asarray(result.delivered_ps))
        phase_of = work.phase[rows]
        names = [name.split("#")[0] for name in work.phases]
        times: dict[str, list[float]] = {}
        bytes_: dict[str, Floats] = {}
        again: dict[str, float] = {}
        retransmitted = np.asarray(result.column["flow_retransmissions"])[rows]
        for number, name in enumerate(names):
            mine = np.flatnonzero(phase_of == number)
            times.setdefault(name, []).append(float(finish[rows[mine]].max() - begin[rows[mine]].min()))
            part = _loads(layout.path[mine], work.bytes_[rows[mine]], directed)
            bytes_[name] = bytes_.get(name, 0) + part
            again[name] = again.get(name, 0.0) + float(retransmitted[mine].sum())
        classes = result.classes
        paused = np.asarray(result.column["link_paused"], dtype=np.float64).reshape(-1, classes).sum(axis=1)
        counters = {name: float(result.total[there]) for name, there in COUNTERS.items()}
        counters["pfc_paused_us"] = result.total["paused_ps"] / _PS_PER_US
        return cls(
            seed=result.seed,
            fct_us=finish[rows] - begin[rows],
            job=np.array([name.split("/")[0] for name in names])[phase_of],
            phases={name: float(np.mean(values)) for name, values in times.items()},
            phase_bytes=bytes_,
            phase_retransmissions=again,
            end_us=float(finish[rows].max()),
            ran_us=result.total["now"] / _PS_PER_US,
            counters=counters,
            link_paused_us=paused / _PS_PER_US,
            link_marks=np.asarray(result.column["link_marks"], dtype=np.float64),
            link_peak_bytes=np.asarray(result.column["link_peak"], dtype=np.float64),
            stuck=result.stuck() or _cut_off(result),
            samples=_samples(layout, result, begin, finish) if len(result.samples) else None,
        )


@dataclass(frozen=True)
class Outcome:
    """All seeds of one scenario.

    Attributes:
        seeds: at least one.
    """

    seeds: Sequence[SeedOutcome] = field(default_factory=tuple)

    @property
    def stuck(self) -> str | None:
        """Why a seed came to no end; None where all did."""
        return next((f"seed {one.seed}: {one.stuck}" for one in self.seeds if one.stuck), None)

    def fct_us(self, job: str | None = None) -> dict[str, list[float]]:
        """Statistic of completion times -> its value in each seed where a flow ended; of all jobs or of one."""
        found: dict[str, list[float]] = {name: [] for name in ("mean", "p50", "p99", "max")}
        for one in self.seeds:
            times = one.fct_us if job is None else one.fct_us[one.job == job]
            ends = times[np.isfinite(times)]
            if len(ends):
                found["mean"].append(float(ends.mean()))
                found["p50"].append(float(np.percentile(ends, 50)))
                found["p99"].append(float(np.percentile(ends, 99)))
                found["max"].append(float(ends.max()))
        return found

    def network_result(self) -> NetworkResult | None:
        """Phases with percentiles over seeds; None where a phase never ended in any seed that has it."""
        ended = [one for one in self.seeds if np.isfinite([one.end_us, *one.phases.values()]).all()]
        if not ended:
            return None
        phases = []
        for name in ended[0].phases:
            times = np.array([one.phases[name] for one in ended])
            bytes_ = np.mean([one.phase_bytes[name] for one in ended], axis=0)
            again = float(np.mean([one.phase_retransmissions[name] for one in ended]))
            phases.append(PhaseResult(name, percentiles(times), bytes_, {"retransmissions": again}))
        return NetworkResult("packet", tuple(phases), percentiles(np.array([one.end_us for one in ended])))


def _begins(layout: Layout, delivered_ps: Ints) -> Floats:
    """(F,) microseconds at which each row could start; NaN where it waits for what never ended."""
    work = layout.workload
    ends = np.where(delivered_ps >= 0, delivered_ps / _PS_PER_US, np.nan)
    begins = work.start_us.copy()
    waits = np.flatnonzero(np.diff(work.after_first))
    last = np.maximum.reduceat(ends[work.after], work.after_first[waits]) if len(waits) else np.empty(0)
    begins[waits] = np.where(np.isnan(last), np.nan, np.maximum(begins[waits], last + work.gap_us[waits]))
    return begins


def _loads(path: Ints, bytes_: Floats, directed: int) -> Floats:
    on = path >= 0
    found = np.zeros(directed)
    found += np.bincount(path[on], np.repeat(bytes_, on.sum(axis=1)), minlength=directed)
    return found


def _cut_off(result: Result) -> str | None:
    left, failed = result.total["unfinished"], result.total["failed"]
    if failed:
        return f"{failed} flows failed: their retries were used up"
    return f"{left} flows were left when run.limit_ms was over" if left else None


def _samples(layout: Layout, result: Result, begin: Floats, finish: Floats) -> Samples:
    """Rates only while a flow has something to send."""
    table: Any = np.asarray(result.samples).reshape(-1, result.sample_width)
    time, links = table[:, 0] / _PS_PER_US, layout.watch_links
    rates = {}
    for column, row in enumerate(layout.watch_flows):
        sending = (time >= begin[row]) & ~(time > finish[row])
        rates[row] = np.where(sending, table[:, 1 + len(links) + column] / 1e9, np.nan)
    return Samples(time, {link: table[:, 1 + column] for column, link in enumerate(links)}, rates)
