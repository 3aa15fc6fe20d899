"""The phases of a training step: which kinds of groups do what, in which order, before anybody looks at edges."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collectives.job import EMBEDDING, JobSpec, Volume
from collectives.schedules import Op


@dataclass(frozen=True)
class Plan:
    """One phase.

    Attributes:
        name: `dp reduce-scatter`.
        kind: whose algorithm, channels, connections and computation it has.
        group: kind of group that works, one of `collectives.job.GROUPS`.
        op: what each group does.
        volume: bytes of each group.
        back: an all-to-all that returns what another sent.
        after: phases that must be over.
    """

    name: str
    kind: str
    group: str
    op: Op
    volume: Volume
    back: bool = False
    after: tuple[str, ...] = ()


def plans(job: JobSpec) -> tuple[Plan, ...]:
    """Phases of a step, each after the one before; kinds with one rank in a group, or without bytes, are left out.

    Parameters are gathered first with `zero` 3; then come tensor, context and expert parallelism and the pipeline, each
    as one phase for the whole step; then the gradients, those of an embedding that first and last stage share at the
    end. Kinds of `job.overlap` start with the step and nothing waits for them.
    """
    wanted = [
        *_parameters(job, first=True),
        *_tensor(job),
        *_context(job),
        *_experts(job),
        Plan("pp p2p", "pp", "pp", Op.P2P, job.volumes["pp"]),
        *_gradients(job),
        Plan("embedding all-reduce", EMBEDDING, EMBEDDING, Op.ALL_REDUCE, job.volumes["embedding"]),
        *_parameters(job, first=False),
    ]
    found: list[Plan] = []
    last: tuple[str, ...] = ()
    for plan in wanted:
        if job.layout.groups(plan.group).shape[1] == 1 or not max(plan.volume.by_stage):
            continue
        if plan.kind in job.overlap:
            own = tuple(other.name for other in found if other.kind == plan.kind)
            found.append(replace(plan, after=own[-1:]))
        else:
            found.append(replace(plan, after=last))
            last = (plan.name,)
    return tuple(found)


def _tensor(job: JobSpec) -> list[Plan]:
    if not job.sequence_parallel:
        return [Plan("tp all-reduce", "tp", "tp", Op.ALL_REDUCE, job.volumes["tp"])]
    return [
        Plan("tp all-gather", "tp", "tp", Op.ALL_GATHER, job.volumes["tp gathers"]),
        Plan("tp reduce-scatter", "tp", "tp", Op.REDUCE_SCATTER, job.volumes["tp"]),
    ]


def _context(job: JobSpec) -> list[Plan]:
    if job.algorithm_of("cp") == "ring":
        return [Plan("cp p2p", "cp", "cp", Op.P2P, job.volumes["cp"])]
    return [Plan("cp all-to-all", "cp", "cp", Op.ALL_TO_ALL, job.volumes["cp"])]


def _experts(job: JobSpec) -> list[Plan]:
    return [
        Plan("ep dispatch", "ep", "ep", Op.ALL_TO_ALL, job.volumes["ep"]),
        Plan("etp all-gather", "etp", "etp", Op.ALL_GATHER, job.volumes["etp"]),
        Plan("etp reduce-scatter", "etp", "etp", Op.REDUCE_SCATTER, job.volumes["etp"]),
        Plan("ep combine", "ep", "ep", Op.ALL_TO_ALL, job.volumes["ep"], back=True),
    ]


def _gradients(job: JobSpec) -> list[Plan]:
    """All-reduce without ZeRO, else a reduce-scatter: once a step with stage 1, once a micro batch with 2 and 3.

    With several copies of the sharded states (HSDP; MiCS in DeepSpeed) each shard is all-reduced over its copies after
    that (Zhao et al. 2023, PyTorch FSDP, section 3.2.2). DeepSpeed and FSDP partition gradients as they come in each backward pass (deepspeed/runtime/zero/stage_1_and_2.py,
    `partition_gradients`), so they cannot wait for the last micro batch.
    """
    found = []
    for kind, group in (("dp", "dp-cp"), ("edp", "edp")):
        if not job.zero:
            found.append(Plan(f"{kind} all-reduce", kind, group, Op.ALL_REDUCE, job.volumes[kind]))
            continue
        whole = job.volumes[kind].times(job.batches if job.zero > 1 else 1)
        shard = whole.shared_by(job.layout.groups(f"{group}/shard").shape[1])
        found.append(Plan(f"{kind} reduce-scatter", kind, f"{group}/shard", Op.REDUCE_SCATTER, whole))
        found.append(Plan(f"{kind} replica all-reduce", kind, f"{group}/replica", Op.ALL_REDUCE, shard))
    return found


def _parameters(job: JobSpec, *, first: bool) -> list[Plan]:
    """Gather of updated parameters: at the end with ZeRO 1 and 2; forward and backward of each micro batch with 3.

    Source: Rajbhandari et al. 2020, section 7.
    """
    if not job.zero or first != (job.zero == 3):
        return []
    times = 2 * job.batches if first else 1
    return [
        Plan(
            f"{kind} all-gather",
            kind,
            f"{group}/shard",
            Op.ALL_GATHER,
            job.volumes[f"{kind} params"].times(times),
        )
        for kind, group in (("dp", "dp-cp"), ("edp", "edp"))
    ]
