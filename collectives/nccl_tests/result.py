"""What a run of nccl-tests said, whichever of its outputs it was read from.

Columns and their meaning: NVIDIA/nccl-tests src/util.cu and src/common.cu (2.19.6), doc/PERFORMANCE.md. Bandwidths are
in 1e9 bytes per second, times in microseconds, sizes in bytes, as printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any

from collectives.busbw import busbw_factor
from nettune.errors import InputError

PROGRAMS = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "alltoall",
    "alltoallv_perf": "alltoallv",
    "broadcast_perf": "broadcast",
    "reduce_perf": "reduce",
    "sendrecv_perf": "sendrecv",
    "scatter_perf": "scatter",
    "gather_perf": "gather",
    "hypercube_perf": "hypercube",
}
"""Binary to operation."""


@dataclass(frozen=True, slots=True)
class Values:
    """One half of a row: out of place or in place.

    Attributes:
        time_us: of one operation; NaN where the output has no number.
        wrong: elements with a wrong value; None where it was not checked (`N/A`, -c 0, in place of alltoall).
        error: largest difference from the right value, in place of `wrong` before 2.13.
    """

    time_us: float
    algbw_gbytes_per_s: float
    busbw_gbytes_per_s: float
    wrong: float | None = None
    error: float | None = None

    @property
    def finite(self) -> bool:
        """All three numbers are numbers."""
        return all(map(math.isfinite, (self.time_us, self.algbw_gbytes_per_s, self.busbw_gbytes_per_s)))


@dataclass(frozen=True, slots=True)
class Row:
    """One size.

    Attributes:
        size_bytes: the larger of a rank's send and receive buffer.
        redop: empty where the operation has none (`none`, or left out).
        root: None where there is none (-1, or left out).
        line: where it stands; 0 in JSON.
    """

    size_bytes: int
    count: int
    type: str
    redop: str
    root: int | None
    out_of_place: Values
    in_place: Values
    line: int = 0

    @property
    def halves(self) -> tuple[Values, Values]:
        """Out of place, in place."""
        return self.out_of_place, self.in_place

    @property
    def busbw_gbytes_per_s(self) -> float:
        """The slower half's."""
        return min(half.busbw_gbytes_per_s for half in self.halves)


