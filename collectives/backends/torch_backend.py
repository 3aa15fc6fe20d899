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

import torch
from torch import distributed as dist

from collectives.backends import joining, torch_group
from collectives.backends.torch_group import Joined
from nettune.errors import InputError, NettuneError

_ITEM_BYTES = 4  # float32
_PERIOD = 251  # a prime, so that segments of a ring do not line up with the pattern
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


def all_reduce(
    size_bytes: int,
    repeats: int = 1,
    warmup: int = 0,
    group: Sequence[int] | None = None,
    *,
    check: bool = True,
) -> dict[str, Any]:
    """Sum a float32 vector over the ranks `warmup + repeats` times.

    Args:
        size_bytes: size of the vector, a multiple of 4.
        repeats: timed operations; each starts behind a barrier.
        warmup: operations before them.
        group: members of one of the groups; None means all ranks.
        check: compare every value of the first operation's result.

    Returns:
        `times_s`: seconds of each timed operation at this rank. The job's time is the largest of the ranks'.

    Raises:
        GroupError: a rank died or hangs.
        NettuneError: a sum is wrong.
    """
    joined = _require()
    handle = joined.group(group)
    members = list(range(joined.world_size)) if group is None else list(group)
    operation = _AllReduce(joined, handle, members, size_bytes)
    with joining.one_line_errors(joined, f"all-reduce of {size_bytes} bytes"):
        return {"times_s": _repeat(joined, handle, [operation], repeats, warmup, check)[0]}


def step_traffic(
    phases: Sequence[Mapping[str, Any]], repeats: int = 1, warmup: int = 0, *, check: bool = True
) -> dict[str, Any]:
    """Carry out the communication of a step `warmup + repeats` times, one phase after the other.

    Args:
        phases: `name`, `op`, `size_bytes`, and for all_reduce `groups` (member lists), all at once; for p2p `edges`
            ([src, dst] rank pairs), all at once. `collectives.traffic.JobTraffic.work` gives them.
        repeats: timed steps; each starts behind a barrier, phases inside a step do not.
        warmup: steps before them.
        check: compare every value of the first step's results.

    Returns:
        `times_s` of each step and `phases`: name to the times of that phase, at this rank.

    Raises:
        GroupError: a rank died or hangs.
        NettuneError: a result is wrong.
        InputError: an operation that is not known.
    """
    joined = _require()
    operations: list[_Operation] = []
    for phase in phases:
        size_bytes = int(phase["size_bytes"])
        if phase["op"] == "all_reduce":
            mine = [members for members in phase["groups"] if joined.rank in members]
            parts = [_AllReduce(joined, joined.group(members), members, size_bytes) for members in mine]
            operations.append(_Together(parts))
        elif phase["op"] == "p2p":
            operations.append(_PointToPoint(joined, phase["edges"], size_bytes))
        else:
            raise InputError(f"phase {phase['name']!r}: {phase['op']!r} is not all_reduce or p2p")
    with joining.one_line_errors(joined, "the step's communication"):
        everybody = joined.group(None)
        total, *parts_s = _repeat(joined, everybody, operations, repeats, warmup, check)
    names = [str(phase["name"]) for phase in phases]
    return {"times_s": total, "phases": dict(zip(names, parts_s, strict=True))}


def connections() -> list[Mapping[str, Any]]:
    """This rank's TCP connections to other ranks; `collectives.connections.pair` tells whose they are.

    Each has `local_address`, `local_port`, `remote_address`, `remote_port`, `sent_bytes`, `retransmitted_bytes`,
    `received_bytes` and `group`, the members of the group that it was made for.
    """
    return torch_group.connections(_require())


class _Operation:
    """Something that is prepared, started and waited for; `wrong` counts bad values of the last result."""

    def prepare(self) -> None:
        """Fill the buffers."""

    def start(self) -> list[Any]:
        """Start it; the works to wait for."""
        return []

    def wrong(self) -> int:
        """How many values of the last result are wrong."""
        return 0


