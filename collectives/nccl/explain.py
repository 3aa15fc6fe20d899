"""What the first cause says in words: at once or late, which peer, which sequence numbers, who is ahead."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from collectives.nccl.causes import CAUSES, Kind
from collectives.nccl.parsing import in_hardware, strtoll
from collectives.nccl.rules_timeouts import error_time_s
from collectives.nccl.variables import NEWEST, parse_version, value_in_force, variables
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.units import format_duration
from topology.naming import element_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from collectives.nccl.symptoms import Observed, Symptom

_SLACK_S = 10.0
"""Time between `connected` and the first transfer that is still `at once`; own choice."""

_LATE_WATCHDOG = 1.5
"""A watchdog that ends an operation so many times later than its timeout was itself held up; own choice."""

_MOST_RANKS = 8

_COMPARE = (
    "Compare the sequence numbers in the logs of all ranks: the lowest, or a rank without a line, is the one to look at;"
    " dump with TORCH_FR_BUFFER_SIZE=2000 and read by torchfrtrace."
)


@dataclass
class Explained:
    """A sentence, what to do; the element and the symptom to show where they are others than the first."""

    what: str
    fix: str
    where: ElementId | None = None
    symptom: Symptom | None = None
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """The first cause, all symptoms, and what else the logs told."""

    first: Symptom
    ordered: list[Symptom]
    seen: Observed


def explain(case: Case) -> Explained:
    """The words for the first cause."""
    first = case.first
    special = _SPECIAL.get(first.kind)
    if special is not None:
        return special(case)
    cause = CAUSES[first.kind]
    named = first.figures.get("event") or first.figures.get("reason") or first.figures.get("text")
    return Explained(f"{cause.says}{f' ({named})' if named else ''}", cause.fix)


def _port_error(case: Case) -> Explained:
    cause = CAUSES[case.first.kind]
    peers = sorted({one.host for one in case.ordered if one.kind is Kind.RETRY_EXCEEDED and one.host})
    others = sorted(
        {str(one.where) for one in case.ordered if one.kind is Kind.PORT_ERROR} - {str(case.first.where)}
    )
    what = cause.says
    if peers:
        what += f" (here on {', '.join(peers[:4])})"
    if others:
        what += f"; also at {', '.join(others[:4])}"
    return Explained(what, cause.fix, figures={"peers_with_error_12": peers[:16]})


def _mixed(case: Case) -> Explained:
    cause = CAUSES[case.first.kind]
    ib, roce = case.first.figures.get("ib", []), case.first.figures.get("roce", [])
    what = f"{cause.says}: {', '.join(ib[:4])} are InfiniBand, {', '.join(roce[:4])} RoCE"
    if any(one.kind is Kind.RETRY_EXCEEDED for one in case.ordered):
        what += "; then no answer came (status 12)"
    few, many = (roce, ib) if len(roce) <= len(ib) else (ib, roce)
    fix = f"Leave {few[0]} out: NCCL_IB_HCA={'^=' + few[0] if len(many) > 1 else '=' + many[0]} if that is the front-end NIC."
    return Explained(what, fix if few and many else cause.fix)


def _retry_exceeded(case: Case) -> Explained:
    """At once: it never worked. Late: it did, and something broke (nccl#426, pytorch#81628, nccl#1814)."""
    nominal = _error_time_s(case.seen)
    who, where = _accused(case)
    figures: dict[str, Any] = {"nominal_error_after_s": round(nominal, 3) if nominal < 1e9 else None}
    if case.first.after_s is None:
        when, figures["when"] = "at once or late cannot be told without times", "unknown"
        fix = (
            "Test the pair with ib_write_bw by these GIDs: if it fails, it is the GID index, the route or UDP port 4791; if not,"
            " look at link_downed, symbol errors and pauses of both ports."
        )
    elif case.first.after_s <= nominal + _SLACK_S:
        when, figures["when"] = (
            f"at once ({format_duration(case.first.after_s)} after connecting): it never worked",
            "at once",
        )
        fix = "Check GID index and type at both ends, the route between these GIDs, MTU and UDP port 4791; a longer timeout cannot help."
    else:
        when, figures["when"] = (
            f"late ({format_duration(case.first.after_s)} after connecting): it worked before",
            "late",
        )
        fix = "Look at link_downed, symbol errors, pauses and drops of both ports and the path at that time, and whether the peer lives."
    figures["after_s"] = case.first.after_s
    what = f"no answer from {who} until the retries were used up (status 12): {when}{_gids(case.first)}"
    return Explained(what, fix, where, figures=figures)


def _error_time_s(seen: Observed) -> float:
    """Nominal time to an error, by the settings in the log and the defaults of its version."""
    try:
        version = parse_version(seen.version) if seen.version else NEWEST
    except InputError:
        version = NEWEST

    def number(name: str) -> int:
        text = seen.settings.get(name) or value_in_force(name, version)
        return in_hardware(variables()[name], strtoll(text).value)

    return error_time_s(number("NCCL_IB_TIMEOUT"), number("NCCL_IB_RETRY_CNT"))


def _accused(case: Case) -> tuple[str, ElementId | None]:
    """(peer in words, the element to blame where several ranks name one peer that does not complain itself)."""
    reporters: dict[str, set[str]] = defaultdict(set)
    complaining = {one.host for one in case.ordered if one.kind is Kind.RETRY_EXCEEDED}
    for one in case.ordered:
        if one.kind is Kind.RETRY_EXCEEDED and one.peer:
            reporters[one.peer].add(one.host)
    peer = case.first.peer or "its peer"
    host = case.seen.host_of.get(peer, "")
    named = f"{peer} ({host})" if host else peer
    most = max(reporters, key=lambda name: len(reporters[name]), default="")
    if most and len(reporters[most]) > 1:
        accused = case.seen.host_of.get(most, "") or most
        if accused not in complaining:
            return f"{most}, which {len(reporters[most])} hosts name", _host(accused)
    return named, None


def _host(name: str) -> ElementId | None:
    try:
        return ElementId.host(element_name(name))
    except InputError:
        return None


def _gids(first: Symptom) -> str:
    """What the two GIDs tell: another network, another type."""
    ends = [_address(str(first.figures.get(key, ""))) for key in ("local_gid", "remote_gid")]
    if ends[0] is None or ends[1] is None:
        return ""
    mapped = [getattr(end, "ipv4_mapped", None) for end in ends]
    if mapped[0] is not None and mapped[1] is not None:
        networks = {ipaddress.ip_network(f"{end}/24", strict=False) for end in mapped}
        if len(networks) > 1:
            return f"; {mapped[0]} and {mapped[1]} are in different /24 networks: other rails, and a route is needed"
        return ""
    if (mapped[0] is None) != (mapped[1] is None) or ends[0].is_link_local != ends[1].is_link_local:
        return f"; the GIDs {ends[0]} and {ends[1]} are of different types"
    return ""


def _address(text: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(text)
    except ValueError:
        return None


def _watchdog(case: Case) -> Explained:
    """Who waits for which operation; sequence numbers compare within one process group only."""
    waiting = [one for one in case.ordered if one.kind is Kind.WATCHDOG]
    slowest: dict[int, Symptom] = {}
    for one in waiting:
        rank = one.figures.get("rank", -1)
        held = slowest.get(rank)
        if held is None or _sequence(one) < _sequence(held):
            slowest[rank] = one
    lowest = min(slowest, key=lambda rank: (_sequence(slowest[rank]), rank))
    told = slowest[lowest].figures
    waited_ms, timeout_ms = told.get("ran_ms", 0), told.get("timeout_ms", 0)
    what = f"rank {lowest} waited {format_duration(waited_ms / 1e3)} for {_operation(told)}"
    progress = [one.figures for one in case.ordered if one.kind is Kind.WATCHDOG_STATUS]
    done = [
        entry["last_completed"]
        for entry in progress
        if entry.get("rank") == lowest and "last_completed" in entry
    ]
    if done:
        what += f", the last one that finished is {done[0]}"
    ahead = [rank for rank, one in slowest.items() if _sequence(one) > _sequence(slowest[lowest])]
    if ahead:
        most = max(_sequence(one) for one in waiting)
        what += (
            f"; it is behind rank{'s' if len(ahead) > 1 else ''} {_ranks(ahead)} (up to {most}), if they are in one"
            f" process group: rank {lowest} is the one to look at"
        )
    elif len(slowest) > 1:
        what += (
            f"; ranks {_ranks(list(slowest))} wait for the same one: a rank without such a line did not join"
        )
    else:
        what += "; no other rank is heard here"
    late = bool(timeout_ms) and waited_ms > _LATE_WATCHDOG * timeout_ms
    if late:
        what += f"; the timeout was {timeout_ms / 1e3:.0f} s: the watchdog itself was held up"
    sequences = {str(rank): _sequence(slowest[rank]) for rank in sorted(slowest)[:64]}
    return Explained(
        what, _COMPARE, symptom=slowest[lowest], figures={"sequences": sequences, "watchdog_late": late}
    )


def _watchdog_status(case: Case) -> Explained:
    """Progress without the line that tells the operation: that one is cut, or in another log."""
    told = case.first.figures
    what = f"PyTorch's watchdog ended rank {told.get('rank', '?')} at operation {told.get('sequence', '?')}"
    what += f": {told.get('last_completed', '?')} finished, {told.get('last_enqueued', '?')} enqueued"
    return Explained(what, _COMPARE)


def _sequence(symptom: Symptom) -> int:
    return int(symptom.figures.get("sequence", -1))


def _operation(told: Mapping[str, Any]) -> str:
    """`ALLREDUCE number 2398459 of 8,652,160 elements`."""
    name = told.get("operation", "an operation")
    number = f" number {told['sequence']}" if "sequence" in told else ""
    size = f" of {told['numel']:,} elements" if "numel" in told else ""
    return f"{name}{number}{size}"


def _ranks(ranks: list[int]) -> str:
    shown = sorted(ranks)[:_MOST_RANKS]
    return ", ".join(map(str, shown)) + (", ..." if len(ranks) > len(shown) else "")


def _heartbeat(case: Case) -> Explained:
    cause = CAUSES[case.first.kind]
    rank, stuck = case.first.figures.get("rank", "?"), case.first.figures.get("stuck_s", "?")
    return Explained(f"rank {rank}: {cause.says}; no progress for {stuck} s", cause.fix)


def _ras_mismatch(case: Case) -> Explained:
    """RAS lists the smaller group, which may be the one ahead (nccl#1911)."""
    cause = CAUSES[case.first.kind]
    fix = "Run ncclras again: counts that move on are a snapshot; if they stand still, take stacks of the ranks that are behind."
    if len(case.seen.ras_counts) < 2:
        return Explained(cause.says, fix)
    behind = min(case.seen.ras_counts, key=lambda entry: entry[1])
    ahead = max(case.seen.ras_counts, key=lambda entry: entry[1])
    listed = _ranks([rank for rank, _ in case.seen.ras_ranks])
    nodes = {node for _, node in case.seen.ras_ranks}
    what = f"{cause.says}: {ahead[0]} are at operation {ahead[1]}, {behind[0]} at {behind[1]}"
    fewest = min(case.seen.ras_counts)
    if listed:
        what += f"; the ranks that RAS lists ({listed}) are the {'ones ahead' if fewest == ahead else 'ones behind'}"
        if fewest == ahead:
            what += f", the {behind[0]} others have not launched it"
    where = _host(next(iter(nodes))) if len(nodes) == 1 else None
    return Explained(
        what, fix, where, figures={"ahead": ahead[1], "behind": behind[1], "ranks_behind": behind[0]}
    )


def _ras_incomplete(case: Case) -> Explained:
    """The ranks that RAS lists are the ones that it misses."""
    cause = CAUSES[case.first.kind]
    listed = case.seen.ras_ranks
    if not listed:
        return Explained(cause.says, cause.fix)
    nodes = sorted({node for _, node in listed})
    what = f"{cause.says}: {_ranks([rank for rank, _ in listed])} on {', '.join(nodes[:4])}"
    return Explained(what, cause.fix, _host(nodes[0]) if len(nodes) == 1 else None)


def _socket_fallback(case: Case) -> Explained:
    cause = CAUSES[case.first.kind]
    setting = next(
        (
            f"{name}={value}"
            for name, value in case.seen.settings.items()
            if (name == "NCCL_IB_DISABLE" and value != "0")
            or (name == "NCCL_NET" and value.lower() == "socket")
        ),
        "",
    )
    reason = case.seen.absent.get(case.first.host, "")
    others = sorted(
        host
        for host, networks in case.seen.networks.items()
        if host != case.first.host and any("IB" in name for name in networks)
    )
    if setting:
        return Explained(f"{cause.says}: {setting} says so", f"Remove {setting.partition('=')[0]}.")
    what = f"{cause.says}{f': {reason}' if reason else ''}{f'; {others[0]} has RDMA' if others else ''}"
    fix = "Check on this host ibv_devinfo, libibverbs in the container and /dev/infiniband, and NCCL_IB_HCA."
    return Explained(what, fix)


_SPECIAL: dict[Kind, Callable[[Case], Explained]] = {
    Kind.PORT_ERROR: _port_error,
    Kind.MIXED_LAYERS: _mixed,
    Kind.RETRY_EXCEEDED: _retry_exceeded,
    Kind.WATCHDOG: _watchdog,
    Kind.WATCHDOG_STATUS: _watchdog_status,
    Kind.HEARTBEAT: _heartbeat,
    Kind.RAS_MISMATCH: _ras_mismatch,
    Kind.RAS_INCOMPLETE: _ras_incomplete,
    Kind.SOCKET_FALLBACK: _socket_fallback,
}
