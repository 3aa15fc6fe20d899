"""What nccl-tests prints, line by line: rows as they come, and one `Run` for each run in it.

Tolerates labels of launchers, NCCL's log between the lines and inside a row, several runs one after another, and the
copies of a build without MPI under mpirun. Nothing here judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from collectives.nccl_tests import failures
from collectives.nccl_tests.labels import unlabelled
from collectives.nccl_tests.result import PROGRAMS, Device, Row, Run
from collectives.nccl_tests.rows import Layout, Started, finished, is_value, read_layout, started

_HEAD = re.compile(
    r"# nThread\s+(\d+)\s+nGpus\s+(\d+)\s+minBytes\s+(\d+)\s+maxBytes\s+(\d+)\s+step:\s*(\d+)\((factor|bytes)\)"
)
_MORE = re.compile(r"(warmup iters|agg iters|iters|validation|graph|unalign):\s*(\d{1,12})")
_MORE_NAMES = {"warmup iters": "warmup", "iters": "iterations", "agg iters": "aggregated"}
_DEVICE = re.compile(
    r"#\s+Rank\s+(\d{1,7})\s+(?:Group\s+(\d{1,7})\s+)?Pid\s+(\d{1,10})\s+on\s+(\S{1,255})\s+device\s+(\d{1,4})\s+"
    r"\[([^\]]{1,32})\]\s+(\S.*)"
)
_VERSION = re.compile(r"#? ?(?:nccl-tests version|rccl-tests: Version)\s+(\S+)(?:.*nccl-library=(\d{3,6}))?")
_NCCL_VERSION = re.compile(r"\b[NR]CCL version (\d+(?:\.\d+){1,3})")
_ANNOUNCED = re.compile(r"# Collective test (starting|concluded): (\S+)")
_PROGRAM = re.compile(r"\b(" + "|".join(PROGRAMS) + r")(?:_mpi)?\b")
_NAMED = re.compile(r"run_nccl_tests\.sh\b.*?\s-t\s+(" + "|".join(PROGRAMS.values()) + r")\b")
"""Google's wrapper, as in its GKE documents."""
_REDUCED = re.compile(r"# Reducing maxBytes to (\d{1,20}) due to memory limitation")
_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(\d\S{0,30})\s+(OK|FAILED)\s*")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:\s*(\d\S{0,30})(?:\s+(OK|FAILED))?\s*")
_ELIDED = re.compile(r"\s*(?:\.\.\.|…|\[\.\.\.\]|# ?\.\.\..*)\s*")
_DOTS = ("...", "…", "[...]")
_NCCL_LINE = re.compile(r"\b[NR]CCL (?:INFO|WARN|TRACE|version)\b")
_PLAIN_NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_MOST_LOG = 50_000
"""Lines of NCCL's log that are kept of a run."""
_MOST_BAD = 64
_LONGEST_LINE = 4096
"""A row has 300 characters at most; what follows in a line without end is not looked at."""


def nccl_version_name(code: int) -> str:
    """`2.32.3` of 23203, `2.8.4` of 2804 (NCCL_VERSION in nccl.h)."""
    if code >= 10_000:
        return f"{code // 10_000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"


