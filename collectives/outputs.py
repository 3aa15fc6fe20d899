"""Recorded outputs of benchmarks: which tools printed into a text, and what each of their runs said."""

from __future__ import annotations

from collectives.nccl_tests.jsonform import looks_like_json, parse_json
from collectives.nccl_tests.result import Run
from collectives.nccl_tests.text import parse_text
from collectives.perftest import PerfRun, looks_like_perftest, parse_perftest


def runs_in(text: str) -> list[Run | PerfRun]:
    """The runs in a text, at least one, which is empty where no tool is recognised.

    A script may have run both tools into one file: none hides the other.
    """
    if looks_like_json(text):
        return [parse_json(text)]
    of_perftest = [parse_perftest(text)] if looks_like_perftest(text) else []
    of_nccl_tests = parse_text(text.splitlines())
    if of_perftest and all(run.empty for run in of_nccl_tests):
        return [*of_perftest]
    return [*of_perftest, *of_nccl_tests]
