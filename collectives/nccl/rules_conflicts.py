"""Rules of settings that contradict one another, or have no effect beside one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectives.nccl.job import Job, shown
from nettune.checks import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectives.nccl.settings import Setting

CONFLICT = "nccl-env-conflict"

_MOST_SOCKETS = 64
_MOST_QPS = 128
"""NCCL_IB_MAX_QPS of net_ib: queue pairs of a connection over all NICs of a fused device."""


def conflicts(job: Job) -> Iterator[Finding]:
    """All of them."""
    yield from _without_ib(job)
    yield from _queue_pairs(job)
    yield from _gid(job)
    yield from _adaptive_routing(job)
    yield from _channels(job)
    yield from _sockets(job)
    yield from _tuners(job)
    yield from _logs(job)
    yield from _torch(job)


def _conflict(job: Job, status: Status, what: str, fix: str, *settings: Setting | None) -> Finding:
    return job.finding(CONFLICT, status, what, fix, *settings)


def _set(job: Job, name: str) -> bool:
    """Whether it is set to a number other than 0."""
    return job.get(name) is not None and bool(job.number(name))


def _without_ib(job: Job) -> Iterator[Finding]:
    off = job.get("NCCL_IB_DISABLE") if _set(job, "NCCL_IB_DISABLE") else None
    if off is None and job.text("NCCL_NET").lower() == "socket":
        off = job.get("NCCL_NET")
    without = [
        one
        for name, one in job.environment.in_force.items()
        if name.startswith("NCCL_IB_") and name != "NCCL_IB_DISABLE"
    ]
    if off is not None and without:
        what = f"{shown(off)} turns RDMA off: {', '.join(sorted(one.name for one in without)[:4])} then has no effect"
        yield _conflict(job, Status.WARN, what, f"Remove {off.name} or the settings of RDMA.", off, *without)
    net = job.get("NCCL_NET")
    if net is not None and net.value.lower() == "ib" and _set(job, "NCCL_IB_DISABLE"):
        what = "NCCL_NET=IB asks for the transport that NCCL_IB_DISABLE turns off: NCCL finds no network"
        yield _conflict(job, Status.FAIL, what, "Remove NCCL_IB_DISABLE.", job.get("NCCL_IB_DISABLE"), net)


def _queue_pairs(job: Job) -> Iterator[Finding]:
    qps, split = job.number("NCCL_IB_QPS_PER_CONNECTION"), job.get("NCCL_IB_SPLIT_DATA_ON_QPS")
    if split is not None and job.number(split.name) == 1 and qps == 1:
        what = f"{shown(split)} has no effect with one queue pair a connection"
        fix = "Set NCCL_IB_QPS_PER_CONNECTION above 1 too, or remove it."
        yield _conflict(job, Status.WARN, what, fix, split, job.get("NCCL_IB_QPS_PER_CONNECTION"))
    set_qps = job.get("NCCL_IB_QPS_PER_CONNECTION")
    if set_qps is not None and qps is not None and 8 < qps <= _MOST_QPS:
        what = f"{shown(set_qps)}: NICs keep a limited number of queue pairs in their cache; 8 gave no more than 4 where it was measured"
        fix = "Sweep 1, 2, 4 and keep the smallest that is not slower."
        yield _conflict(job, Status.WARN, what, fix, set_qps)


def _gid(job: Job) -> Iterator[Finding]:
    index = job.get("NCCL_IB_GID_INDEX")
    if index is None or (job.number(index.name) or -1) < 0:
        return
    without = [
        job.get(name)
        for name in ("NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM")
        if job.get(name) is not None
    ]
    if without:
        named = ", ".join(one.name for one in without if one is not None)
        what = f"{named} choose a GID only where NCCL_IB_GID_INDEX is not set; {shown(index)} is"
        yield _conflict(job, Status.WARN, what, "Remove NCCL_IB_GID_INDEX.", index, *without)


def _adaptive_routing(job: Job) -> Iterator[Finding]:
    routing, order = job.get("NCCL_IB_ADAPTIVE_ROUTING"), job.get("NCCL_IB_OOO_RQ")
    off = routing is not None and job.number(routing.name) == 0
    if order is not None and job.number(order.name) == 1 and off:
        what = "NCCL_IB_OOO_RQ=1 needs adaptive routing, which is off: connections fail"
        yield _conflict(job, Status.FAIL, what, "Set NCCL_IB_ADAPTIVE_ROUTING=1 too.", order, routing)
    threshold, buffer = job.number("NCCL_IB_AR_THRESHOLD"), job.number("NCCL_BUFFSIZE")
    setting = job.get("NCCL_IB_AR_THRESHOLD")
    if setting is not None and threshold is not None and buffer is not None and threshold > buffer:
        what = f"{shown(setting)} is above NCCL_BUFFSIZE ({buffer}): adaptive routing is then never used"
        yield _conflict(
            job, Status.WARN, what, "Set it below NCCL_BUFFSIZE.", setting, job.get("NCCL_BUFFSIZE")
        )
    recovery = job.get("NCCL_IB_RESILIENCY_PORT_RECOVERY")
    if (
        recovery is not None
        and job.number(recovery.name)
        and not job.number("NCCL_IB_RESILIENCY_PORT_FAILOVER")
    ):
        what = "NCCL_IB_RESILIENCY_PORT_RECOVERY=1 without PORT_FAILOVER=1: no port fails over, so none recovers (unverified)"
        yield _conflict(job, Status.WARN, what, "Set NCCL_IB_RESILIENCY_PORT_FAILOVER=1 too.", recovery)


def _channels(job: Job) -> Iterator[Finding]:
    for low, high in (("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"), ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")):
        least, most = job.get(low), job.get(high)
        if least is None or most is None:
            continue
        fewest, limit = job.number(low) or 0, job.number(high) or 0
        if 0 < limit < fewest:
            what = f"{shown(least)} is above {shown(most)}: both become {limit}"
            yield _conflict(job, Status.WARN, what, f"Keep {low} at or below {high}.", least, most)
    for bound in ("MIN", "MAX"):
        old, new = job.get(f"NCCL_{bound}_NCHANNELS"), job.get(f"NCCL_{bound}_CTAS")
        if old is not None and new is not None and job.number(old.name) != job.number(new.name):
            what = f"{shown(old)} and {shown(new)} bound the same channels: the stricter one counts"
            yield _conflict(job, Status.WARN, what, f"Remove {old.name}.", old, new)
    limit_set = job.get("NCCL_MAX_NCHANNELS") or job.get("NCCL_MAX_CTAS")
    if limit_set is not None and job.get("NCCL_MAX_P2P_NCHANNELS") is None:
        what = f"{shown(limit_set)} does not bound send and receive, nor NVLS"
        fix = "Set NCCL_MAX_P2P_NCHANNELS and NCCL_NVLS_NCHANNELS too where SMs are the concern."
        yield _conflict(job, Status.WARN, what, fix, limit_set)


def _sockets(job: Job) -> Iterator[Finding]:
    threads, each = job.get("NCCL_SOCKET_NTHREADS"), job.get("NCCL_NSOCKS_PERTHREAD")
    counts = [job.number(one.name) for one in (threads, each) if one is not None]
    if len(counts) == 2 and None not in counts:
        total = (counts[0] or 0) * (counts[1] or 0)
        if total > _MOST_SOCKETS:
            what = f"{threads.name if threads else ''} times NCCL_NSOCKS_PERTHREAD is {total}: cut to {_MOST_SOCKETS}"
            yield _conflict(job, Status.WARN, what, "Keep the product at 64 or below.", threads, each)


def _tuners(job: Job) -> Iterator[Finding]:
    forced = job.get("NCCL_ALGO") or job.get("NCCL_PROTO")
    tuner = job.get("NCCL_TUNER_PLUGIN") or job.get("OFI_NCCL_TUNER_TYPE")
    if forced is not None and tuner is not None and tuner.value.lower() != "none":
        what = f"{shown(forced)} beside {shown(tuner)}: what is forced leaves the tuner no choice (the OFI tuner turns itself off)"
        yield _conflict(job, Status.WARN, what, f"Remove {forced.name}.", forced, tuner)


def _logs(job: Job) -> Iterator[Finding]:
    level = job.text("NCCL_DEBUG").upper()
    subsystems, file = job.get("NCCL_DEBUG_SUBSYS"), job.get("NCCL_DEBUG_FILE")
    if subsystems is not None and level not in {"INFO", "TRACE"} and not _told_by_shell(job, "NCCL_DEBUG"):
        what = f"{shown(subsystems)} filters NCCL_DEBUG=INFO, which is not set: nothing of it is logged"
        yield _conflict(job, Status.WARN, what, "Set NCCL_DEBUG=INFO too.", subsystems)
    if file is not None and not any(mark in file.value for mark in ("%p", "/dev/std")):
        what = f"{shown(file)} is the same file for all processes of a host: each overwrites the others' log"
        yield _conflict(job, Status.WARN, what, "Put %h and %p into the name.", file)
    if file is not None and file.value.startswith("~"):
        what = f"{shown(file)}: NCCL does not expand ~"
        yield _conflict(job, Status.FAIL, what, "Write the whole path.", file)


def _told_by_shell(job: Job, name: str) -> bool:
    setting = job.environment.get(name)
    return setting is not None and setting.expands


def _torch(job: Job) -> Iterator[Finding]:
    buffer = job.get("TORCH_FR_BUFFER_SIZE") or job.get("TORCH_NCCL_TRACE_BUFFER_SIZE")
    dump = job.get("TORCH_NCCL_DUMP_ON_TIMEOUT")
    if dump is not None and job.number(dump.name) and buffer is not None and job.number(buffer.name) == 0:
        what = f"{shown(dump)} beside {shown(buffer)}: the flight recorder is empty, there is nothing to dump"
        yield _conflict(job, Status.WARN, what, f"Set {buffer.name}=2000.", buffer, dump)
    old, new = job.get("TORCH_NCCL_TRACE_BUFFER_SIZE"), job.get("TORCH_FR_BUFFER_SIZE")
    if old is not None and new is not None and old.value != new.value:
        what = f"{shown(old)} and {shown(new)} are two names of one setting"
        yield _conflict(job, Status.WARN, what, f"Remove {old.name}.", old, new)
    blocking = job.get("TORCH_NCCL_BLOCKING_WAIT")
    if blocking is not None and job.number(blocking.name):
        what = f"{shown(blocking)}: waits block the host and there is no watchdog"
        fix = "Remove it: asynchronous error handling ends a stuck job too."
        yield _conflict(job, Status.WARN, what, fix, blocking, job.get("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
