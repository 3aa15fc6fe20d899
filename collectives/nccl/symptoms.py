"""What logs show of trouble: one pass over the events of any number of ranks, with bounded memory.

The tokenizer of `topology.readers.nccl_log` gives the events; here those that tell of trouble become `Symptom`s, each of
a kind from `causes`, with the element that it points at.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from collectives.nccl.causes import Kind, kind_of_status
from collectives.nccl_tests.outcome import Outcome, first_sign, outcome, own_failures, worst, wrong_rows
from collectives.nccl_tests.text import TextParser
from nettune.elements import ElementId
from nettune.errors import InputError
from topology.naming import element_name
from topology.readers.nccl_log import comm_events, events, tokenize, trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from collectives.nccl_tests.result import Run

_MOST_KEPT = 64
"""Symptoms of one kind that are kept; all are counted."""

_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?", re.ASCII)
_SHARED_MEMORY = "exceeds device/fn maxSharedMem"
_TOPO_FILE = "Could not open XML topology file"
"""Of src/graph/xml.cc (from memory)."""
_OF_THE_START = (
    events.Version,
    events.Bootstrap,
    events.NetUsing,
    events.NetworkChosen,
    comm_events.CommInit,
)
"""Messages of a process's first seconds."""
_QUIET = {
    comm_events.TuningRow,
    comm_events.TuningThreads,
    comm_events.AlgorithmChoice,
    comm_events.RingOrder,
    comm_events.Trees,
    comm_events.System,
    comm_events.SystemNode,
    comm_events.SystemPaths,
    comm_events.GraphFound,
    comm_events.GraphChannel,
    trouble.CallTrace,
}
"""Events that tell nothing here; most lines of a log are of these kinds."""
_DEVICE = re.compile(r"(?!.*--)[\w.+@-]{1,64}")


@dataclass(frozen=True, slots=True)
class Symptom:
    """One sign of trouble.

    Attributes:
        file, line: where it stands.
        order: position over all files, for a stable order.
        host: of who wrote it; empty where the log does not tell.
        where: host or NIC; the fabric where the log does not tell.
        time: local time in s that the line tells; None without one.
        peer: the other end, as named in the log.
        after_s: time since the process had connected, or since its first line; None where times are missing.
        figures: of the event, for evidence.
    """

    kind: Kind
    file: str
    line: int
    order: int
    host: str
    where: ElementId
    time: float | None
    peer: str = ""
    after_s: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass
class Process:
    """What is known of one process besides trouble."""

    began: float | None = None
    connected: float | None = None
    connections: int = 0
    direct: int = 0
    first_connection: tuple[str, int] | None = None


@dataclass
class Observed:
    """All of it.

    Attributes:
        counts: symptoms by kind, also those that are not kept.
        settings: variables that the logs tell, as NCCL understood them.
        networks: `Using network X` and `NET/X : Using` by host, each with where it was first seen.
        absent: why a host has no RDMA transport.
        nodes: hosts of the largest communicator; 0 where the log does not tell.
        host_of: host by the address of its bootstrap socket.
        told: messages of NCCL, PyTorch or nccl-tests.
        unfinished: files with an output of nccl-tests that has no end, and the last size of each.
        ras: lines of `ncclras` about operation counts and the ranks it lists.
    """

    symptoms: list[Symptom] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)
    settings: dict[str, str] = field(default_factory=dict)
    version: str = ""
    networks: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    nodes: int = 0
    host_of: dict[str, str] = field(default_factory=dict)
    processes: dict[tuple[str, int], Process] = field(default_factory=dict)
    ras_counts: list[tuple[int, int]] = field(default_factory=list)
    ras_ranks: list[tuple[int, str]] = field(default_factory=list)
    told: int = 0
    unfinished: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    def process_of(self, event: events.Event) -> Process:
        """The process that wrote an event."""
        return self.processes.setdefault((event.writer.host, event.writer.pid), Process())


def observe(logs: Iterable[tuple[str, Iterable[str]]]) -> Observed:
    """Read logs: (name, lines) of each."""
    seen = Observed()
    for name, lines in logs:
        seen.files.append(name)
        test = TextParser()
        for event in tokenize(lines):
            if isinstance(event, events.Other):
                _other(seen, name, event)
                if not event.level:
                    test.feed(event.text, event.line)
                continue
            seen.told += 1
            if type(event) in _QUIET:
                continue
            _learn(seen, name, event)
            for kind, figures, peer, nic in _signs(event):
                _keep(seen, name, event, kind, figures, peer, nic)
        _learn_of_tests(seen, name, test.close())
    return seen


