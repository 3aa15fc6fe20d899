"""torch.distributed inside a rank agent: functions with JSON arguments and results, called by name.

A process takes part in one initialisation at a time: `joining.serve_store` on rank 0, `init_group` on all, operations,
`destroy_group` on all. "Rank" here is the rank of that initialisation; the same process may be another rank in the next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from torch import distributed as dist

from collectives.backends import joining, torch_group
from collectives.backends.devices import settle
from collectives.backends.operations import (
    BuiltIn,
    Operation,
    PointToPoint,
    Scheduled,
    Together,
    schedule_of,
)
from collectives.backends.sockets import pace
from collectives.backends.torch_group import Joined
from collectives.executors.torch_transport import TorchTransport
from collectives.schedules import Op
from nettune.errors import InputError

_joined: Joined | None = None


def init_group(
    rank: int,
    world_size: int,
    master_addr: str,
    master_port: int,
    backend: str = "gloo",
    iface: str = "eth0",
    timeout_s: float = 30.0,
    groups: Sequence[Sequence[int]] | None = None,
    connections: int = 1,
) -> dict[str, Any]:
    """Join as `rank` and create `groups`; returns `init_s`.

    Args:
        rank: this process's rank; rank 0 is the process that served the store.
        world_size: ranks of the job.
        master_addr: from `joining.serve_store`.
        master_port: from `joining.serve_store`.
        backend: torch's name of the backend.
        iface: network interface of this host.
        timeout_s: for joining, and for every operation after it.
        groups: members of further groups, ascending; the same list on every rank.
        connections: of each pair of ranks, in the group of all.

    Raises:
        GroupError: ranks are missing or cannot connect; one line that names them.
        InputError: a bad group or interface, or rank 0 has not served the store.
    """
    global _joined  # noqa: PLW0603 - the agent's process keeps it between calls
    if _joined is not None:
        raise InputError(f"rank {rank}: a group is up already; destroy it first")
    if rank == 0 and not joining.serves_store(master_port):
        raise InputError("rank 0 has not served the store; call serve_store on it first")
    start = time.perf_counter()
    try:
        _joined = torch_group.join(
            rank=rank,
            world_size=world_size,
            master_addr=master_addr,
            master_port=master_port,
            backend=backend,
            iface=iface,
            timeout_s=timeout_s,
            groups=groups or (),
            connections=connections,
        )
    except BaseException:
        destroy_group()
        raise
    return {"init_s": time.perf_counter() - start}


def destroy_group() -> dict[str, Any]:
    """Close all connections of this process; harmless when none is up. Peers may be gone already."""
    global _joined  # noqa: PLW0603 - the agent's process keeps it between calls
    torch_group.leave()
    _joined = None
    return {}


def step_traffic(
    phases: Sequence[Mapping[str, Any]], repeats: int = 1, warmup: int = 0, *, check: bool = True
) -> dict[str, Any]:
    """Carry out the communication of a step `warmup + repeats` times, one phase after the other.

    Args:
        phases: `name`, `op`, `size_bytes`, and for p2p `edges` ([src, dst] rank pairs), all at once; else `groups` (member
            lists), all at once. `collectives.traffic.JobTraffic.work` gives them. Further keys: `dtype` (nccl-tests'
            names); `schedule`, `{"name", "options"}` of `collectives.schedules.build`, to run in place of torch's own;
            with it `routes`, [src, dst, channel, connection], and `rounds`, see `collectives.executors`.
        repeats: timed steps; each starts behind a barrier, phases inside a step do not.
        warmup: steps before them.
        check: compare every value of the first step's results.

    Returns:
        `times_s` of each step, `phases`: name to the times of that phase, at this rank; `wrong`: how many values of the
        first step's results are wrong.

    Raises:
        GroupError: a rank died or hangs.
        InputError: an operation that is not known.
    """
    joined = _require()
    transports: list[TorchTransport] = []
    try:
        operations = [_operation(joined, phase, transports) for phase in phases]
        with joining.one_line_errors(joined, "the step's communication"):
            everybody = joined.group(None)
            (total, *parts_s), wrong = _repeat(joined, everybody, operations, repeats, warmup, check)
    finally:
        for transport in transports:
            transport.close()
    names = [str(phase["name"]) for phase in phases]
    return {"times_s": total, "phases": dict(zip(names, parts_s, strict=True)), "wrong": wrong}


def cap_rate(bytes_per_s: float) -> dict[str, Any]:
    """Pace every connection to other ranks, from now on, at so many bytes a second each; gloo's only."""
    joined = _require()
    return {"paced": pace({inode for inode, members in joined.members_of.items() if members}, bytes_per_s)}


