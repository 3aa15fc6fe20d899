"""The training job of one rank: set up, run steps, measure compute alone, tear down.

These functions run inside a rank's process and keep its state between calls, so that a new initialisation (new
process group, new connections) costs no new process:

    setup -> run -> measure_compute -> teardown -> setup with a new store -> ...

Arguments and results are JSON. CPU and gloo only; times come from the clock of the host.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from collectives.backends.joining import GroupError, one_line_errors
from collectives.backends.torch_group import Joined, join, leave
from nettune.errors import InputError
from nettune.launch.agent import emit
from nettune.trainer import data
from nettune.trainer.config import TrainConfig
from nettune.trainer.model import GPT, build_model
from nettune.trainer.overlap import BucketTimeline, ddp_logging
from nettune.trainer.step import freeze_imports, make_optimizer, no_collector, timed_step


@dataclass
class _Learner:
    """What outlives a group: the weights, the optimiser and the number of steps taken."""

    config: TrainConfig
    model: GPT
    optimizer: torch.optim.Optimizer
    step: int = 0


@dataclass
class _Job:
    """What one initialisation holds."""

    joined: Joined
    learner: _Learner
    ddp: DistributedDataParallel
    timeline: BucketTimeline
    batches: data.Batches


@dataclass
class _Process:
    learner: _Learner | None = None
    job: _Job | None = None


_PROCESS = _Process()


def setup(
    *,
    rank: int,
    world_size: int,
    master_addr: str,
    master_port: int,
    iface: str | None = None,
    config: Mapping[str, Any] | None = None,
    timeout_s: float = 60.0,
    threads: int = 1,
) -> dict[str, Any]:
    """Join the group and wrap the model in DDP.

    The model of the last setup is kept, and goes on from its last step, when everything but the bucket size is the
    same; otherwise it is built anew from the seed. All ranks must hold the same weights, which is checked.

    Args:
        rank: this process's rank.
        world_size: ranks of the job.
        master_addr: where the store is: from `joining.serve_store` on rank 0's process, or from torchrun.
        master_port: its TCP port; where nobody serves it yet, rank 0 does now.
        iface: network interface of gloo's connections; None leaves it to the environment.
        config: JSON form of a TrainConfig.
        timeout_s: for joining and for every collective afterwards.
        threads: torch threads of this rank.

    Returns:
        rank, init_s, params, gradient_bytes, step (steps the kept model has taken), text_digest.

    Raises:
        GroupError: ranks are missing, or hold different weights.
        InputError: a bad config.
    """
    settings = TrainConfig.from_json(config or {})
    if not 0 <= rank < world_size:
        raise InputError(f"rank {rank} is not in 0..{world_size - 1}")
    if timeout_s <= 0 or threads < 1:
        raise InputError("timeout_s must be above 0 and threads at least 1")
    torch.set_num_threads(threads)
    freeze_imports()
    batches = data.Batches(
        rank=rank,
        world_size=world_size,
        batch=settings.batch_per_rank,
        seq_len=settings.model.seq_len,
        seed=settings.seed,
    )
    learner = _learner(settings)
    started = time.perf_counter()
    joined = join(
        rank=rank,
        world_size=world_size,
        master_addr=master_addr,
        master_port=master_port,
        iface=iface,
        timeout_s=timeout_s,
    )
    try:
        with one_line_errors(joined, "setting up DDP", computes=True):
            _check_same_weights(joined, learner)
            timeline = BucketTimeline(world_size)
            # Weights are equal already, so nothing is broadcast: on a slow link that would cost more than a step.
            ddp = DistributedDataParallel(
                learner.model,
                bucket_cap_mb=settings.bucket_cap_mib,
                gradient_as_bucket_view=True,
                init_sync=False,
            )
            # A lambda, because DDP refuses a hook whose annotations are strings.
            ddp.register_comm_hook(None, lambda _state, bucket: timeline.all_reduce(bucket))
    except BaseException:
        leave()
        raise
    _PROCESS.job = _Job(joined, learner, ddp, timeline, batches)
    return {
        "rank": rank,
        "init_s": time.perf_counter() - started,
        "params": settings.model.params,
        "gradient_bytes": settings.model.gradient_bytes,
        "step": learner.step,
        "text_digest": data.text_digest(),
    }


def run(*, steps: int, warmup: int = 2, stream: bool = False) -> dict[str, Any]:
    """Train `warmup + steps` steps and return the times of the last `steps`.

    The parts data_s, forward_s, backward_s, exposed_comm_s and optimizer_s add up to step_s. backward_s is backward
    without its exposed communication. comm_s is the time with an all-reduce in flight, whether hidden or exposed.

    Args:
        steps: measured steps.
        warmup: steps before them; DDP lays out its buckets anew in the second step after a setup.
        stream: also emit each measured step as {"event": "step", ...} to the caller of this rank agent.

    Returns:
        rank, steps: [{step, step_s, data_s, forward_s, backward_s, exposed_comm_s, optimizer_s, comm_s, loss (nats a
        byte, of this rank's batch), tokens}], bucket_bytes: [bytes of each bucket in launch order], weights_digest
        (equal on all ranks), and ddp_logging: DDP's own last sampled figures {backward_s, backward_comm_s, overlap_s},
        None where it has none.

    Raises:
        GroupError: no setup, or a collective did not finish.
    """
    job = _current_job()
    if steps < 1 or warmup < 0:
        raise InputError("run needs at least 1 step, and no negative warmup")
    records = []
    with one_line_errors(job.joined, "an all-reduce of the gradients", computes=True), no_collector():
        for index in range(warmup + steps):
            record = _train_step(job)
            if index >= warmup:
                records.append(record)
                if stream:
                    emit({"event": "step", **record})
    return {
        "rank": job.joined.rank,
        "steps": records,
        "bucket_bytes": list(job.timeline.sizes_bytes),
        "weights_digest": _weights_digest(job.learner),
        "ddp_logging": ddp_logging(job.ddp),
    }


def measure_compute(*, steps: int, warmup: int = 1) -> dict[str, Any]:
    """Time the same steps without communication, on a copy of the model, with every rank computing at once.

    Ranks start each step together (a barrier outside the timed part), as the all-reduce makes them do in training.
    So step_s of `run` minus step_s from here is an independent estimate of what communication costs.

    Args:
        steps: measured steps.
        warmup: steps before them.

    Returns:
        rank, steps: [{step_s, data_s, forward_s, backward_s, optimizer_s}].

    Raises:
        GroupError: no setup, or a barrier did not finish.
    """
    job = _current_job()
    if steps < 1 or warmup < 0:
        raise InputError("measure_compute needs at least 1 step, and no negative warmup")
    model = copy.deepcopy(job.learner.model)
    optimizer = make_optimizer(model, job.learner.config)
    records = []
    with one_line_errors(job.joined, "the barrier before a step", computes=True), no_collector():
        for index in range(warmup + steps):
            dist.barrier()
            clock, _ = timed_step(model, optimizer, job.batches, index)
            records.append({"step_s": sum(clock.parts.values()), **clock.parts})
    return {"rank": job.joined.rank, "steps": records[warmup:]}


def teardown(*, keep_model: bool = True) -> dict[str, Any]:
    """Close the group and its connections; keep the model for the next setup unless told otherwise.

    Does nothing more than that when no group is up, and also works after a failed collective.
    """
    job, _PROCESS.job = _PROCESS.job, None
    if job is not None:
        # DDP refers to the group from its reducer; both must go before the store does.
        del job.ddp
        for parameter in job.learner.model.parameters():
            parameter.grad = None  # a view of a bucket of the reducer that is going away
    leave()
    if not keep_model:
        _PROCESS.learner = None
    gc.collect()
    return {"rank": job.joined.rank if job is not None else None}


def _learner(settings: TrainConfig) -> _Learner:
    kept = _PROCESS.learner
    if kept is not None and kept.config.with_changes(bucket_cap_mib=settings.bucket_cap_mib) == settings:
        return kept
    model = build_model(settings.model, settings.seed)
    _PROCESS.learner = _Learner(settings, model, make_optimizer(model, settings))
    return _PROCESS.learner


def _check_same_weights(joined: Joined, learner: _Learner) -> None:
    digest = _weights_digest(learner)
    if joined.rank == 0:
        joined.store.set("weights", digest)
    if joined.store.get("weights").decode() != digest:
        raise GroupError(
            f"rank {joined.rank} holds other weights than rank 0; give all ranks the same config, and drop kept models with "
            "teardown(keep_model=False)"
        )


def _weights_digest(learner: _Learner) -> str:
    digest = hashlib.sha256(str(learner.step).encode())
    for weight in learner.model.parameters():
        digest.update(weight.detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def _current_job() -> _Job:
    if _PROCESS.job is None:
        raise GroupError("no training group is up in this rank; call setup first")
    return _PROCESS.job


def _train_step(job: _Job) -> dict[str, Any]:
    job.timeline.begin_step()
    step = job.learner.step
    clock, loss = timed_step(job.ddp, job.learner.optimizer, job.batches, step)
    job.learner.step += 1
    comm_s, exposed_s = job.timeline.times()
    # The exposed part lies inside backward, whose call returns when the last bucket is back.
    clock.parts["backward_s"] -= exposed_s
    parts = {**clock.parts, "exposed_comm_s": exposed_s}
    tokens = job.learner.config.tokens_per_rank
    return {
        "step": step,
        "step_s": sum(parts.values()),
        **parts,
        "comm_s": comm_s,
        "loss": float(loss),
        "tokens": tokens,
    }