_TEST_KINDS = {
    Outcome.WRONG: Kind.WRONG_DATA,
    Outcome.MISSED: Kind.TEST_MISSED,
    Outcome.FAILED: Kind.TEST_FAILED,
}


def _learn_of_tests(seen: Observed, file: str, runs: list[Run]) -> None:
    """The worst run counts."""
    run = worst(runs)
    found = outcome(run)
    if found in _TEST_KINDS:
        failures = own_failures(run)
        rows = [[str(row.size_bytes), f"{wrong:g}"] for row, wrong in wrong_rows(run)[:4]]
        figures = {"reason": failures[0].text if failures else "", "rows": rows}
        line = events.Other(first_sign(run), events.NOBODY, "", "", "")
        _keep(seen, file, line, _TEST_KINDS[found], figures, "", "")
    if found is Outcome.UNFINISHED:
        seen.unfinished[file] = str(run.rows[-1].size_bytes) if run.rows else ""
    for one in runs:
        if outcome(one) is not Outcome.NO_OUTPUT:
            seen.told += max(1, len(one.devices) + len(one.rows))
            # The list of ranks is of the whole job.
            seen.nodes = max(seen.nodes, len(one.hosts))


def _other(seen: Observed, file: str, event: events.Other) -> None:
    """A message of no kind of NCCL's, or a line of the program that uses it."""
    seen.told += bool(event.level)
    if _SHARED_MEMORY in event.text:
        _keep(seen, file, event, Kind.SHARED_MEMORY, {"text": event.text.strip()[:200]}, "", "")
    if _TOPO_FILE in event.text:
        _keep(seen, file, event, Kind.TOPO_FILE, {"text": event.text.strip()[:200]}, "", "")


def _keep(
    seen: Observed, file: str, event: events.Event, kind: Kind, figures: dict[str, Any], peer: str, nic: str
) -> None:
    seen.counts[kind] += 1
    if seen.counts[kind] > _MOST_KEPT:
        return
    host = _name(event.writer.host)
    process = seen.process_of(event)
    moment, begin = (
        time_of(event.stamp),
        process.connected if process.connected is not None else process.began,
    )
    seen.symptoms.append(
        Symptom(
            kind=kind,
            file=file,
            line=event.line,
            order=len(seen.symptoms),
            host=host,
            where=_element(host, nic),
            time=moment,
            peer=peer,
            after_s=None if moment is None or begin is None or moment is begin else moment - begin,
            figures={key: value for key, value in figures.items() if value not in ("", -1)},
        )
    )


def _name(text: str) -> str:
    try:
        return element_name(text)
    except InputError:
        return ""


def _element(host: str, nic: str) -> ElementId:
    try:
        if host and nic and _DEVICE.fullmatch(nic):
            return ElementId.nic(host, nic)
        return ElementId.host(host) if host else ElementId.fabric()
    except InputError:
        return ElementId.fabric()


def time_of(stamp: str) -> float | None:
    """Seconds of the last date and time in a stamp: NCCL's own stands nearest to its prefix. No time zone."""
    found = None
    for found in _STAMP.finditer(stamp):  # noqa: B007 (the last one counts)
        pass
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    try:
        # Without a zone: only differences of times of one kind are used.
        moment = datetime(year, month, day, hour, minute, second) - datetime(1970, 1, 1)  # noqa: DTZ001 (only differences count)
        return moment.total_seconds() + float(f"0.{found[7] or 0}")
    except ValueError:
        return None


def _learn(seen: Observed, file: str, event: events.Event) -> None:
    """Settings, networks and phases, which decide what a symptom means."""
    writer = event.writer
    process = seen.process_of(event)
    moment = time_of(event.stamp) if isinstance(event, (*_OF_THE_START, comm_events.Connected)) else None
    if process.began is None and isinstance(event, _OF_THE_START):
        process.began = moment
    match event:
        case events.EnvironmentSet():
            seen.settings.setdefault(event.name, event.value)
        case events.Version():
            seen.version = seen.version or event.version
        case events.Bootstrap():
            seen.host_of.setdefault(event.address, _name(writer.host))
        case events.NetUsing():
            if event.oob_address:
                seen.host_of.setdefault(event.oob_address, _name(writer.host))
            seen.networks.setdefault(_name(writer.host), {}).setdefault(event.transport, (file, event.line))
        case events.NetworkChosen():
            chosen = f"chosen {event.name}"
            seen.networks.setdefault(_name(writer.host), {}).setdefault(chosen, (file, event.line))
        case events.NetAbsent():
            seen.absent.setdefault(_name(writer.host), event.reason)
        case comm_events.CommShape():
            seen.nodes = max(seen.nodes, event.nnodes)
        case comm_events.CommInit() if event.state == "COMPLETE":
            process.connected = moment if moment is not None else process.connected
        case comm_events.Connected():
            process.connected = moment if moment is not None else process.connected
        case comm_events.Connection() if event.transport.startswith("IB"):
            process.connections += 1
            process.direct += event.gpu_direct
            process.first_connection = process.first_connection or (file, event.line)
        case trouble.RasOperationCount():
            seen.ras_counts.append((event.ranks, event.operation))
        case trouble.RasRank() if len(seen.ras_ranks) < _MOST_KEPT:
            seen.ras_ranks.append((event.rank, event.node))
        case _:
            pass


