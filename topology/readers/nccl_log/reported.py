"""What an NCCL log complains about, one finding a host: its cause may be a link, a port or a NIC of the fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.readers.nccl_log.events import Event
from topology.readers.nccl_log.trouble import (
    AsyncEvent,
    CompletionError,
    CqeError,
    CudaError,
    FatalCommunicator,
    HeartbeatStuck,
    RasProblem,
    SocketError,
    WatchdogTimeout,
)

_TROUBLE: dict[type[Event], str] = {
    CompletionError: "completion with an error",
    CqeError: "completion queue entry with an error",
    AsyncEvent: "asynchronous event of a NIC",
    FatalCommunicator: "fatal error of a communicator",
    SocketError: "socket error",
    CudaError: "CUDA error",
    WatchdogTimeout: "collective that timed out",
    HeartbeatStuck: "watchdog that got stuck",
    RasProblem: "communicator whose ranks disagree",
}
"""Events that stand for themselves; call traces and states follow from one of these."""


def complaints(events: Sequence[Event], host_of: Callable[[Event], str]) -> list[Finding]:
    """A warning for each host whose lines tell of trouble.

    Args:
        events: of one log.
        host_of: name of the host that wrote an event; empty where nobody can tell.
    """
    told: dict[str, list[Event]] = {}
    for event in events:
        if type(event) in _TROUBLE:
            told.setdefault(host_of(event), []).append(event)
    findings = []
    for host, own in told.items():
        counts = Counter(_TROUBLE[type(event)] for event in own)
        words = ", ".join(f"{count} x {what}" for what, count in counts.items())
        findings.append(
            Finding(
                check="nccl-log",
                status=Status.WARN,
                where=ElementId.host(host) if host else ElementId.fabric(),
                what=f"its log tells of trouble, first on line {own[0].line}: {words}",
                evidence={"lines": [event.line for event in own[:100]], "counts": dict(counts)},
                fix="read these lines, and test the links of the NICs that they name",
            )
        )
    return findings
