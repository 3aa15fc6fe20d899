"""`judge_perftest`: what a bandwidth test of perftest proves, with the frame of `collectives.nccl_tests.verdict`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from collectives.nccl.causes import CAUSES, kind_of_status
from collectives.nccl_tests.expectation import Expectation
from collectives.nccl_tests.statements import finding, unknown
from collectives.perftest import PerfRun
from nettune.checks import Finding, Status
from nettune.units import format_rate, format_size
from nettune.wording import counted

ENDED, COMPLETE, BANDWIDTH, METHOD = (
    "perftest-ended",
    "perftest-complete",
    "perftest-bandwidth",
    "perftest-method",
)
_ALL = 23
"""Sizes of -a: 2 bytes to 8 MiB."""


def judge_perftest(run: PerfRun, expected: Expectation | None = None, name: str = "") -> list[Finding]:
    """Findings about one run; a PASS for each rule that was applied and held.

    Args:
        run: of `parse_perftest`.
        expected: rate that the largest size shall reach.
        name: of the file, for the sentences.
    """
    if run.empty:
        fix = "Give what ib_write_bw, ib_read_bw or ib_send_bw printed, or its --out_json file."
        found = [unknown(COMPLETE, "no result of a bandwidth test of perftest in it", fix)]
    else:
        found = [*_ended(run)]
        found = [*(found or _complete(run)), *_bandwidth(run, expected), *_method(run)]
    prefix = f"{name}: " if name else ""
    return [replace(one, what=prefix + one.what) for one in found]


def _ended(run: PerfRun) -> Iterator[Finding]:
    if not run.failures:
        return
    line, text = run.failures[0]
    kept = f"; {counted(len(run.rows), 'size')} before it are kept" if run.rows else "; nothing was measured"
    last = f" after {format_size(run.rows[-1].size_bytes)}" if run.rows else ""
    what, fix = (
        f"failed{last}: {text}{kept}",
        "Look at the other end's output, and at counters of both ports.",
    )
    if run.status is not None:
        cause = CAUSES[kind_of_status(run.status[0], 0)]
        what = f"failed{last}: status {run.status[0]}, syndrome {run.status[1]}: {cause.says}{kept}"
        fix = cause.fix or "Look at the path between both ends: link state, MTU, GID index, drops."
    yield unknown(ENDED, what, fix, line=line, rows=len(run.rows))


def _complete(run: PerfRun) -> Iterator[Finding]:
    problems = []
    if run.bad_lines:
        line, text = run.bad_lines[0]
        problems.append(f"{f'line {line}' if line else 'a result'} cannot be read: {text[:60]!r}")
    if not run.rows:
        problems.append("no result")
    if run.unit == "?":
        problems.append("the head names two units, or one that is not known")
    if run.rows and not run.closed:
        problems.append("the line under the table is missing")
    if run.all_sizes and run.rows and len({row.size_bytes for row in run.rows}) < _ALL:
        problems.append(f"{counted(len(run.rows), 'size')} of the {_ALL} of -a")
    odd = next((row for row in run.rows if not row.consistent), None)
    if odd is not None:
        problems.append(f"bandwidth and message rate of {format_size(odd.size_bytes)} do not belong together")
    if problems:
        what = f"incomplete: {'; '.join(problems[:3])}"
        yield unknown(COMPLETE, what, "Give the whole output, or run again.", rows=len(run.rows))
    else:
        what = f"{counted(len(run.rows), 'size')}, all there, printed in {run.unit}"
        yield finding(COMPLETE, Status.PASS, what, rows=len(run.rows), unit=run.unit)


def _bandwidth(run: PerfRun, expected: Expectation | None) -> Iterator[Finding]:
    row = run.largest
    if row is None or expected is None:
        return
    limit_gbps, why = expected.rate_gbps
    both = 2 if run.bidirectional else 1
    ratio = row.average_gbps / (both * limit_gbps)
    met = ratio >= 1
    ways = ", both directions together" if run.bidirectional else ""
    what = (
        f"{format_rate(row.average_gbps)} at {format_size(row.size_bytes)}{ways}, {ratio:.0%} of the"
        f" {format_rate(both * limit_gbps)} expected ({why})"
    )
    fix = (
        ""
        if met
        else "Compare with other ports of the host; check PCIe width and speed, MTU, and the CPU's NUMA node."
    )
    yield finding(
        BANDWIDTH, Status.PASS if met else Status.FAIL, what, fix, average_gbps=row.average_gbps, source=why
    )


def _method(run: PerfRun) -> Iterator[Finding]:
    """What makes the figures less than they look."""
    if run.cpu_frequency:
        what = "the CPU's frequency changed during the run: bandwidths and rates are off by as much"
        yield finding(
            METHOD, Status.WARN, what, "Set the performance governor (cpupower), or run with -F knowingly."
        )
    row = run.largest
    if row is not None and row.peak_gbps and row.average_gbps < 0.8 * row.peak_gbps:
        what = f"average {format_rate(row.average_gbps)} is far below the peak {format_rate(row.peak_gbps)} at {format_size(row.size_bytes)}"
        yield finding(
            METHOD, Status.WARN, what, "Look for traffic of others, pauses and drops; run longer (-D 10)."
        )
