"""MPI inside a rank agent, with the functions of `torch_backend`: for ranks that mpirun, Hydra or srun started.

An initialisation is a new communicator. MPI libraries keep their connections from one to the next, and so their ports and
paths: only another launch draws new ones. Data are torch's, so that checks and types are the same; MPI sees their memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from mpi4py import MPI

from collectives.backends.operations import Collective, schedule_of
from collectives.executors.buffers import Buffers
from collectives.executors.engine import Executor, by_channel
from collectives.executors.mpi_transport import MpiTransport
from collectives.executors.program import Layout, program
from collectives.schedules import Op, Schedule
from nettune.errors import InputError, NettuneError

_communicator: Any = None
_timeout_s = 30.0


def init_group(rank: int, world_size: int, timeout_s: float = 30.0, **_unused: Any) -> dict[str, Any]:
    """Make the communicator of an initialisation; returns `init_s`.

    Raises:
        InputError: this process is another rank of MPI's, or one is up already.
    """
    global _communicator, _timeout_s
    world = MPI.COMM_WORLD
    if (world.rank, world.size) != (rank, world_size):
        raise InputError(
            f"rank {rank} of {world_size} is rank {world.rank} of {world.size} in MPI; measure in the launcher's order"
        )
    if _communicator is not None:
        raise InputError(f"rank {rank}: a communicator is up already; destroy it first")
    start = time.perf_counter()
    _communicator, _timeout_s = world.Dup(), timeout_s
    return {"init_s": time.perf_counter() - start}


def destroy_group() -> dict[str, Any]:
    """Free the communicator; harmless when none is up."""
    global _communicator  # noqa: PLW0603 - as above
    if _communicator is not None:
        _communicator.Free()
    _communicator = None
    return {}


def step_traffic(
    phases: Sequence[Mapping[str, Any]], repeats: int = 1, warmup: int = 0, *, check: bool = True
) -> dict[str, Any]:
    """As `torch_backend.step_traffic`, for collectives over all ranks.

    Raises:
        InputError: no communicator, an operation or type that is not known, groups of some ranks.
        NettuneError: no message came within the time-out.
    """
    if _communicator is None:
        raise InputError("no communicator is up in this process; call init_group first")
    operations = [_operation(phase) for phase in phases]
    times: list[list[float]] = [[] for _ in range(1 + len(operations))]
    wrong = 0
    for number in range(warmup + repeats):
        for operation in operations:
            operation.prepare()
        _communicator.Barrier()
        marks = [time.perf_counter()]
        for operation in operations:
            operation.start()
            marks.append(time.perf_counter())
        if number >= warmup:
            for column, (before, after) in zip(times[1:], pairwise(marks), strict=True):
                column.append(after - before)
            times[0].append(marks[-1] - marks[0])
        if check and number == 0:
            wrong = sum(operation.wrong() for operation in operations)
    _communicator.Barrier()
    names = [str(phase["name"]) for phase in phases]
    return {"times_s": times[0], "phases": dict(zip(names, times[1:], strict=True)), "wrong": wrong}


def connections() -> list[Mapping[str, Any]]:
    """None: MPI does not tell which sockets are its own."""
    return []


def cap_rate(bytes_per_s: float) -> dict[str, Any]:
    """Refused: MPI's sockets are not at hand.

    Raises:
        NettuneError: always.
    """
    raise NettuneError(
        f"MPI's connections cannot be held to {bytes_per_s:.0f} bytes a second; use gloo with --cap"
    )


def _operation(phase: Mapping[str, Any]) -> Collective:
    size_bytes, dtype = int(phase["size_bytes"]), str(phase.get("dtype", "float"))
    known = [op for op in Op if op is not Op.P2P]
    if phase["op"] not in known or len(phase["groups"]) != 1 or len(phase["groups"][0]) != _communicator.size:
        raise InputError(f"phase {phase['name']!r}: over MPI one of {', '.join(known)}, over all ranks")
    if dtype == "bfloat16":
        raise InputError("bfloat16 is no type of MPI's; use half or float")
    op = Op(phase["op"])
    if "schedule" not in phase:
        return _BuiltIn(op, _communicator.rank, _communicator.size, size_bytes, dtype)
    schedule = schedule_of(op, _communicator.size, phase["schedule"])
    return _Scheduled(schedule, size_bytes, dtype, rounds=bool(phase.get("rounds")))


class _BuiltIn(Collective):
    """MPI's own."""

    def __init__(self, op: Op, place: int, ranks: int, size_bytes: int, dtype: str) -> None:
        super().__init__(op, place, ranks, size_bytes, dtype)
        if dtype == "half":
            raise InputError("half has no sum in MPI; use float")
        if op in {Op.REDUCE_SCATTER, Op.ALL_TO_ALL}:
            parts = ranks if op is Op.REDUCE_SCATTER else 1
            self.result = torch.empty(self.elements // parts, dtype=self.dtype)

    def start(self) -> list[Any]:
        """Carry it out."""
        data, result, group = self.data.numpy(), self.result.numpy(), _communicator
        if self.op is Op.ALL_REDUCE:
            group.Allreduce(MPI.IN_PLACE, data)
        elif self.op is Op.REDUCE:
            if self.place:
                group.Reduce(data, None)
            else:
                group.Reduce(MPI.IN_PLACE, data)
        elif self.op is Op.BROADCAST:
            group.Bcast(data)
        elif self.op is Op.ALL_GATHER:
            group.Allgather(MPI.IN_PLACE, data)
        elif self.op is Op.REDUCE_SCATTER:
            group.Reduce_scatter_block(data, result)
        else:
            group.Alltoall(data, result)
        return []


class _Scheduled(Collective):
    """A schedule over MPI's messages."""

    def __init__(self, schedule: Schedule, size_bytes: int, dtype: str, *, rounds: bool) -> None:
        rank = _communicator.rank
        super().__init__(schedule.op, rank, schedule.ranks, size_bytes, dtype)
        data = self.data.numpy()
        layout = Layout.of(schedule, self.elements)
        buffers = Buffers(schedule, layout, rank, data, lambda elements: np.empty(elements, data.dtype))
        self.result = torch.from_numpy(buffers.result)
        transport = MpiTransport(_communicator, _timeout_s)
        self._executor = Executor(
            program(schedule, layout, rank), buffers, transport, by_channel(1), rounds=rounds
        )

    def start(self) -> list[Any]:
        """Carry it out."""
        self._executor.run()
        return []
