"""`judge`: what a run of nccl-tests proves. PASS only where everything is there; UNKNOWN where it cannot be judged.

FAIL: the data is wrong, a bandwidth is below what was asked for, the fabric's NICs were not used. UNKNOWN: the run hung,
died or was cut short, so that nothing is proven. What was measured before is kept in either case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collectives.nccl.causes import Kind
from collectives.nccl.firstcause import lint_logs
from collectives.nccl_tests.completeness import missing
from collectives.nccl_tests.ending import Ending, ended
from collectives.nccl_tests.expectation import Expectation
from collectives.nccl_tests.result import Run
from collectives.nccl_tests.statements import finding, unknown
from nettune.checks import Finding, Status
from nettune.units import format_size
from nettune.wording import counted

COMPLETE, DATA = "nccl-tests-complete", "nccl-tests-data"
BANDWIDTH, NETWORK, SHAPE, SECRETS = (
    "nccl-tests-bandwidth",
    "nccl-tests-network",
    "nccl-tests-shape",
    "nccl-tests-secrets",
)

_SOCKETS_GBYTES_PER_S = 10.0
"""Own choice: one NIC of 100 Gbit/s gives 12.5; TCP between hosts seldom more than this (CSCS: 5.4 in place of 123)."""
_DIP, _DIP_FROM_BYTES = 0.7, 1 << 20
"""Own choice: busbw grows with the size; below 1 MiB noise of 2 is common (NCCL issue 2441 shows local dips)."""
_COLD = 3.0
"""Own choice: the first half row against its other half; a first use of connections costs more than this."""


def judge(
    run: Run, expected: Expectation | None = None, ending: Ending | None = None, name: str = ""
) -> list[Finding]:
    """Findings about one run; a PASS for each rule that was applied and held.

    Args:
        run: of `parse_text` or `parse_json`.
        expected: busbw that the largest size shall reach.
        ending: how the process ended; None for a recorded output.
        name: of the file, for the sentences.
    """
    causes = lint_logs([("output", run.log)]) if run.log else []
    found = [*ended(run, ending or Ending(), causes)]
    if run.empty:
        fix = "Give what all_reduce_perf or a sibling printed, or its -J file."
        found = [one for one in found if one.status is not Status.PASS]
        found = found or [unknown(COMPLETE, "no output of nccl-tests in it", fix)]
    elif not any(one.status is Status.UNKNOWN for one in found):
        found += _complete(run)
    found += [*_data(run), *_bandwidth(run, expected), *_network(run, causes), *_shape(run)]
    if run.secrets:
        what = f"the JSON file holds the whole environment of the process, {counted(run.secrets, 'variable')} with a secret's name"
        fix = "Keep the file private; nettune keeps nothing of it but NCCL's variables."
        found.append(finding(SECRETS, Status.WARN, what, fix))
    prefix = f"{name}: " if name else ""
    return [replace(one, what=prefix + one.what) for one in found]


def _complete(run: Run) -> Iterator[Finding]:
    """Whether all rows and the footer are there."""
    problems = list(missing(run))
    if run.copies > 1:
        what = f"{run.copies} processes printed a table each: a build without MPI under a launcher, every one measured alone"
        yield unknown(
            COMPLETE, what, "Build nccl-tests with MPI=1, or take all_reduce_perf_mpi.", copies=run.copies
        )
    elif problems:
        what = f"incomplete: {'; '.join(problems[:3])}"
        yield unknown(COMPLETE, what, "Give the whole output, or run again.", rows=len(run.rows))
    elif not run.options:
        what = f"{counted(len(run.rows), 'row')} agree with the average, but the head is missing: ranks and sizes asked for are not known"
        yield finding(COMPLETE, Status.WARN, what, "Keep the whole output.", rows=len(run.rows))
    else:
        yield finding(
            COMPLETE, Status.PASS, f"{counted(len(run.rows), 'row')}, all there", rows=len(run.rows)
        )
    if run.reduced_max_bytes is not None:
        what = f"-e was lowered to {format_size(run.reduced_max_bytes)} for lack of GPU memory: larger sizes were not measured"
        yield finding(COMPLETE, Status.WARN, what, "Ask for sizes that fit.", max_bytes=run.reduced_max_bytes)


def _data(run: Run) -> Iterator[Finding]:
    """Whether the data arrived as it should."""
    wrong, bounds = run.wrong, run.out_of_bounds
    if wrong > 0 or (bounds is not None and (not bounds[1] or bounds[0] > 0)):
        first = next((row for row in run.rows if any(half.wrong for half in row.halves)), None)
        at = f", first at {format_size(first.size_bytes)}" if first is not None else ""
        checks = f"{bounds[0]:g} checks failed" if bounds is not None else "the check's summary is missing"
        what = f"wrong data: {f'{wrong:g} elements{at}; ' if wrong else ''}{checks}"
        fix = "Do not use this fabric: find the host by pairs (`nettune qualify`); rule NCCL_PROTO=LL128 and GPU memory errors out."
        yield finding(DATA, Status.FAIL, what, fix, wrong=wrong if wrong < 1e300 else str(wrong))
    elif run.failed_words and run.average_ok is not False:
        what = f"line {run.failed_words[0]} says FAILED"
        yield finding(
            DATA, Status.FAIL, what, "Look at that line of the output.", lines=run.failed_words[:16]
        )
    elif not run.rows:
        return
    elif not run.checked:
        what = "the data was not checked (-c 0)"
        yield finding(DATA, Status.WARN, what, "Run once with -c 1 before relying on this fabric.")
    elif bounds is not None:
        yield finding(DATA, Status.PASS, "no wrong element", checked_rows=len(run.rows))


def _bandwidth(run: Run, expected: Expectation | None) -> Iterator[Finding]:
    """The bandwidth of the largest size against what was asked for, and the tool's own minimum."""
    best = run.busbw_gbytes_per_s
    if run.average_ok is False:
        what = (
            f"average busbw {run.average:g} GB/s is below 0.9 of NCCL_TESTS_MIN_BW, which the run was given"
        )
        fix = "The average counts tiny sizes too: judge the largest size with --expect, then look for the slow link."
        yield finding(BANDWIDTH, Status.FAIL, what, fix, average_gbytes_per_s=run.average)
    if best is None or run.copies > 1:
        return
    size = format_size(run.largest[0].size_bytes)
    if run.ranks == 1:
        what = "one rank: nothing crosses a network, busbw is 0 by definition"
        yield unknown(BANDWIDTH, what, "Run with two ranks or more.")
    elif expected is not None:
        limit, why = expected.limit(run)
        if limit is None:
            yield unknown(
                BANDWIDTH,
                f"busbw {best:.4g} GB/s at {size} cannot be judged: {why}",
                "Give GB/s with --expect.",
            )
            return
        met = best >= limit
        what = f"busbw {best:.4g} GB/s at {size}, {best / limit:.0%} of the {limit:.4g} expected ({why})"
        fix = (
            ""
            if met
            else "Compare hosts by pairs, look at counters and GPU-NIC distance: `nettune qualify`, `nettune lint`."
        )
        status = Status.PASS if met else Status.FAIL
        yield finding(
            BANDWIDTH, status, what, fix, busbw_gbytes_per_s=best, expected_gbytes_per_s=limit, source=why
        )