class TextParser:
    """Takes lines and gives rows.

    Attributes:
        runs: the runs so far; the last one is being read.
    """

    def __init__(self) -> None:
        self.runs: list[Run] = [Run()]
        self._layout: Layout | None = None
        self._begun: Started | None = None
        self._number = 0
        self._program = ""

    @property
    def run(self) -> Run:
        """The run that is being read."""
        return self.runs[-1]

    def feed(self, line: str, number: int | None = None) -> list[Row]:
        """Take one line, the next one or that of a number; the rows that it completes."""
        self._number = self._number + 1 if number is None else number
        text, rank = unlabelled(line[:_LONGEST_LINE])
        begin = failures.cut(text, self.run.hosts) if "Test " in text else None
        rows = self._row(text if begin is None else text[:begin])
        if rows or (self._begun is not None and self._begun.line == self._number and begin is None):
            return rows
        self._told(text, rank)
        return []

    def close(self) -> list[Run]:
        """The end of the output: all runs, but for one of which there is nothing while others have something."""
        self._give_up()
        for run in self.runs:
            run.program = run.program or self._program
        return [run for run in self.runs if not run.empty] or self.runs[:1]

    def _row(self, text: str) -> list[Row]:
        """Rows out of a line: whole, or the rest of one that NCCL's log has torn in two."""
        begun = started(text, self._number)
        if begun is None and self._begun is not None:
            rest = text.split()
            if rest and all(map(is_value, rest)):
                begun = self._begun
                begun = Started(
                    begun.size_bytes, begun.count, begun.type, begun.redop, (*begun.values, *rest), begun.line
                )
        if begun is None:
            return []
        if begun.line == self._number:
            self._give_up()
        row = finished(begun, self._layout)
        if row is None:
            self._begun = begun
            return []
        self._begun = None
        self.run.rows.append(row)
        return [row]

    def _give_up(self) -> None:
        """A row that was begun and has not been finished: torn at the end, bad where it holds something else."""
        begun, self._begun = self._begun, None
        if begun is None or not (self._layout or (begun.values and is_value(begun.values[0]))):
            return  # two numbers and a word outside of a table
        text = " ".join((str(begun.size_bytes), str(begun.count), begun.type, begun.redop, *begun.values))
        if all(map(is_value, begun.values)) and len(begun.values) <= (self._layout or Layout()).width:
            self.run.torn = begun.size_bytes
        elif len(self.run.bad_lines) < _MOST_BAD:
            self.run.bad_lines.append((begun.line, text[:120]))

    def _told(self, text: str, rank: int | None) -> None:
        if "CCL " in text and _NCCL_LINE.search(text) is not None:
            self._logged(text)
            return
        found = failures.failure(text, self._number, rank, self.run.devices)
        if found is not None:
            self.run.failures.append(found)
            return
        comment = text.lstrip()
        if comment.startswith(("#", "rccl-tests")):
            self._comment(comment)
        elif "_perf" in text and (named := _PROGRAM.search(text)) is not None:
            self._program = named[1]
        elif "run_nccl_tests" in text and (named := _NAMED.search(text)) is not None:
            self._program = f"{named[1]}_perf"
        elif comment.startswith(_DOTS):
            self.run.elided += _ELIDED.fullmatch(text) is not None

    def _logged(self, text: str) -> None:
        if (version := _NCCL_VERSION.search(text)) is not None and not self.run.nccl_version:
            self.run.nccl_version = version[1]
        if len(self.run.log) < _MOST_LOG:
            self.run.log.append(text)

    def _comment(self, text: str) -> None:
        run = self.run
        if (layout := read_layout(text)) is not None:
            self._layout = layout
            run.per_iteration, run.cpu_time = layout.statistics, layout.cpu_time
        elif (device := _DEVICE.match(text)) is not None:
            rank, group, pid, host, index, bus, model = device.groups()
            run.devices.append(
                Device(int(rank), int(pid), host, int(index), bus, model.strip()[:80], int(group or 0))
            )
        elif (head := _HEAD.match(text)) is not None:
            self._head(text, head)
        elif (version := _VERSION.match(text)) is not None:
            run = self._new_if_ended()
            run.version = version[1]
            run.nccl_version = nccl_version_name(int(version[2])) if version[2] else run.nccl_version
        elif (announced := _ANNOUNCED.match(text)) is not None:
            if announced[1] == "starting":
                run = self._new_if_ended()
                run.announced = True
            else:
                run.concluded = True
            run.program = announced[2].removesuffix("_mpi")
        elif (reduced := _REDUCED.match(text)) is not None:
            run.reduced_max_bytes = int(reduced[1])
        else:
            self._foot(text)

    def _foot(self, text: str) -> None:
        run = self.run
        self._give_up()
        if (bounds := _BOUNDS.fullmatch(text)) is not None and _PLAIN_NUMBER.fullmatch(bounds[1]):
            run.out_of_bounds = (
                float(bounds[1]),
                bounds[2] == "OK" and run.out_of_bounds in (None, (0.0, True)),
            )
        elif (average := _AVERAGE.fullmatch(text)) is not None and _PLAIN_NUMBER.fullmatch(average[1]):
            run.average = float(average[1])
            run.average_ok = None if average[2] is None else average[2] == "OK"
        elif "..." in text and _ELIDED.fullmatch(text) is not None:
            run.elided += 1
        if "FAILED" in text:
            run.failed_words.append(self._number)

    def _head(self, text: str, found: re.Match[str]) -> None:
        run = self._new_if_ended()
        if run.options and not run.rows:
            run.copies += 1  # another head before the first row: another process prints a table of its own
            return
        if run.options:
            run = self._new()
        numbers = [int(group) for group in found.groups()[:5]]
        run.options = dict(zip(("threads", "gpus", "min_bytes", "max_bytes"), numbers, strict=False))
        run.options["step_factor" if found[6] == "factor" else "step_bytes"] = numbers[4]
        for name, value in _MORE.findall(text):
            run.options.setdefault(_MORE_NAMES.get(name, name), int(value))

    def _new_if_ended(self) -> Run:
        return self._new() if self.run.ended or self.run.concluded else self.run

    def _new(self) -> Run:
        self._give_up()
        self._layout = None
        self.runs.append(Run())
        return self.run


def parse_text(lines: Iterable[str]) -> list[Run]:
    """The runs in an output; one empty run where there is nothing of nccl-tests in it."""
    parser = TextParser()
    for line in lines:
        parser.feed(line)
    return parser.close()
