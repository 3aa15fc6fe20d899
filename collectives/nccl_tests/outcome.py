"""What a run of nccl-tests or rccl-tests says of itself, in one word: for logs and captures, where no bandwidth is asked for.

`judge` of `verdict` says more, of one run whose end and expected bandwidth are known.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from collectives.nccl_tests.result import Failure, Row, Run


class Outcome(enum.StrEnum):
    """What an output says of its run; the first that applies, worst first."""

    WRONG = "the data is wrong"
    MISSED = "the average bandwidth is below NCCL_TESTS_MIN_BW"
    FAILED = "ended early"
    UNFINISHED = "has no end: it hung, was killed, or the text is cut"
    UNCHECKED = "the data was not compared (-c 0, or no whole row)"
    SOUND = "the data is right"
    NO_OUTPUT = "is no output of nccl-tests"


_SEVERITY = list(Outcome)


def outcome(run: Run) -> Outcome:
    """What it says; a failure at its end follows from wrong data or a missed bandwidth.

    The name of a program and a launcher's words alone are no output: any log may hold them.
    """
    begun = run.options or run.devices or run.rows or run.ended or run.out_of_bounds or own_failures(run)
    if not begun:
        return Outcome.NO_OUTPUT
    if run.failed and (run.average_ok is not False or _data_failed(run)):
        return Outcome.WRONG
    if run.average_ok is False:
        return Outcome.MISSED
    if own_failures(run):
        return Outcome.FAILED
    if run.out_of_bounds is None or not run.ended:
        return Outcome.UNFINISHED
    return Outcome.SOUND if run.checked and not run.bad_lines else Outcome.UNCHECKED


def _data_failed(run: Run) -> bool:
    failed, fine = run.out_of_bounds or (0.0, True)
    return failed > 0 or not fine or run.wrong > 0


def worst(runs: Sequence[Run]) -> Run:
    """The run with the worst outcome, of at least one."""
    return min(runs, key=lambda run: _SEVERITY.index(outcome(run)))


def own_failures(run: Run) -> list[Failure]:
    """Failures that the tool itself tells, not its launcher; those with a reason first."""
    found = [one for one in run.failures if one.kind != "launcher"]
    return sorted(found, key=lambda one: one.kind == "trace")


def wrong_rows(run: Run) -> list[tuple[Row, float]]:
    """(row, wrong elements in its worse half) of rows with wrong data."""
    found = ((row, max(abs(half.wrong or 0.0) for half in row.halves)) for row in run.rows)
    return [(row, wrong) for row, wrong in found if wrong > 0]


def first_sign(run: Run) -> int:
    """The first line that tells of trouble."""
    lines = [row.line for row, _ in wrong_rows(run)] + [one.line for one in own_failures(run)]
    return min([*lines, *run.failed_words], default=1)
