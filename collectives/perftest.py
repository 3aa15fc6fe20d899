"""linux-rdma/perftest's bandwidth tests (ib_write_bw, ib_read_bw, ib_send_bw): text and JSON read into one `PerfRun`.

Units are a trap: `MB/sec`, the default, is 2^20 bytes per second, `Gb/sec` (--report_gbits) is 1e9 bit per second
(perftest_parameters.c: format_factor 0x100000 or 125000000), and the JSON form does not say which. There the message rate
decides: rate x size is the bandwidth. A bidirectional test (-b) prints the sum of both directions. JSON before 2023 was no
JSON: names and words without quotes, commas before brackets (perftest issue 216).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from collectives.nccl_tests.labels import unlabelled

MIB_GBPS = 8 * 2**20 / 1e9
"""Gbit/s of one `MB/sec`."""
_UNITS = {"MB/sec": MIB_GBPS, "Gb/sec": 1.0}
_LARGEST_OF_ALL = 1 << 23
"""Last size of -a."""

_TEST = re.compile(r"\b((?:RDMA_(?:Write|Read)|Send|Atomic)[\w ]*?)(?:_| )BW(?:_| )Test\b")
_HEAD = re.compile(
    r"\s*#bytes\s+(?:#sl\s+)?#iterations\s+BW peak\[(\S+?)\]\s+BW average\[(\S+?)\]\s+MsgRate\[(\S+?)\]"
)
_ROW = re.compile(r"\s*\d{1,12}\s+\d{1,15}\s+\S")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_LINE = re.compile(r"\s*-{40,}\s*")
_SETTING = re.compile(r"(Device|Number of qps|Connection type|Mtu|Link type|GID index|TX depth)\s*:\s*(\S+)")
_SETTING_NAMES = {
    "Device": "device",
    "Number of qps": "qps",
    "Number_of_qps": "qps",
    "Connection type": "connection",
    "Connection_type": "connection",
    "Mtu": "mtu",
    "Link type": "link",
    "Link_type": "link",
    "GID index": "gid_index",
    "GID_index": "gid_index",
    "TX depth": "tx_depth",
    "TX_depth": "tx_depth",
}
_FAILURE = re.compile(
    r"\s*(?:Failed\b|Couldn't\b|Unable to\b|Error\b|Problems with\b|Completion with error|Did not detect|No IB devices|"
    r"IB device \S+ not found|.*\bbelow (?:bw|msg_?rate) limit).*",
    re.IGNORECASE,
)
_STATUS = re.compile(r"Failed status (\d{1,3}): wr_id \d+ syndrom (0x[0-9a-fA-F]{1,8})")
_COMMAND = re.compile(r"\b(ib_(?:write|read|send)_bw)\b(.*)")
_OLD_JSON = re.compile(r'\s*"?([A-Za-z_]\w*)"?\s*:\s*"?([^",{}]*?)"?\s*,?\s*')


@dataclass(frozen=True, slots=True)
class PerfRow:
    """One size.

    Attributes:
        peak_gbps: None where it was not measured (-D).
        msg_rate_mpps: messages, 1e6 per second.
        line: where it stands; 0 in JSON.
    """

    size_bytes: int
    iterations: int
    peak_gbps: float | None
    average_gbps: float
    msg_rate_mpps: float
    line: int = 0

    @property
    def consistent(self) -> bool:
        """Size x message rate is the average, within what the printed digits leave open."""
        expected = self.size_bytes * self.msg_rate_mpps * 8e-3
        # rates have 6 digits after the point, bandwidths 2 (in MB/sec or Gb/sec)
        slack = 0.006 * max(1.0, MIB_GBPS) + 0.01 * expected + self.size_bytes * 5e-7 * 8e-3
        return abs(expected - self.average_gbps) <= slack


@dataclass
class PerfRun:
    """One run, as far as its output goes.

    Attributes:
        test: `RDMA_Write`, `RDMA_Read`, `Send`; empty where it is not told.
        unit: `MB/sec` or `Gb/sec` as printed, or found by the message rate; empty where neither tells.
        settings: device, qps, connection, mtu, link, gid_index.
        all_sizes: -a, by the command line or by rows from 2 bytes on.
        closed: the line under the table is there.
        failures: (line, text).
        status: (status, syndrome) of a completion with error.
    """

    test: str = ""
    bidirectional: bool = False
    unit: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    rows: list[PerfRow] = field(default_factory=list)
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    all_sizes: bool = False
    closed: bool = False
    failures: list[tuple[int, str]] = field(default_factory=list)
    status: tuple[int, str] | None = None
    cpu_frequency: bool = False
    no_peak: bool = False

    @property
    def empty(self) -> bool:
        """Nothing of perftest is in it."""
        return not (self.test or self.rows or self.unit or self.settings)

    @property
    def largest(self) -> PerfRow | None:
        """The row of the largest size."""
        return max(self.rows, key=lambda row: row.size_bytes, default=None)

    def to_json(self) -> dict[str, Any]:
        """What a record keeps."""
        return {
            "test": self.test,
            "bidirectional": self.bidirectional,
            "unit": self.unit,
            "settings": dict(self.settings),
            "rows": [
                {
                    "size_bytes": row.size_bytes,
                    "iterations": row.iterations,
                    "peak_gbps": row.peak_gbps,
                    "average_gbps": row.average_gbps,
                    "msg_rate_mpps": row.msg_rate_mpps,
                }
                for row in self.rows
            ],
        }


def looks_like_perftest(text: str) -> bool:
    """Whether this is an output of perftest, text or JSON."""
    begin = text[: 1 << 16]
    return bool(
        _TEST.search(begin)
        or re.search(r"#bytes\s+(?:#sl\s+)?#iterations", begin)
        or "BW peak won't be measured" in begin
        or re.search(r'"?test_info"?\s*:\s*\{', begin)
    )


def parse_perftest(text: str) -> PerfRun:
    """The run in an output; empty where there is nothing of perftest in it.

    Both ends of a loopback may have written into one file: rows that are the same count once.
    """
    if text.lstrip().startswith(("{", "[")):
        return _from_json(text)
    return _from_text(text.splitlines())


def _from_text(lines: Iterable[str]) -> PerfRun:
    run = PerfRun()
    for number, raw in enumerate(lines, start=1):
        line, _ = unlabelled(raw[:4096])
        if (head := _HEAD.match(line)) is not None:
            units = {head[1], head[2]}
            run.unit = units.pop() if len(units) == 1 and units <= set(_UNITS) else "?"
            run.closed = False
        elif _LINE.fullmatch(line):
            run.closed = bool(run.rows)
        elif run.unit and _ROW.match(line):
            _take(run, line, number)
        else:
            _note(run, line, number)
    run.all_sizes |= len(run.rows) > 1 and run.rows[0].size_bytes == 2
    return run


def _take(run: PerfRun, line: str, number: int) -> None:
    words = line.split()
    numbers = [float(word) for word in words if _NUMBER.fullmatch(word)]
    factor = _UNITS.get(run.unit)
    run.closed = False
    if len(numbers) != len(words) or len(words) < 5 or factor is None:
        run.bad_lines.append((number, line.strip()[:120]))
        return
    peak = None if run.no_peak and numbers[2] == 0 else numbers[2] * factor
    row = PerfRow(int(words[0]), int(words[1]), peak, numbers[3] * factor, numbers[4], number)
    if not any(_same(row, known) for known in run.rows):
        run.rows.append(row)


def _same(a: PerfRow, b: PerfRow) -> bool:
    return (a.size_bytes, a.iterations, a.peak_gbps, a.average_gbps) == (
        b.size_bytes,
        b.iterations,
        b.peak_gbps,
        b.average_gbps,
    )


def _note(run: PerfRun, line: str, number: int) -> None:
    if (test := _TEST.search(line)) is not None:
        run.test = test[1].split()[0].removesuffix("_Bidirectional")
        run.bidirectional |= "Bidirectional" in test[1]
    if (command := _COMMAND.search(line)) is not None:
        run.all_sizes |= re.search(r"\s-a\b|\s--all\b", command[2]) is not None
    for name, value in _SETTING.findall(line):
        run.settings.setdefault(_SETTING_NAMES[name], value[:64])
    run.cpu_frequency |= "Conflicting CPU frequency" in line
    run.no_peak |= "BW peak won't be measured" in line
    if (status := _STATUS.search(line)) is not None and run.status is None:
        run.status = (int(status[1]), status[2])
    if _FAILURE.fullmatch(line) and len(run.failures) < 64:
        run.failures.append((number, line.strip()[:200]))


def _from_json(text: str) -> PerfRun:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = dict(_old_json(text))
    if isinstance(data, list):
        data = next((one for one in data if isinstance(one, dict)), {})
    info = data.get("test_info") if isinstance(data, dict) else None
    info = info if isinstance(info, dict) else {}
    run = PerfRun()
    _note(run, str(info.get("test", "")), 0)
    for name, value in info.items():
        if name in _SETTING_NAMES:
            run.settings[_SETTING_NAMES[name]] = str(value)[:64]
    results = data.get("results") if isinstance(data, dict) else None
    for entry in results if isinstance(results, list) else [results]:
        _result(run, entry)
    run.closed = isinstance(data, dict) and bool(run.rows) and not data.get("cut")
    return run


def _result(run: PerfRun, entry: Any) -> None:
    if not isinstance(entry, Mapping):
        return
    size, count, peak, average, rate = (
        _real(entry.get(key)) for key in ("MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate")
    )
    if not all(map(math.isfinite, (size, average, rate))) or size < 1:
        run.bad_lines.append((0, json.dumps(entry, default=str)[:120]))
        return
    iterations = int(count) if math.isfinite(count) else 0
    fitting = [
        (unit, row)
        for unit, factor in _UNITS.items()
        if (
            row := PerfRow(int(size), iterations, peak * factor if peak > 0 else None, average * factor, rate)
        ).consistent
        and average > 0
    ]
    if len(fitting) != 1:
        run.bad_lines.append(
            (0, f"BW_average {average:g} fits neither MB/sec nor Gb/sec at MsgRate {rate:g}")
        )
        return
    run.unit, row = fitting[0]
    run.rows.append(row)


def _old_json(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The two tables of what perftest called JSON before it had quotes; `cut` where the last bracket is missing."""
    tables: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.splitlines():
        if (begin := re.match(r'\s*"?(test_info|results)"?\s*:\s*\{', line)) is not None:
            name = begin[1]
        elif (entry := _OLD_JSON.fullmatch(line)) is not None and name:
            tables.setdefault(name, {})[entry[1]] = entry[2]
    yield from tables.items()
    if not text.rstrip().endswith("}"):
        yield "cut", {"at": "the end"}


def _real(value: Any) -> float:
    """A number, also in a string; NaN for anything else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return math.nan
    return float(value)
