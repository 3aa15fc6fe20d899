"""Wrong data (39): what nccl-tests or rccl-tests printed, where an operator put their output into a capture.

The collector runs no traffic, so a capture has such a command only where somebody added it; data can be proven right or
wrong by no other source. Bandwidths are not judged here: without the fabric they have nothing to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectives.nccl.testoutput import TestOutput, Verdict, read_output
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.view import HostView

PROGRAM = "_perf"
"""`all_reduce_perf`, `alltoall_perf`, ...: how all programs of nccl-tests end."""
_FIXES = {
    Verdict.WRONG: "run pairs with -c 1 to find the host with wrong data; then its GPU memory test; then NCCL_PROTO unset",
    Verdict.MISSED: "look at the largest size: the average counts the smallest ones too",
    Verdict.FAILED: "see the messages before it, with NCCL_DEBUG=INFO and `nettune lint log`",
}
_NO_FABRIC = "system not yet initialized"
"""CUDA error 802."""


def outputs(view: HostView) -> Iterator[tuple[str, TestOutput]]:
    """(command, output) of each run of these programs, also of one that failed or was cut."""
    for line, captured in view.capture.commands.items():
        if any(word.endswith(PROGRAM) for word in line.split()):
            yield line, read_output(captured.text or captured.note)


def _wrong(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        for line, output in outputs(view):
            told = f"`{line[:60]}`: {output.verdict}"
            if output.verdict in _FIXES:
                fix = _FIXES[output.verdict]
                if _NO_FABRIC in output.failure:
                    fix = "start nvidia-fabricmanager of the driver's own version; see its log"
                say.fail(
                    view.where,
                    told + _detail(output),
                    basis="the program's own comparison and end",
                    fix=fix,
                    wrong_rows=output.wrong_rows,
                    failed_checks=output.bounds,
                )
            elif output.verdict is Verdict.SOUND:
                say.ok(view.where, f"{told} in {output.checked} rows", average=output.average)
            else:
                say.unknown(view.where, told, fix="run it with -c 1 and keep its whole output, stderr too")


def _detail(output: TestOutput) -> str:
    if output.verdict is Verdict.WRONG and output.wrong:
        size, count = output.wrong[0]
        return f", first {count} elements at {size} bytes, in {output.wrong_rows} of {output.rows} rows"
    if output.verdict is Verdict.MISSED:
        return f": {output.average} GB/s"
    return f" ({output.failure})" if output.verdict is Verdict.FAILED else ""


RULES = (
    Rule(
        "wrong-data", (39, 28), ("*_perf",), "the job learns from wrong gradients, and nobody is told", _wrong
    ),
)