def _signs(event: events.Event) -> Iterator[tuple[Kind, dict[str, Any], str, str]]:
    """(kind, figures, peer, NIC) of an event; nothing for what is no trouble."""
    match event:
        case trouble.CompletionError():
            figures = {
                "status": event.status,
                "status_name": event.status_name,
                "vendor_err": event.vendor_err,
                "request": event.request,
                "local_gid": event.local_gid,
                "remote_gid": event.remote_gid,
                "nic": event.hca,
            }
            yield kind_of_status(event.status, event.vendor_err), figures, event.peer, event.hca
        case trouble.CqeError():
            yield Kind.CUT_COMPLETION, {"side": event.side, "qp_num": event.qp_num}, "", ""
        case trouble.AsyncEvent():
            figures = {
                "event": event.event[:200],
                "nic": event.device,
                "port": event.port,
                "on": event.affected,
            }
            yield _async_kind(event), figures, "", event.device
        case trouble.FatalCommunicator():
            yield Kind.FATAL_COMMUNICATOR, {"function": event.function}, "", ""
        case trouble.SocketError():
            closed = "closed by remote peer" in event.reason
            kind = Kind.PEER_CLOSED if closed else Kind.SOCKET
            yield kind, {"reason": event.reason[:200]}, event.peer, ""
        case trouble.CudaError():
            yield Kind.CUDA, {"code": event.code, "reason": event.reason[:200]}, "", ""
        case trouble.WatchdogTimeout():
            figures = {
                "rank": event.rank,
                "sequence": event.sequence,
                "operation": event.operation,
                "numel": event.numel_in,
                "timeout_ms": event.timeout_ms,
                "ran_ms": event.ran_ms,
            }
            yield Kind.WATCHDOG, figures, "", ""
        case trouble.WatchdogStatus():
            figures = {
                "rank": event.rank,
                "group": event.group,
                "sequence": event.sequence,
                "last_enqueued": event.last_enqueued,
                "last_completed": event.last_completed,
            }
            yield Kind.WATCHDOG_STATUS, figures, "", ""
        case trouble.HeartbeatStuck():
            figures = {"rank": event.rank, "group": event.group, "stuck_s": event.stuck_s}
            yield Kind.HEARTBEAT, figures, "", ""
        case trouble.RasProblem():
            kind = Kind.RAS_MISMATCH if event.problem == "MISMATCH" else Kind.RAS_INCOMPLETE
            yield kind, {"communicator": event.comm_id, "problem": event.problem}, "", ""
        case events.EnvironmentInvalid():
            figures = {"variable": event.name, "value": event.value[:200], "used": event.used}
            yield Kind.INVALID_SETTING, figures, "", ""
        case events.NetUsing() if len({device.link_layer for device in event.devices} - {""}) > 1:
            listed = {
                layer: [d.name for d in event.devices if d.link_layer == layer] for layer in ("IB", "RoCE")
            }
            fewer, more = sorted(listed.values(), key=len)
            odd = fewer[0] if len(fewer) == 1 < len(more) else ""
            yield Kind.MIXED_LAYERS, {"ib": listed["IB"], "roce": listed["RoCE"]}, "", odd
        case _:
            pass


def _async_kind(event: trouble.AsyncEvent) -> Kind:
    words = event.event.lower()
    if "access" in words or "protection" in words or "request error" in words:
        return Kind.LOCAL_ACCESS
    if "port error" in words or "device fatal" in words or "port down" in words:
        return Kind.PORT_ERROR
    if event.fatal:
        return Kind.FATAL_EVENT
    return Kind.NIC_EVENT
