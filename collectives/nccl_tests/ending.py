"""Whether a run hung, died or ended, with the ranks where the output names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from collectives.nccl.causes import Kind
from collectives.nccl_tests.failures import EXIT_MEANINGS
from collectives.nccl_tests.result import Failure, Run
from collectives.nccl_tests.statements import finding, host_element, unknown
from nettune.checks import Finding, Status
from nettune.units import format_size
from nettune.wording import counted, some

ENDED = "nccl-tests-ended"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the process ended, where that is known.

    Attributes:
        exit_code: None where it was not seen (a recorded output), or the run was stopped.
        timed_out_s: the time after which it was stopped; None where it ended by itself.
        said: first words on standard error.
    """

    exit_code: int | None = None
    timed_out_s: float | None = None
    said: str = ""


def ended(run: Run, ending: Ending, causes: Sequence[Finding] = ()) -> Iterator[Finding]:
    """Hung, died, or ended; what NCCL's log says of the cause stands beside.

    Args:
        run: what was printed.
        ending: how the process ended.
        causes: of `lint_logs`.
    """
    cause = _cause(causes)
    told = _told(run)
    begun = bool(run.rows) or run.torn is not None
    at = (
        f" at {format_size(run.next_size)}"
        if begun and run.next_size is not None
        else " before the first row"
        if not begun
        else ""
    )
    kept = f"; {counted(len(run.rows), 'row')} before it are kept" if run.rows else "; nothing was measured"
    evidence: dict[str, Any] = {"rows": len(run.rows), "next_size_bytes": run.next_size, **told, **cause}
    # What a launcher tells after a time-out is that we stopped it.
    counting = [one for one in run.failures if ending.timed_out_s is None or one.kind != "launcher"]
    who = _who(counting)
    where = next((host_element(one.host) for one in counting if one.rank is not None), None)
    if ending.timed_out_s is not None:
        ranks = (
            f"{who} told of a failure"
            if who
            else f"which of {run.ranks or 'its'} ranks does not answer is not in the output"
        )
        what = f"hung{at}: stopped after {ending.timed_out_s:g} s; {ranks}{kept}"
        fix = "Ask ncclras (NCCL 2.24) for the missing rank while it hangs, or run with NCCL_DEBUG=INFO and `nettune lint log`."
        yield unknown(ENDED, what, fix, where, **evidence)
        return
    timeout = [one for one in run.failures if one.kind == "timeout"]
    if timeout and not run.ended:
        what = f"hung{at}: {timeout[0].text} ({counted(len(timeout), 'message')}){kept}"
        yield unknown(
            ENDED, what, "Run with NCCL_DEBUG=INFO, and ask ncclras while it hangs.", where, **evidence
        )
        return
    usage = [one for one in run.failures if one.kind == "usage"]
    if usage:
        fix = "Leave out the option that this version does not have; nccl-tests ends with exit code 0 here."
        yield unknown(ENDED, usage[0].text, fix, **evidence)
        return
    # After FAILED a rank exits with a code of its own, which the launcher tells of, too.
    died = [] if run.failed and run.ended else run.failures
    if died:
        first = next((one for one in died if one.rank is not None), died[0])
        reason = next((one.text for one in died if one.kind != "trace"), died[0].text)
        what = f"{who or 'it'} died{at}: {reason}{kept}"
        why = cause.get("cause", "")
        fix = (
            f"NCCL's log names the cause: {why}"
            if why
            else "Look at the named rank's host; run with NCCL_DEBUG=INFO."
        )
        yield unknown(ENDED, what, fix, where or host_element(first.host), **evidence, line=died[0].line)
    yield from _exit(run, ending, told=bool(died))


def _exit(run: Run, ending: Ending, *, told: bool = False) -> Iterator[Finding]:
    code = ending.exit_code
    if code is None:
        return
    if code != 0 and not run.failed and not told:
        meaning = EXIT_MEANINGS.get(code, f"signal {-code}" if code < 0 else "")
        said = f": {ending.said}" if ending.said else ""
        what = f"ended with exit code {code}{f' ({meaning})' if meaning else ''}{said}"
        fix = "Look at what the launcher printed at the end of output.txt."
        yield unknown(ENDED, what, fix, exit_code=code, rows=len(run.rows))
    elif code == 0 and not run.failures:
        yield finding(ENDED, Status.PASS, "ended with exit code 0", exit_code=0)


def _who(failures: Sequence[Failure]) -> str:
    """`rank 3 on g17`, as far as the output names them."""
    ranks = sorted({one.rank for one in failures if one.rank is not None})
    hosts = list(dict.fromkeys(one.host for one in failures if one.host))
    on = f" on {some(hosts)}" if hosts else ""
    if not ranks:
        return f"a rank{on}" if hosts else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {some(map(str, ranks), 8)}{on}"


def _told(run: Run) -> dict[str, Any]:
    told = [
        {"kind": one.kind, "text": one.text, "rank": one.rank, "host": one.host} for one in run.failures[:16]
    ]
    return {"failures": told} if told else {}


def _cause(causes: Sequence[Finding]) -> dict[str, Any]:
    """The first cause in NCCL's own lines, where they tell one."""
    first = next((one for one in causes if one.evidence.get("first_cause")), None)
    if first is None or first.check == Kind.SOCKET_FALLBACK:
        return {}
    return {
        "cause": f"{first.where}: {first.what.partition(': ')[2] or first.what}",
        "cause_check": first.check,
    }