def connections() -> list[Mapping[str, Any]]:
    """This rank's TCP connections to other ranks; `collectives.connections.pair` tells whose they are.

    Each has `local_address`, `local_port`, `remote_address`, `remote_port`, `sent_bytes`, `retransmitted_bytes`,
    `received_bytes`, `group`, the members of the group that it was made for, and `copy`, its number in it.
    """
    return torch_group.connections(_require())


def _operation(joined: Joined, phase: Mapping[str, Any], transports: list[TorchTransport]) -> Operation:
    size_bytes, dtype = int(phase["size_bytes"]), str(phase.get("dtype", "float"))
    if phase["op"] not in set(Op):
        raise InputError(f"phase {phase['name']!r}: {phase['op']!r} is not one of {', '.join(Op)}")
    op = Op(phase["op"])
    if op is Op.P2P:
        return PointToPoint(joined.rank, phase["edges"], size_bytes, dtype, joined.device)
    parts: list[Operation] = []
    for members in phase["groups"]:
        if joined.rank not in members:
            continue
        place, handle = members.index(joined.rank), joined.group(members)
        if "schedule" not in phase:
            parts.append(BuiltIn(handle, op, place, len(members), size_bytes, dtype, joined.device))
            continue
        handles = joined.copies if len(members) == joined.world_size else [handle]
        transports.append(TorchTransport(handles))
        schedule = schedule_of(op, len(members), phase["schedule"])
        routes = {(src, dst, channel): copy for src, dst, channel, copy in phase.get("routes", ())}
        rounds = bool(phase.get("rounds")) or joined.device.type == "cuda"
        parts.append(
            Scheduled(
                transports[-1], len(handles), schedule, place, size_bytes, dtype, joined.device,
                routes=routes, rounds=rounds,
            )
        )  # fmt: skip
    return Together(parts)


def _repeat(
    joined: Joined, handle: Any, operations: Sequence[Operation], repeats: int, warmup: int, check: bool
) -> tuple[list[list[float]], int]:
    """Times of the whole, then of each operation, a list over the timed repeats each; and wrong values."""
    times: list[list[float]] = [[] for _ in range(1 + len(operations))]
    wrong = 0
    # Names the ranks that did not come, which a plain barrier does not.
    dist.monitored_barrier(joined.monitor, timeout=timedelta(seconds=joined.timeout_s), wait_all_ranks=True)
    for number in range(warmup + repeats):
        for operation in operations:
            operation.prepare()
        settle(joined.device)
        dist.barrier(handle)
        settle(joined.device)
        marks = [time.perf_counter()]
        for operation in operations:
            for work in operation.start():
                work.wait()
            settle(joined.device)  # waiting for works of NCCL only puts them in order
            marks.append(time.perf_counter())
        if number >= warmup:
            times[0].append(marks[-1] - marks[0])
            for column, (before, after) in zip(times[1:], pairwise(marks), strict=True):
                column.append(after - before)
        if check and number == 0:
            wrong = sum(operation.wrong() for operation in operations)
    # Nobody reports before all are done: bytes counted after this call belong to nobody's operation.
    dist.barrier(handle)
    return times, wrong


def _require() -> Joined:
    if _joined is None:
        raise InputError("no group is up in this process; call init_group first")
    return _joined
