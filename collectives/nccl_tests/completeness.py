"""Whether all of a run's output is there, and whether its numbers belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from collectives.nccl_tests.result import Run, Values
from nettune.units import format_size
from nettune.wording import counted


def missing(run: Run) -> Iterator[str]:
    """What of a run's output is missing or does not fit the rest, a sentence each; nothing where all is there."""
    if run.torn is not None:
        yield f"the row of {format_size(run.torn)} is torn"
    if run.bad_lines:
        line, text = run.bad_lines[0]
        yield f"{'line ' + str(line) if line else 'a row'} holds no numbers: {text[:60]!r}"
    if run.elided:
        yield "lines were left out (...)"
    if not run.rows:
        yield "no row"
    if not run.ended and run.next_size is not None and (run.rows or run.torn is not None):
        yield f"it stops at {format_size(run.next_size)}"
    if run.out_of_bounds is None:
        yield "`Out of bounds values` is missing"
    if run.average is None:
        yield "`Avg bus bandwidth` is missing"
    if run.announced and not run.concluded:
        yield "the end is missing"
    if any(not half.finite for row in run.rows for half in row.halves):
        yield "a row has no finite numbers"
    asked = run.asked_sizes
    if asked and run.rows and (len(run.rows) % len(asked) or not _every_size(run, asked)):
        yield f"{counted(len(run.rows), 'row')} for {counted(len(asked), 'size')}"
    if run.rows and run.average is not None and not _average_fits(run):
        mean = fmean(half.busbw_gbytes_per_s for row in run.rows for half in row.halves)
        yield f"the rows' mean is {mean:.4g} GB/s, the average printed is {run.average:.4g}"
    yield from _inconsistent(run)


def _every_size(run: Run, asked: Sequence[int]) -> bool:
    """Each size as often as any other. Operations that divide the buffer among ranks round sizes down."""
    rounds = len(run.rows) // len(asked)
    sizes = sorted(row.size_bytes for row in run.rows)
    wanted = sorted(size for size in asked for _ in range(rounds))
    slack = 64 * max(run.ranks, 1) * 16
    return all(size <= want and want - size <= slack for size, want in zip(sizes, wanted, strict=True))


def _average_fits(run: Run) -> bool:
    """The printed average is the mean over all rows and halves (common.cu); columns are rounded to 2 decimals or less."""
    halves = [half.busbw_gbytes_per_s for row in run.rows for half in row.halves]
    rounding = fmean(0.0051 if value < 1000 else 0.0006 * value for value in halves)
    return run.average is not None and abs(fmean(halves) - run.average) <= rounding + 2e-5 * run.average


def _inconsistent(run: Run) -> Iterator[str]:
    """A row in which size, time and the two bandwidths do not belong together."""
    # hypercube moves what a rank lacks (src/hypercube.cu); alltoallv what its matrix says
    share = (run.ranks - 1) / run.ranks if run.op == "hypercube" and run.ranks else 1.0
    with_time = not run.cpu_time and run.program != "alltoallv_perf"
    for row in run.rows:
        size = row.size_bytes * share if with_time else None
        if any(half.finite and not _fits(size, half, run.factor) for half in row.halves):
            yield f"the columns of {format_size(row.size_bytes)} do not belong together"
            return


def _fits(size: float | None, half: Values, factor: float | None) -> bool:
    """Within what rounding to two decimals, or to few digits of large numbers, leaves open."""
    algbw, busbw, time = half.algbw_gbytes_per_s, half.busbw_gbytes_per_s, half.time_us
    if factor is not None and abs(busbw - algbw * factor) > 0.0052 * (1 + factor) + 0.006 * busbw:
        return False
    if size is None:
        return True
    low, high = time - 0.006 - 0.001 * time, time + 0.006 + 0.001 * time
    fastest = size / low / 1e3 if low > 0 else float("inf")
    return size / high / 1e3 * 0.995 - 0.0051 <= algbw <= fastest * 1.005 + 0.0051
