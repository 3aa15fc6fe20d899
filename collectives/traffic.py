"""What a job puts on the wire: phases of transfers between ranks, made from its groups and their schedules.

Placement and load prediction take these through `topology.traffic.StepTraffic`; `work` is the same step for the
ranks themselves to carry out, so that what is measured is what was predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from collectives.job import JobSpec
from collectives.schedules import Edges, Op, build
from nettune.errors import InputError
from topology.traffic import Phase, StepTraffic


class Work(StepTraffic, Protocol):
    """A step's communication that ranks can also carry out."""

    @property
    def work(self) -> list[dict[str, Any]]:
        """Phases in order, as JSON for `collectives.backends.torch_backend.step_traffic`."""
        ...

    @property
    def process_groups(self) -> list[list[int]]:
        """Process groups that `work` needs beside the one of all ranks; members ascending."""
        ...


# gloo, measured on torch 2.13.0 by the bytes that each connection sent (TCP_INFO) during one all-reduce of float32 on
# 4 ranks: 4 MiB: 0>3, 3>2, 2>1, 1>0 sent 6292704 bytes each = 1.5003 S = 2(n-1)/n S, every other direction under
# 1 kB. 64 KiB: 1.519 S, 1 KiB: the same four, mostly headers; 3 ranks: 1.3343 S; 2 ranks: 1.0008 S each way. So at every
# size it is one ring in which rank r sends to r - 1 only. tests/collectives asserts it on the installed torch.
# NCCL's rings send to the next rank of the ring (src/graph/rings.cc; ring order is its own choice inside a node).
RING_DIRECTION = {"gloo": -1, "nccl": 1}


@cache
def ring_edges(op: Op, ranks: int, direction: int) -> Edges:
    """Edges of a ring with ranks numbered inside the group; kept, since all groups of a kind are alike."""
    return build("ring", op, ranks, direction=direction).edges


@dataclass(frozen=True)
class AllReduceTraffic:
    """One all-reduce over all ranks in order.

    Attributes:
        ranks: number of ranks.
        size_bytes: message size.
        backend: whose ring: `gloo` or `nccl`.

    Raises:
        InputError: no rank, a size that is not positive, an unknown backend.
    """

    ranks: int
    size_bytes: float
    backend: str = "gloo"

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.size_bytes <= 0 or self.backend not in RING_DIRECTION:
            raise InputError(f"all-reduce: {self.size_bytes} bytes on {self.ranks} ranks by {self.backend!r}")

    @cached_property
    def phases(self) -> Sequence[Phase]:
        """The one phase."""
        groups = [list(range(self.ranks))]
        return (_all_reduce_phase("all-reduce", groups, self.size_bytes, self.backend, ()),)

    @property
    def work(self) -> list[dict[str, Any]]:
        """As `JobTraffic.work`."""
        everybody = list(range(self.ranks))
        op, size_bytes = str(Op.ALL_REDUCE), int(self.size_bytes)
        return [{"name": "all-reduce", "op": op, "size_bytes": size_bytes, "groups": [everybody]}]

    @property
    def process_groups(self) -> list[list[int]]:
        """As `JobTraffic.process_groups`; the group of all ranks needs no creation."""
        return []


@dataclass(frozen=True)
class JobTraffic:
    """One training step of a job: all tensor-parallel all-reduces, then all pipeline transfers, then all gradients.

    Kinds with one rank per group, or without bytes, are left out.

    Attributes:
        job: the job.
    """

    job: JobSpec

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.job.ranks

    @cached_property
    def phases(self) -> Sequence[Phase]:
        """Phases one after the other; in each phase all groups of its kind work at once."""
        job = self.job
        found: list[Phase] = []
        for kind, name in (("tp", "tp all-reduce"), ("pp", "pp p2p"), ("dp", "dp all-reduce")):
            if job.size(kind) == 1 or not job.bytes_of(kind):
                continue
            after = (found[-1].name,) if found else ()
            if kind == "pp":
                found.append(_p2p_phase(name, self.stage_edges, job.pp_bytes, after))
            else:
                found.append(
                    _all_reduce_phase(name, job.groups(kind), job.bytes_of(kind), job.backend, after)
                )
        return tuple(found)

    @property
    def stage_edges(self) -> list[tuple[int, int]]:
        """(src, dst) between ranks of neighbouring stages: activations forward, their gradients backward."""
        forward = [(a, b) for group in self.job.groups("pp") for a, b in pairwise(group)]
        return forward + [(b, a) for a, b in forward]

    @property
    def work(self) -> list[dict[str, Any]]:
        """The step as JSON for `collectives.backends.torch_backend.step_traffic`, phases in order."""
        steps: list[dict[str, Any]] = []
        for phase in self.phases:
            step: dict[str, Any] = {"name": phase.name, "op": phase.op, "size_bytes": int(phase.size_bytes)}
            if phase.op == Op.P2P:
                step["edges"] = [list(edge) for edge in self.stage_edges]
            else:
                step["groups"] = self.job.groups(phase.name.split()[0])
            steps.append(step)
        return steps

    @property
    def process_groups(self) -> list[list[int]]:
        """Groups that the ranks must create for `work`."""
        return [group for step in self.work for group in step.get("groups", ())]


def sent_bytes(traffic: StepTraffic) -> float:
    """Bytes that the busiest rank sends in a step: over the step's time, a rate to compare with its link's.

    For one all-reduce over all ranks by a ring, that rate is the bus bandwidth of nccl-tests.
    """
    total = np.zeros(traffic.ranks)
    for phase in traffic.phases:
        np.add.at(total, phase.src, phase.edge_bytes)
    return float(total.max())


def _all_reduce_phase(
    name: str, groups: list[list[int]], size_bytes: float, backend: str, after: tuple[str, ...]
) -> Phase:
    members: NDArray[np.int64] = np.array(groups, dtype=np.int64)
    edges = ring_edges(Op.ALL_REDUCE, members.shape[1], RING_DIRECTION[backend])
    return Phase(
        name=name,
        op=str(Op.ALL_REDUCE),
        size_bytes=size_bytes,
        src=members[:, edges.src].ravel(),
        dst=members[:, edges.dst].ravel(),
        edge_bytes=np.tile(edges.share * size_bytes, len(members)),
        after=after,
    )


def _p2p_phase(name: str, pairs: list[tuple[int, int]], size_bytes: float, after: tuple[str, ...]) -> Phase:
    ends = np.array(pairs, dtype=np.int64)
    return Phase(
        name=name,
        op=str(Op.P2P),
        size_bytes=size_bytes,
        src=ends[:, 0],
        dst=ends[:, 1],
        edge_bytes=np.full(len(pairs), float(size_bytes)),
        after=after,
    )
