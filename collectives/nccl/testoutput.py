"""The verdict in what nccl-tests or rccl-tests printed: wrong data, a failure, a miss of NCCL_TESTS_MIN_BW, or no end.

NVIDIA/nccl-tests src/common.cu (2.19.6). Columns are found by the names in the header, from the right: `redop` may be
empty, later versions add `#iters`, `timestamp` or times of iterations at the end, and old ones have `error`, the largest
difference, in place of `#wrong`. `# Out of bounds values : N OK|FAILED` counts failed checks and is printed last, also
where nothing was checked (-c 0); with -J the same stands in a JSON file.
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, field
from typing import Any

_BOUNDS = re.compile(r"# Out of bounds values : (\d{1,12}) (OK|FAILED)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (\S{1,20})(?: (OK|FAILED))?")
_HEADER = re.compile(r"#\s+size\s+count\s.*\bbusbw\b")
_BEGIN = re.compile(r"# (?:Collective test starting|nThread \d)")
_RANK = re.compile(r"#\s+Rank\s+\d{1,9}\s.{0,60}?\bon\s+(\S{1,253})\s+device\s")
_UNCHECKED = re.compile(r"validation: 0\b")
_NO_REASON = "Test failure"
_FAILURE = re.compile(
    r"Test (?:CUDA|NCCL) failure [^'\n]{0,80}'[^'\n]{0,300}'|Test timeout \(\S{1,12}\)|Invalid number of GPUs: [^\n]{0,120}"
)
_TRACE = re.compile(r" \.\. \S{1,253} pid\s+\d{1,10}: Test failure ")
_ROW = re.compile(r"(?:^|[\s:>])(\d{1,20})\s+\d{1,20}\s+[a-z][a-z0-9_]{1,20}\s(.*)$", re.ASCII)
_CHECKS = {"#wrong", "error"}
_NUMBER = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?", re.ASCII)
_MOST_KEPT = 8


_WITHOUT_HEADER = ["time", "algbw", "busbw", "#wrong"] * 2
"""Where the header was cut off: the columns of 2.13 and later."""
_SMALLEST_COUNT = 1.0
"""Below it stands the largest difference of old versions, 5e-07, which is no count."""


class Verdict(enum.StrEnum):
    """What an output says of its run; the first that applies."""

    NO_OUTPUT = "is no output of nccl-tests"
    WRONG = "the data is wrong"
    MISSED = "the average bandwidth is below NCCL_TESTS_MIN_BW"
    FAILED = "ended early"
    UNFINISHED = "has no end: it hung, was killed, or the text is cut"
    UNCHECKED = "the data was not compared (-c 0, or no whole row)"
    SOUND = "the data is right"


@dataclass
class TestOutput:
    """What one run printed; filled by `take` line by line.

    Attributes:
        begun: it is an output of these programs.
        rows: rows with a measured time.
        checked: rows whose data was compared.
        wrong: (size, wrong elements) of rows with wrong data, the first few.
        wrong_rows: how many there are.
        bounds: failed checks by the last line; None where the output has no end.
        failed: the end says FAILED.
        average: average bandwidth as printed; empty where it has no end.
        missed: that is below NCCL_TESTS_MIN_BW.
        failure: the program's own words on why it ended early.
        last_size: of the last whole row.
        hosts: of the ranks, as far as they are listed.
    """

    begun: bool = False
    rows: int = 0
    checked: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)
    wrong_rows: int = 0
    bounds: int | None = None
    failed: bool = False
    average: str = ""
    missed: bool = False
    failure: str = ""
    last_size: str = ""
    hosts: set[str] = field(default_factory=set)
    _columns: list[str] = field(default_factory=list)
    _unchecked: bool = False

    @property
    def verdict(self) -> Verdict:
        """What it says; a failure at its end follows from wrong data or a missed bandwidth."""
        if self.wrong_rows or self.failed:
            return Verdict.WRONG
        if self.missed:
            return Verdict.MISSED
        if self.failure:
            return Verdict.FAILED
        if not self.begun:
            return Verdict.NO_OUTPUT
        if self.bounds is None:
            return Verdict.UNFINISHED
        return Verdict.SOUND if self.checked and not self._unchecked else Verdict.UNCHECKED

    def take(self, line: str) -> bool:
        """Read one line, with any prefix of a launcher; whether it is of such an output."""
        line = line[:4096]
        if ("Test " in line or "Invalid" in line) and (match := _FAILURE.search(line)):
            if self.failure in {"", _NO_REASON}:
                self.failure = match[0]
        elif "Test failure" in line and _TRACE.search(line):
            self.failure = self.failure or _NO_REASON
        elif not (self._comment(line) if "# " in line else self._row(line)):
            return False
        self.begun = True
        return True

    def _comment(self, line: str) -> bool:
        if match := _BOUNDS.search(line):
            self.bounds = (self.bounds or 0) + int(match[1])
            self.failed = self.failed or match[2] == "FAILED" or int(match[1]) > 0
        elif match := _AVERAGE.search(line):
            self.average = match[1]
            self.missed = self.missed or match[2] == "FAILED"
        elif match := _HEADER.search(line):
            names = line[match.start() :].lstrip("# ").split()
            # The header of a time stamp is one word, the stamp is two.
            words = [word for name in names for word in [name] * (1 + (name == "timestamp"))]
            self._columns = words if "time" in words else []
        elif _BEGIN.search(line):
            self._unchecked = self._unchecked or _UNCHECKED.search(line) is not None
            self.bounds = None  # one run after another
        elif match := _RANK.search(line):
            self.hosts.add(match[1])
        else:
            return False
        return True

    def _row(self, line: str) -> bool:
        row = _ROW.search(line)
        tail = self._columns[self._columns.index("time") :] if self._columns else _WITHOUT_HEADER
        values = row[2].split()[-len(tail) :] if row else []
        if row is None or len(values) < len(tail) or not _NUMBER.fullmatch(values[0]):
            return False
        self.rows += 1
        self.last_size = row[1]
        named = list(zip(tail, (value.rstrip("*") for value in values), strict=True))
        self.checked += any(_NUMBER.fullmatch(value) for name, value in named if name in _CHECKS)
        self._count(row[1], [v for name, v in named if name == "#wrong" and _NUMBER.fullmatch(v)])
        return True

    def _count(self, size: str, wrong: list[str]) -> None:
        worst = max(wrong, key=float, default="0")
        if float(worst) >= _SMALLEST_COUNT:
            self.wrong_rows += 1
            self.wrong += [(size, worst)] * (len(self.wrong) < _MOST_KEPT)

    def take_json(self, text: str) -> bool:
        """Read a file of -J (versions 1 to 3); whether it is one."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return False
        bounds = data.get("out_of_bounds") if isinstance(data, dict) else None
        if not isinstance(bounds, dict):
            return False
        self.begun = True
        count = bounds.get("count")
        self.bounds = count if isinstance(count, int) else 0
        # Its truths are the words "true", "false" and "unchecked".
        self.failed = bounds.get("okay") == "false" or self.bounds > 0
        average = data.get("average_bus_bandwidth")
        self.missed = isinstance(average, dict) and average.get("okay") == "false"
        errors = data.get("errors")
        self.failure = next((str(one)[:300] for one in errors if one), "") if isinstance(errors, list) else ""
        results = data.get("results")
        for row in results if isinstance(results, list) else ():
            self._json_row(row)
        return True

    def _json_row(self, row: Any) -> None:
        if not isinstance(row, dict):
            return
        size = str(row.get("size"))[:20]
        sides = [row.get("out_of_place"), row.get("in_place")]
        wrong = [
            str(s["nwrong"]) for s in sides if isinstance(s, dict) and type(s.get("nwrong")) in {int, float}
        ]
        self.rows += 1
        self.last_size = size
        self.checked += bool(wrong)
        self._count(size, [value for value in wrong if _NUMBER.fullmatch(value)])


def read_output(text: str) -> TestOutput:
    """What one run printed, or the JSON file of -J."""
    output = TestOutput()
    if not (text.lstrip().startswith("{") and output.take_json(text)):
        for line in text.splitlines():
            output.take(line)
    return output