class _AllReduce(_Operation):
    def __init__(self, joined: Joined, handle: Any, members: Sequence[int], size_bytes: int) -> None:
        base = _pattern(size_bytes)
        self._handle = handle
        # Small whole numbers: float32 sums of them are exact in any order.
        self._input = base + members.index(joined.rank)
        self._expected = base * len(members) + len(members) * (len(members) - 1) // 2
        self._buffer = torch.empty_like(base)

    def prepare(self) -> None:
        self._buffer.copy_(self._input)

    def start(self) -> list[Any]:
        return [dist.all_reduce(self._buffer, group=self._handle, async_op=True)]

    def wrong(self) -> int:
        return int((self._buffer != self._expected).sum())


class _PointToPoint(_Operation):
    def __init__(self, joined: Joined, edges: Sequence[Sequence[int]], size_bytes: int) -> None:
        base = _pattern(size_bytes)
        rank = joined.rank
        self._sends = [(tag, dst, base + tag) for tag, (src, dst) in enumerate(edges) if src == rank]
        self._receives = [
            (tag, src, torch.empty_like(base), base + tag)
            for tag, (src, dst) in enumerate(edges)
            if dst == rank
        ]

    def prepare(self) -> None:
        for _, _, buffer, _ in self._receives:
            buffer.zero_()

    def start(self) -> list[Any]:
        receives = [dist.irecv(buffer, src, tag=tag) for tag, src, buffer, _ in self._receives]
        return receives + [dist.isend(data, dst, tag=tag) for tag, dst, data in self._sends]

    def wrong(self) -> int:
        return sum(int((buffer != expected).sum()) for _, _, buffer, expected in self._receives)


class _Together(_Operation):
    def __init__(self, parts: Sequence[_Operation]) -> None:
        self._parts = parts

    def prepare(self) -> None:
        for part in self._parts:
            part.prepare()

    def start(self) -> list[Any]:
        return [work for part in self._parts for work in part.start()]

    def wrong(self) -> int:
        return sum(part.wrong() for part in self._parts)


def _repeat(
    joined: Joined, handle: Any, operations: Sequence[_Operation], repeats: int, warmup: int, check: bool
) -> list[list[float]]:
    """Times of the whole, then of each operation; a list over the timed repeats each."""
    times: list[list[float]] = [[] for _ in range(1 + len(operations))]
    # Names the ranks that did not come, which a plain barrier does not.
    dist.monitored_barrier(handle, timeout=timedelta(seconds=joined.timeout_s), wait_all_ranks=True)
    for number in range(warmup + repeats):
        for operation in operations:
            operation.prepare()
        dist.barrier(handle)
        marks = [time.perf_counter()]
        for operation in operations:
            for work in operation.start():
                work.wait()
            marks.append(time.perf_counter())
        if number >= warmup:
            times[0].append(marks[-1] - marks[0])
            for column, (before, after) in zip(times[1:], pairwise(marks), strict=True):
                column.append(after - before)
        wrong = sum(operation.wrong() for operation in operations) if check and number == 0 else 0
        if wrong:
            raise NettuneError(f"{joined}: {wrong} values of the result are wrong")
    # Nobody reports before all are done: bytes counted after this call belong to nobody's operation.
    dist.barrier(handle)
    return times


def _pattern(size_bytes: int) -> torch.Tensor:
    if size_bytes < _ITEM_BYTES or size_bytes % _ITEM_BYTES:
        raise InputError(f"a message of {size_bytes} bytes is no multiple of {_ITEM_BYTES} (float32)")
    return (torch.arange(size_bytes // _ITEM_BYTES) % _PERIOD).to(torch.float32)


def _require() -> Joined:
    if _joined is None:
        raise InputError("no group is up in this process; call init_group first")
    return _joined
