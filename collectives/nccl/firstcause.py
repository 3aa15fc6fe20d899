"""`lint_logs`: the first cause in the logs of any number of ranks; everything else follows from it and says so.

A root (depth 0 in `causes`) explains what is deeper unless the log's own times put it later. Line order alone orders
nothing between ranks: their output is interleaved by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collectives.nccl.causes import CAUSES, Kind
from collectives.nccl.explain import Case, Explained, explain
from collectives.nccl.symptoms import Observed, Symptom, observe
from collectives.nccl_tests.outcome import Outcome
from nettune.checks import Finding, Status
from nettune.elements import ElementId

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG = "nccl-log"

_REPLACES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE")
"""Settings in whose place NCCL would look for itself: a sound log says that they were used."""

_SKEW_S = 5.0
"""Own choice: clocks of hosts without time synchronisation by hardware differ by less, and loggers add a second."""

_NETWORK = (Kind.RETRY_EXCEEDED, Kind.NOT_READY, Kind.OTHER_STATUS, Kind.CUT_COMPLETION)
_BEFORE_ROOTS, _SUSPICIOUS = -1.0, 10.5
"""Depths of what explains a root, and of what is no failure by itself."""
_BESIDE = 0.5
"""What tells less of the same comes after it, whichever line is first."""


def lint_logs(logs: Iterable[tuple[str, Iterable[str]]]) -> list[Finding]:
    """The first cause, then what follows from it; a PASS where there is no trouble, UNKNOWN where nothing is NCCL's.

    Args:
        logs: (name, lines) of each file.
    """
    seen = observe(logs)
    if not seen.told:
        what = "no line of NCCL, PyTorch's watchdog or ncclras in it"
        fix = "Run with NCCL_DEBUG=INFO and give the output of all ranks."
        where = ElementId.fabric()
        return [
            Finding(
                check=LOG,
                status=Status.UNKNOWN,
                where=where,
                what=what,
                fix=fix,
                evidence={"files": seen.files[:16]},
            )
        ]
    symptoms = _without_companions([*seen.symptoms, *_derived(seen)])
    ordered = sorted(symptoms, key=lambda one: _key(one, seen))
    unfinished = [_unfinished(name, size) for name, size in seen.unfinished.items()]
    if not ordered:
        what = f"{seen.told:,} messages, none of trouble"
        used = {name: value for name, value in seen.settings.items() if name in _REPLACES}
        replaced = "".join(f"; {name}={value[:80]} is in use" for name, value in used.items())
        sound = Finding(check=LOG, status=Status.PASS, where=ElementId.fabric(), what=what + replaced)
        return unfinished or [sound]
    first = next((one for one in ordered if not _later_than_effect(one, ordered, seen)), ordered[0])
    explained = explain(Case(first, ordered, seen))
    return [_first(first, explained, seen), *_others(first, ordered, seen), *unfinished]


def _unfinished(file: str, size: str) -> Finding:
    after = f", after the row of {int(size):,} bytes" if size else ""
    return Finding(
        check="nccl-test-unfinished",
        status=Status.UNKNOWN,
        where=ElementId.fabric(),
        what=f"{file}: the output of nccl-tests {Outcome.UNFINISHED}{after}",
        evidence={"file": file, "last_size": size},
        fix="Give the whole output, with stderr; if it hung, take stacks of all ranks (py-spy dump, gdb).",
    )


def _key(symptom: Symptom, seen: Observed) -> tuple[float, float, int]:
    time = symptom.time if symptom.time is not None else float("inf")
    return _depth(symptom.kind, seen), time, symptom.order


def _depth(kind: Kind, seen: Observed) -> float:
    """As in `causes`; what is only suspicious while nothing failed lies deepest."""
    if kind is Kind.MIXED_LAYERS and not _network_failed(seen):
        return _SUSPICIOUS
    if kind is Kind.SHARED_MEMORY:
        return _BEFORE_ROOTS if seen.counts[Kind.CUDA] else _SUSPICIOUS
    if kind is Kind.WATCHDOG_STATUS and seen.counts[Kind.WATCHDOG]:
        return CAUSES[Kind.WATCHDOG].depth + _BESIDE
    return CAUSES[kind].depth


def _status(kind: Kind, seen: Observed) -> Status:
    """Of a first cause."""
    if kind is Kind.MIXED_LAYERS and _network_failed(seen):
        return Status.FAIL
    if kind is Kind.SHARED_MEMORY and not seen.counts[Kind.CUDA]:
        return Status.WARN
    return CAUSES[kind].status


def _network_failed(seen: Observed) -> bool:
    return any(seen.counts[kind] for kind in _NETWORK)


def _later_than_effect(symptom: Symptom, others: list[Symptom], seen: Observed) -> bool:
    """Whether the log puts a failure before this one that it therefore cannot have caused."""
    for other in others:
        if CAUSES[other.kind].depth > CAUSES[Kind.FATAL_COMMUNICATOR].depth or other is symptom:
            continue
        if symptom.time is not None and other.time is not None and other.time < symptom.time - _SKEW_S:
            return _depth(symptom.kind, seen) < _depth(other.kind, seen) or symptom.kind is other.kind
        # CUDA calls fail too when a communicator is torn down.
        same = (other.file, other.host) == (symptom.file, symptom.host)
        if symptom.kind is Kind.CUDA and other.kind in _NETWORK and same and other.line < symptom.line:
            return True
    return False


def _without_companions(symptoms: list[Symptom]) -> list[Symptom]:
    """Without lines that tell less of the same: heads of completions with status, progress beside a timeout."""
    told = {one.host for one in symptoms if "status" in one.figures}
    return [one for one in symptoms if one.kind is not Kind.CUT_COMPLETION or one.host not in told]


def _derived(seen: Observed) -> list[Symptom]:
    """Symptoms that no single line shows: sockets in place of RDMA, RDMA without GPUDirect."""
    found = []
    for host, networks in seen.networks.items():
        chosen = [name for name in networks if name.startswith("chosen ")]
        # Sockets are listed beside whatever is then chosen, which may be a plugin: AWS Libfabric, gIB, IBext_v8.
        place = networks.get("chosen Socket" if chosen else "Socket")
        rdma = any(name.startswith("chosen IB") for name in chosen)
        if place is None or rdma or seen.nodes == 1:
            continue
        found.append(_made(seen, Kind.SOCKET_FALLBACK, place, host))
    for (host, _), process in seen.processes.items():
        if process.connections and not process.direct and process.first_connection is not None:
            found.append(_made(seen, Kind.NO_GPU_DIRECT, process.first_connection, host))
            break
    return found


def _made(seen: Observed, kind: Kind, place: tuple[str, int], host: str) -> Symptom:
    seen.counts[kind] += 1
    where = ElementId.host(host) if host else ElementId.fabric()
    return Symptom(kind, place[0], place[1], len(seen.symptoms) + seen.counts[kind], host, where, None)


def _first(first: Symptom, explained: Explained, seen: Observed) -> Finding:
    shown = explained.symptom or first
    return Finding(
        check=str(first.kind),
        status=_status(first.kind, seen),
        where=explained.where or shown.where,
        what=f"{shown.file}:{shown.line}: {explained.what}",
        evidence=_evidence(shown, seen) | {"first_cause": True} | explained.figures,
        fix=explained.fix,
    )


def _evidence(symptom: Symptom, seen: Observed) -> dict[str, Any]:
    return {
        "file": symptom.file,
        "line": symptom.line,
        "count": seen.counts[symptom.kind],
        **({"peer": symptom.peer} if symptom.peer else {}),
        **symptom.figures,
    }


def _others(first: Symptom, ordered: list[Symptom], seen: Observed) -> list[Finding]:
    """One finding for each other kind and element, never worse than the first cause."""
    groups: dict[tuple[Kind, ElementId], list[Symptom]] = {}
    for one in ordered:
        progress = one.kind is Kind.WATCHDOG_STATUS and seen.counts[Kind.WATCHDOG] > 0
        if (one.kind, one.where) != (first.kind, first.where) and not progress:
            groups.setdefault((one.kind, one.where), []).append(one)
    found = []
    for (kind, where), group in groups.items():
        depth = _depth(kind, seen)
        follows = _depth(first.kind, seen) < depth <= CAUSES[Kind.HEARTBEAT].depth
        times = f", {len(group)} times" if len(group) > 1 else ""
        relation = f"follows from {first.kind} of {first.where}: " if follows else "also: "
        found.append(
            Finding(
                check=str(kind),
                status=Status.WARN,
                where=where,
                what=f"{group[0].file}:{group[0].line}: {relation}{CAUSES[kind].says}{times}",
                evidence=_evidence(group[0], seen) | ({"follows": str(first.kind)} if follows else {}),
                fix="Act on the first cause."
                if follows
                else CAUSES[kind].fix or "Act on the first cause, then look again.",
            )
        )
    return found