@dataclass(frozen=True, slots=True)
class Device:
    """A rank as the head lists it."""

    rank: int
    pid: int
    host: str
    device: int
    bus: str
    model: str
    group: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A line that tells of a failure.

    Attributes:
        kind: `cuda`, `nccl`, `timeout`, `trace`, `gpus`, `usage`, `error` of nccl-tests; `launcher`.
        rank: None where the line does not tell and its process is not listed.
    """

    kind: str
    text: str
    line: int
    host: str = ""
    rank: int | None = None


@dataclass
class Run:
    """One run of one binary, as far as its output goes.

    Attributes:
        program: `all_reduce_perf`; empty where nothing names it.
        options: of the line `# nThread ..`: threads, gpus, min_bytes, max_bytes, step_bytes or step_factor, warmup,
            iterations, validation, ..; empty where that line is missing.
        torn: size of a row that begins and does not end.
        bad_lines: (line, text) of rows that hold something else than numbers.
        out_of_bounds: checks that failed, and whether the tool calls that OK; None: not printed.
        average: of busbw as printed, in 1e9 bytes per second.
        average_ok: what follows it: True for OK, False for FAILED, None where no minimum was asked for.
        failed_words: lines of the tool's own that say FAILED.
        copies: how many processes printed a head of their own at the same time.
        reduced_max_bytes: -e after it was lowered for lack of memory.
        environment: variables that shape the network, without secrets (JSON).
        secrets: how many variables in a JSON file look like secrets.
        log: lines of NCCL between the tool's own.
    """

    program: str = ""
    version: str = ""
    nccl_version: str = ""
    options: dict[str, int] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    torn: int | None = None
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    elided: int = 0
    out_of_bounds: tuple[float, bool] | None = None
    average: float | None = None
    average_ok: bool | None = None
    failed_words: list[int] = field(default_factory=list)
    announced: bool = False
    concluded: bool = False
    failures: list[Failure] = field(default_factory=list)
    copies: int = 1
    reduced_max_bytes: int | None = None
    per_iteration: bool = False
    cpu_time: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    secrets: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def op(self) -> str:
        """Operation in our words; empty where it is not known."""
        return PROGRAMS.get(self.program, "")

    @property
    def wrong(self) -> float:
        """Elements with a wrong value, over all rows."""
        return sum(abs(half.wrong or 0.0) for row in self.rows for half in row.halves)

    @property
    def failed(self) -> bool:
        """The tool itself says FAILED, or counts wrong elements."""
        bad = self.out_of_bounds is not None and (not self.out_of_bounds[1] or self.out_of_bounds[0] > 0)
        return bad or self.average_ok is False or bool(self.failed_words) or self.wrong > 0

    @property
    def checked(self) -> bool:
        """Every row was checked, in at least one half (alltoall and sendrecv are not checked in place)."""
        halves = [
            [half.wrong is not None or half.error is not None for half in row.halves] for row in self.rows
        ]
        return self.options.get("validation", 1) != 0 and bool(halves) and all(map(any, halves))

    @property
    def ended(self) -> bool:
        """The footer is there."""
        return self.average is not None

    @property
    def empty(self) -> bool:
        """Nothing of the tool is in it."""
        seen = self.program or self.options or self.rows or self.devices or self.bad_lines
        return not (seen or self.ended or self.out_of_bounds or self.failures or self.torn is not None)

    @property
    def ranks(self) -> int:
        """Of the job; 0 where the head is missing. Without MPI the JSON form lists rank 0 alone."""
        listed = max((device.rank + 1 for device in self.devices), default=0)
        return max(listed, self.options.get("threads", 0) * self.options.get("gpus", 0)) if listed else 0

    @property
    def hosts(self) -> list[str]:
        """Hosts in the order of ranks."""
        return list(dict.fromkeys(device.host for device in self.devices))

    @property
    def factor(self) -> float | None:
        """Busbw over algbw; None where operation or ranks are not known."""
        op = {"alltoallv": "alltoall", "gather": "all_gather", "scatter": "all_gather"}.get(self.op, self.op)
        try:
            return busbw_factor(op, self.ranks)
        except InputError:
            return 1.0 if self.op == "hypercube" and self.ranks > 1 else None

    @cached_property
    def largest(self) -> list[Row]:
        """Rows of the largest size: more than one with -N, -o all, -d all, -r -1."""
        most = max((row.size_bytes for row in self.rows), default=0)
        return [row for row in self.rows if row.size_bytes == most]

    @property
    def busbw_gbytes_per_s(self) -> float | None:
        """At the largest size, the slower of both halves, median of its rows; None without rows."""
        return median(row.busbw_gbytes_per_s for row in self.largest) if self.rows else None

    @property
    def next_size(self) -> int | None:
        """The size that was being measured when the output ended; None where that cannot be told."""
        if self.torn is not None:
            return self.torn
        sizes = self.asked_sizes
        if not sizes or not self.rows:
            return sizes[0] if sizes else None
        return next((size for size in sizes if size > self.rows[-1].size_bytes), None)

    @property
    def asked_sizes(self) -> list[int]:
        """Sizes that -b, -e and -f or -i ask for, after -e was lowered; empty where they are not told."""
        size, last = self.options.get("min_bytes", 0), self.options.get("max_bytes", -1)
        last = last if self.reduced_max_bytes is None else min(last, self.reduced_max_bytes)
        factor, step = self.options.get("step_factor", 0), self.options.get("step_bytes", 0)
        found: list[int] = []
        while size <= last and len(found) < _MOST_SIZES:
            found.append(size)
            following = size * factor if factor > 1 else size + step
            if following <= size:
                break
            size = following
        return found

    def to_json(self) -> dict[str, Any]:
        """What a record keeps: rows, head and foot; no log and no environment but NCCL's."""
        return {
            "program": self.program,
            "op": self.op,
            "version": self.version,
            "nccl_version": self.nccl_version,
            "options": dict(self.options),
            "ranks": self.ranks,
            "hosts": self.hosts,
            "models": list(dict.fromkeys(device.model for device in self.devices)),
            "rows": [_row_json(row) for row in self.rows],
            "average_busbw_gbytes_per_s": self.average,
            "busbw_gbytes_per_s": self.busbw_gbytes_per_s,
            "environment": dict(self.environment),
        }


_MOST_SIZES = 100_000
"""More than any run has time for; a step of 1 byte would otherwise fill the memory."""


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "size_bytes": row.size_bytes,
        "type": row.type,
        "redop": row.redop,
        "root": row.root,
        **{
            name: {
                "time_us": half.time_us,
                "algbw_gbytes_per_s": half.algbw_gbytes_per_s,
                "busbw_gbytes_per_s": half.busbw_gbytes_per_s,
                "wrong": half.wrong,
            }
            for name, half in (("out_of_place", row.out_of_place), ("in_place", row.in_place))
        },
    }
