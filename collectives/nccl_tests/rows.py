"""Rows of the table, in the layouts of all versions.

2.0 to 2.11: `size count type [redop] [root] time algbw busbw error | time algbw busbw error`, with only the columns that
the operation has; from 2.13 on always redop (`none`; hypercube prints an empty one) and root (-1 for none), and `#wrong`
by `%g`. -S adds a date and a time, -I four statistics to each half, some builds a last column `#iters`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from collectives.nccl_tests.result import Row, Values

_BEGIN = re.compile(r"\s*(\d{1,20})\s+(\d{1,20})\s+([a-z]\w{0,15})(?:\s|$)", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?|-?inf|-?nan", re.ASCII)
_REDOP = re.compile(r"[a-z][a-z_]{1,15}")
_DATE, _CLOCK = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d\d:\d\d:\d\d")
_HALF = ("time", "algbw", "busbw", "wrong")
_STATISTICS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns after root.

    Attributes:
        statistics: -I: four more after each half.
        iterations: a last column `#iters`.
        old_error: the fourth column is the largest difference, not a count.
        cpu_time: -C: the first column is CPU time, so that size over time is not algbw.
    """

    statistics: bool = False
    iterations: bool = False
    old_error: bool = False
    cpu_time: bool = False

    @property
    def width(self) -> int:
        """Number of columns."""
        return 8 + 2 * _STATISTICS * self.statistics + self.iterations


def read_layout(line: str) -> Layout | None:
    """The layout that a head line tells: `# size count type redop root time algbw busbw #wrong ..`."""
    words = line.lstrip("# \t").split()
    if words[:3] != ["size", "count", "type"]:
        return None
    return Layout("i_min" in words, "#iters" in words, "error" in words, "cputime" in words)


@dataclass(frozen=True, slots=True)
class Started:
    """A row that begins on a line: its first columns, and the values that follow them on this line."""

    size_bytes: int
    count: int
    type: str
    redop: str
    values: tuple[str, ...]
    line: int


def started(text: str, line: int) -> Started | None:
    """The row that begins on this line; None where none does."""
    found = _BEGIN.match(text)
    if found is None:
        return None
    rest = text[found.end() :].split()
    if len(rest) >= 2 and _DATE.fullmatch(rest[-2]) and _CLOCK.fullmatch(rest[-1]):
        rest = rest[:-2]
    redop = rest.pop(0) if rest and _REDOP.fullmatch(rest[0]) and not _NUMBER.fullmatch(rest[0]) else ""
    return Started(
        int(found[1]), int(found[2]), found[3], "" if redop == "none" else redop, tuple(rest), line
    )


def is_value(word: str) -> bool:
    """A number, of rccl-tests with an asterisk where it is beyond a threshold, or `N/A`."""
    return word == "N/A" or _NUMBER.fullmatch(word.removesuffix("*")) is not None


def finished(row: Started, layout: Layout | None) -> Row | None:
    """The whole row; None where columns are missing, too many, or hold something else.

    Without a head line the number of columns decides.
    """
    words = row.values
    if not all(map(is_value, words)):
        return None
    known = layout if layout is not None else _guess(words)
    root, values = (words[0], words[1:]) if len(words) == known.width + 1 else (None, words)
    if len(values) != known.width:
        return None
    if root is not None and not re.fullmatch(r"-1|\d{1,7}", root):
        return None
    step = 4 + _STATISTICS * known.statistics
    halves = [_half(values[begin : begin + 4], known) for begin in (0, step)]
    if halves[0] is None or halves[1] is None:
        return None
    named = None if root in (None, "-1") else int(root or 0)
    return Row(row.size_bytes, row.count, row.type, row.redop, named, halves[0], halves[1], row.line)


def _guess(words: tuple[str, ...]) -> Layout:
    # An old error has an exponent of two digits and no more than one digit before it: 5e-07, 0e+00.
    old = bool(words) and re.fullmatch(r"\de[+-]\d\d", words[-1]) is not None
    return Layout(statistics=len(words) >= 8 + 2 * _STATISTICS, old_error=old)


def _half(words: tuple[str, ...], layout: Layout) -> Values | None:
    time, algbw, busbw, last = words
    if any(word == "N/A" or word.endswith("*") for word in (time, algbw, busbw)):
        return None
    checked = None if last == "N/A" else float(last.removesuffix("*"))
    if checked is not None and not math.isfinite(checked):
        checked = math.inf  # a count that is no number is no zero
    wrong, error = (None, checked) if layout.old_error else (checked, None)
    if last.endswith("*"):
        wrong = max(wrong or 0.0, 1.0)
    return Values(float(time), float(algbw), float(busbw), wrong, error)
