"""What a job puts on the wire: phases of transfers between ranks, made from its groups and their schedules.

Placement and load prediction take these through `topology.traffic.StepTraffic`; `work` is the same step for the
ranks themselves to carry out, so that what is measured is what was predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from collectives.groupedges import RankEdges, all_to_all, chain, collective
from collectives.job import LEFT_OUT, JobSpec
from collectives.phases import Plan, plans
from collectives.schedules import Op
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
        edges = collective(
            np.arange(self.ranks)[None, :],
            Op.ALL_REDUCE,
            np.array([float(self.size_bytes)]),
            direction=RING_DIRECTION[self.backend],
        )
        return (Phase("all-reduce", str(Op.ALL_REDUCE), self.size_bytes, edges.src, edges.dst, edges.bytes_),)

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
    """One training step of a job, phases as `collectives.phases.plans` has them.

    Edges between ranks of one domain do not use the network and are left out.

    Attributes:
        job: the job.
    """

    job: JobSpec

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.job.ranks

    @property
    def domain(self) -> int:
        """Consecutive ranks whose traffic among each other is left out: a placement must keep them together."""
        return self.job.domain

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """What each phase does."""
        return plans(self.job)

    @cached_property
    def phases(self) -> Sequence[Phase]:
        """Phases in order; in each all groups of its kind work at once.

        Raises:
            InputError: an algorithm that has no schedule for what it shall do.
        """
        job = self.job
        alike = {plan.kind: sum(other.kind == plan.kind for other in self.plans) for plan in self.plans}
        found = []
        for plan in self.plans:
            edges = _edges(job, plan, job.domain)
            found.append(
                Phase(
                    name=plan.name,
                    op=str(plan.op),
                    size_bytes=plan.volume.message_bytes,
                    src=edges.src,
                    dst=edges.dst,
                    edge_bytes=edges.bytes_,
                    after=plan.after,
                    connections=job.connections.get(plan.kind, 1),
                    repeats=plan.volume.repeats,
                    compute_us=job.compute_us.get(plan.kind, 0.0) / alike[plan.kind],
                )
            )
        return tuple(found)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any result about this step must know: what was assumed, what was left out, what stays local."""
        job, found = self.job, []
        if job.model:
            found.append(LEFT_OUT)
        if any(plan.group == "ep" for plan in self.plans) and not job.expert_tokens:
            found.append("experts: every expert gets the same number of tokens; expert_tokens gives others")
        local = [phase.name for phase in self.phases if not len(phase.src)]
        if local:
            found.append(f"no network: {', '.join(local)} stay inside domains of {job.domain} ranks")
        return tuple(found)

    @property
    def work(self) -> list[dict[str, Any]]:
        """The step as JSON for `collectives.backends.torch_backend.step_traffic`, phases in order.

        Messages that follow one another in a group are one message here, and all groups have the largest one's size.
        """
        steps: list[dict[str, Any]] = []
        for plan in self.plans:
            size_bytes = max(plan.volume.by_stage)
            step: dict[str, Any] = {"name": plan.name, "op": str(plan.op), "size_bytes": int(size_bytes)}
            if plan.op is Op.P2P:
                edges = _edges(self.job, plan, domain=1)
                times = np.rint(edges.bytes_ / size_bytes).astype(np.int64)
                step["edges"] = np.repeat(np.column_stack([edges.src, edges.dst]), times, axis=0).tolist()
            else:
                step["groups"] = self.job.groups(plan.group)
            steps.append(step)
        return steps

    @property
    def process_groups(self) -> list[list[int]]:
        """Groups that the ranks must create for `work`, each once."""
        groups = {tuple(group): group for step in self.work for group in step.get("groups", ())}
        return list(groups.values())


def sent_bytes(traffic: StepTraffic) -> float:
    """Bytes that the busiest rank sends in a step: over the step's time, a rate to compare with its link's.

    For one all-reduce over all ranks by a ring, that rate is the bus bandwidth of nccl-tests.
    """
    total = np.zeros(traffic.ranks)
    for phase in traffic.phases:
        np.add.at(total, phase.src, phase.edge_bytes)
    return float(total.max())


def _edges(job: JobSpec, plan: Plan, domain: int) -> RankEdges:
    groups = job.layout.groups(plan.group)
    stage = job.layout.stages()[groups[:, 0]]
    by_stage = np.array(plan.volume.by_stage, dtype=np.float64)
    bytes_ = by_stage[stage]
    if plan.kind == "pp":
        # Chunks of the model go around the stages: every pass but the last returns from the last stage to the first.
        once = np.full(len(groups), by_stage[0])
        forth = chain(groups, once * job.virtual_stages, once * (job.virtual_stages - 1), domain=domain)
        return RankEdges.joined([forth, RankEdges(forth.dst, forth.src, forth.bytes_)])
    if plan.op is Op.P2P:
        return chain(groups, bytes_, bytes_, domain=domain)
    if plan.op is Op.ALL_TO_ALL:
        share = np.full(groups.shape[1], 1 / groups.shape[1])
        if plan.kind == "ep" and job.expert_tokens:
            share = np.array(job.expert_tokens, dtype=np.float64).reshape(job.ep, -1).sum(axis=1)
            share /= share.sum()
        return all_to_all(groups, bytes_, share, pxn=job.pxn, domain=domain, back=plan.back)
    return collective(
        groups,
        plan.op,
        bytes_,
        algorithm=job.algorithm_of(plan.kind),
        direction=RING_DIRECTION[job.backend],
        channels=job.channels.get(plan.kind, 0),
        domain=domain,
    )
