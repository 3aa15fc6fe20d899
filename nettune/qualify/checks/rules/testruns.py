"""Wrong data (39): what nccl-tests or rccl-tests printed, where an operator put their output into a capture.

The collector runs no traffic, so a capture has such a command only where somebody added it; data can be proven right or
wrong by no other source. Bandwidths are not judged here: without the fabric they have nothing to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectives.nccl_tests.jsonform import looks_like_json, parse_json
from collectives.nccl_tests.outcome import Outcome, outcome, own_failures, worst, wrong_rows
from collectives.nccl_tests.result import Run
from collectives.nccl_tests.text import parse_text
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.view import HostView

PROGRAM = "_perf"
"""`all_reduce_perf`, `alltoall_perf`, ...: how all programs of nccl-tests end."""
_FIXES = {
    Outcome.WRONG: "run pairs with -c 1 to find the host with wrong data; then its GPU memory test; then NCCL_PROTO unset",
    Outcome.MISSED: "look at the largest size: the average counts the smallest ones too",
    Outcome.FAILED: "see the messages before it, with NCCL_DEBUG=INFO and `nettune lint log`",
}
_NO_FABRIC = "system not yet initialized"
"""CUDA error 802."""


def outputs(view: HostView) -> Iterator[tuple[str, Run]]:
    """(command, worst run in its output) of these programs, also of one that failed or was cut."""
    for line, captured in view.capture.commands.items():
        if any(word.endswith(PROGRAM) for word in line.split()):
            text = captured.text or captured.note
            yield line, parse_json(text) if looks_like_json(text) else worst(parse_text(text.splitlines()))


def _wrong(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        for line, run in outputs(view):
            found = outcome(run)
            told = f"`{line[:60]}`: {found}"
            if found in _FIXES:
                fix = _FIXES[found]
                if any(_NO_FABRIC in failure.text for failure in own_failures(run)):
                    fix = "start nvidia-fabricmanager of the driver's own version; see its log"
                say.fail(
                    view.where,
                    told + _detail(run, found),
                    basis="the program's own comparison and end",
                    fix=fix,
                    wrong_rows=len(wrong_rows(run)),
                    failed_checks=run.out_of_bounds[0] if run.out_of_bounds else None,
                )
            elif found is Outcome.SOUND:
                say.ok(view.where, f"{told} in {len(run.rows)} rows", average=run.average)
            else:
                say.unknown(view.where, told, fix="run it with -c 1 and keep its whole output, stderr too")


def _detail(run: Run, found: Outcome) -> str:
    if found is Outcome.WRONG and (rows := wrong_rows(run)):
        row, wrong = rows[0]
        return f", first {wrong:g} elements at {row.size_bytes} bytes, in {len(rows)} of {len(run.rows)} rows"
    if found is Outcome.MISSED:
        return f": {run.average:g} GB/s"
    return f" ({own_failures(run)[0].text})" if found is Outcome.FAILED else ""


RULES = (
    Rule(
        "wrong-data",
        (39, 28),
        ("*_perf",),
        "the job learns from wrong gradients, or does not run at all",
        _wrong,
    ),
)
