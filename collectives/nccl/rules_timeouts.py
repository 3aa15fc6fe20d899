"""The ladder of timeouts: network error < watchdog heartbeat < timeout of an operation < the scheduler's kill.

Time to error of a queue pair: 4.096 us x 2^NCCL_IB_TIMEOUT x NCCL_IB_RETRY_CNT (docs/userguide/source/env.rst). It is
nominal: NICs with adaptive retransmission resend sooner (nccl#1555, perftest#251), and the specification lets a NIC take
up to four times as long (from memory, unverified).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collectives.nccl.job import Job, shown
from nettune.checks import Finding, Status
from nettune.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUTS = "nccl-env-timeouts"

TORCH_OPERATION_S = 600.0
"""init_process_group(timeout=) of the NCCL backend when it is not given (PyTorch 2.14, kProcessGroupNCCLDefaultTimeout)."""

_SHORTEST_S = 3.0
"""Own choice: below it, a route that a subnet manager or BGP moves, or a flap of a link, ends the job."""


def error_time_s(timeout: int, retries: int) -> float:
    """Nominal time from a lost packet to a completion with error, in s; infinite for a timeout of 0.

    Args:
        timeout: NCCL_IB_TIMEOUT, 0 to 31.
        retries: NCCL_IB_RETRY_CNT.
    """
    return float("inf") if timeout == 0 else 4.096e-6 * 2.0**timeout * retries


def timeouts(job: Job) -> Iterator[Finding]:
    """Whether each timeout ends before the next one hides its reason."""
    yield from _network(job)
    heartbeat = job.get("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    seconds = job.number("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    if heartbeat is not None and seconds is not None and seconds >= TORCH_OPERATION_S:
        what = (
            f"{shown(heartbeat)} is not below the timeout of an operation ({TORCH_OPERATION_S:.0f} s unless"
            " init_process_group says otherwise): the two race, and the dump may name the wrong one"
        )
        yield job.finding(
            TIMEOUTS, Status.WARN, what, "Keep it below the timeout of init_process_group.", heartbeat
        )
    monitoring = job.get("TORCH_NCCL_ENABLE_MONITORING")
    if monitoring is not None and job.number(monitoring.name) == 0:
        what = f"{shown(monitoring)}: a watchdog that is itself stuck is never ended, the job hangs"
        yield job.finding(TIMEOUTS, Status.WARN, what, "Remove it.", monitoring)
    handling = job.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")
    if handling is not None and job.number(handling.name) == 0:
        what = f"{shown(handling)}: a timeout or a network error no longer ends the process, the job hangs"
        yield job.finding(TIMEOUTS, Status.FAIL, what, "Remove it.", handling)


def _network(job: Job) -> Iterator[Finding]:
    setting, retry = job.get("NCCL_IB_TIMEOUT"), job.get("NCCL_IB_RETRY_CNT")
    timeout, retries = job.number("NCCL_IB_TIMEOUT"), job.number("NCCL_IB_RETRY_CNT")
    if timeout is None or retries is None or (setting is None and retry is None):
        return
    if not (1 <= timeout <= 31 and 0 <= retries <= 7):
        return  # a value out of range has its own finding
    if retries == 0:
        what = (
            f"{shown(retry) if retry else 'NCCL_IB_RETRY_CNT=0'}: one lost packet ends the job with error 12"
        )
        yield job.finding(TIMEOUTS, Status.FAIL, what, "Write NCCL_IB_RETRY_CNT=7.", retry)
        return
    seconds = error_time_s(timeout, retries)
    heartbeat = float(job.number("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC") or 480)
    figures: dict[str, Any] = {
        "error_after_s": round(seconds, 3),
        "heartbeat_s": heartbeat,
        "operation_s": TORCH_OPERATION_S,
    }
    lasts = f"a lost packet becomes an error after {format_duration(seconds)} (timeout {timeout}, {retries} retries, nominal)"
    if seconds > min(heartbeat, TORCH_OPERATION_S):
        first = (
            "PyTorch's heartbeat" if heartbeat <= TORCH_OPERATION_S else "PyTorch's timeout of an operation"
        )
        over = Status.FAIL if seconds > TORCH_OPERATION_S else Status.WARN
        what = f"{lasts}: {first} ({min(heartbeat, TORCH_OPERATION_S):.0f} s) ends the job first and hides the network error"
        yield job.finding(
            TIMEOUTS, over, what, "Write NCCL_IB_TIMEOUT=22 (120 s) or less.", setting, retry, **figures
        )
    elif seconds < _SHORTEST_S:
        what = f"{lasts}: shorter than a flap of a link or a change of routes"
        yield job.finding(
            TIMEOUTS,
            Status.WARN,
            what,
            "Unset it: NCCL 2.23 and later take 20 (30 s).",
            setting,
            retry,
            **figures,
        )