def _network(run: Run, causes: Sequence[Finding]) -> Iterator[Finding]:
    """Whether NCCL used RDMA between hosts, out of its own log."""
    if len(run.hosts) < 2:
        return
    best = run.busbw_gbytes_per_s
    fallback = next((one for one in causes if one.check == Kind.SOCKET_FALLBACK), None)
    if fallback is not None:
        said = fallback.what.partition(": ")[2].removeprefix("also: ") or fallback.what
        yield finding(NETWORK, Status.FAIL, f"fell back to sockets: {said}", fallback.fix, fallback.where)
    elif any("Using network" in line or "NET/" in line for line in run.log):
        yield finding(NETWORK, Status.PASS, "NCCL's log tells of no fall-back to sockets")
    elif best is not None and run.largest[0].size_bytes >= _DIP_FROM_BYTES and best < _SOCKETS_GBYTES_PER_S:
        what = f"busbw {best:.4g} GB/s between {counted(len(run.hosts), 'host')} is what TCP sockets give; the output does not tell the network"
        fix = "Run with NCCL_DEBUG=INFO: `Using network Socket` would prove a fall-back."
        yield finding(NETWORK, Status.WARN, what, fix, busbw_gbytes_per_s=best)
    else:
        what = "which network NCCL used is not in the output"
        yield finding(NETWORK, Status.UNKNOWN, what, "Run with NCCL_DEBUG=INFO.", required=False)


def _shape(run: Run) -> Iterator[Finding]:
    """Dips in the series, and a cold start."""
    best, of_size = 0.0, 0
    for row in sorted(run.rows, key=lambda one: one.size_bytes):
        value = row.busbw_gbytes_per_s
        if row.size_bytes < _DIP_FROM_BYTES:
            continue
        if value < _DIP * best and row.size_bytes > of_size:
            what = f"busbw falls to {value:.4g} GB/s at {format_size(row.size_bytes)}, below {best:.4g} of a smaller size"
            fix = "Measure the sizes around it densely and several times: an algorithm's switch, or traffic of others."
            yield finding(SHAPE, Status.WARN, what, fix, size_bytes=row.size_bytes)
            break
        if value > best:
            best, of_size = value, row.size_bytes
    if run.rows:
        out, into = (half.time_us for half in run.rows[0].halves)
        if into > 1 and out > _COLD * into and run.rows[0].size_bytes < _DIP_FROM_BYTES:
            what = f"cold start: the first half row takes {out:g} us, the same in place {into:g} us"
            yield finding(SHAPE, Status.WARN, what, "Raise -w, and leave the first row out.")
