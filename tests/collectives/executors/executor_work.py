"""What ranks do in the executors' tests: random data through schedules, results as digests."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from collectives.executors.buffers import Buffers
from collectives.executors.engine import Executor, by_channel
from collectives.executors.program import Layout, program
from collectives.schedules import Op, build


def data_of(op, ranks, elements, rank):
    """The same random numbers for a rank on every transport and in the oracle; magnitudes differ, so order matters."""
    drawn = np.random.default_rng(7 + rank)
    values = (drawn.standard_normal(elements) * 10.0 ** drawn.integers(-3, 4, elements)).astype(np.float32)
    if op is Op.ALL_GATHER:
        block = elements // ranks
        values[: rank * block] = 0
        values[(rank + 1) * block :] = 0
    return values


def carry_out(transport, connections, schedule, rank, data, empty, rounds=False):
    """Run a schedule twice in one executor; the result of the second run."""
    layout = Layout.of(schedule, len(data))
    buffers = Buffers(schedule, layout, rank, data, empty)
    executor = Executor(
        program(schedule, layout, rank), buffers, transport, by_channel(connections), rounds=rounds
    )
    kept = data.clone() if hasattr(data, "clone") else data.copy()
    for _ in range(2):
        data[:] = kept
        executor.run()
    return np.asarray(buffers.result)


def digest(values):
    """A word that stands for every bit."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def over_torch(cases: list[dict[str, Any]], elements: int) -> list[str]:
    """Digest of this rank's result of each case."""
    import torch
    from torch import distributed as dist

    from collectives.backends import torch_backend
    from collectives.executors.torch_transport import TorchTransport

    joined = torch_backend._require()
    found = []
    for case in cases:
        transport = TorchTransport(joined.copies)
        op = Op(case["op"])
        schedule = build(case["name"], op, joined.world_size, **case["options"])
        data = torch.from_numpy(data_of(op, joined.world_size, elements, joined.rank))
        result = carry_out(
            transport, len(joined.copies), schedule, joined.rank, data, torch.empty, case.get("rounds", False)
        )
        transport.close()
        dist.barrier()
        found.append(digest(result))
    return found


def by_the_library(elements: int) -> list[str]:
    """Digest of the library's all-reduce."""
    import torch
    from torch import distributed as dist

    from collectives.backends import torch_backend

    joined = torch_backend._require()
    data = torch.from_numpy(data_of(Op.ALL_REDUCE, joined.world_size, elements, joined.rank))
    dist.all_reduce(data)
    return [digest(data.numpy())]


def over_mpi(cases: list[dict[str, Any]], elements: int) -> list[list[str]] | None:
    """At rank 0, digests of each rank's results."""
    from mpi4py import MPI

    from collectives.executors.mpi_transport import MpiTransport

    world = MPI.COMM_WORLD
    found = []
    for case in cases:
        transport = MpiTransport(world, 20.0)
        op = Op(case["op"])
        schedule = build(case["name"], op, world.size, **case["options"])
        data = data_of(op, world.size, elements, world.rank)

        def empty(count, like=data):
            return np.empty(count, like.dtype)

        found.append(digest(carry_out(transport, 1, schedule, world.rank, data, empty, case["rounds"])))
        world.Barrier()
    return world.gather(found)


if __name__ == "__main__":
    import json
    import sys

    gathered = over_mpi(json.loads(sys.argv[1]), int(sys.argv[2]))
    if gathered is not None:
        print(json.dumps(gathered))
