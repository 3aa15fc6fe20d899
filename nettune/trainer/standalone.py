"""The same job under torchrun, or any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    torchrun --nproc-per-node 2 -m nettune.trainer.standalone

Prints one JSON line on rank 0.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from torch import distributed as dist

from nettune.errors import InputError, NettuneError
from nettune.trainer import train
from nettune.trainer.config import TrainConfig
from nettune.trainer.flops import DEFAULT_CONVENTION, count_flops
from nettune.trainer.mfu import summarise_inits
from nettune.trainer.peak import cluster_peak, measure_peak


def main(
    config: Mapping[str, Any] | None = None,
    *,
    steps: int = 5,
    warmup: int = 2,
    convention: str = DEFAULT_CONVENTION,
    timeout_s: float = 60.0,
) -> dict[str, Any] | None:
    """Set up, measure the peak, train, tear down.

    Args:
        config: JSON form of a TrainConfig.
        steps: measured steps.
        warmup: steps before them.
        convention: how FLOPs are counted.
        timeout_s: for joining and for every collective.

    Returns:
        On rank 0 the summary of `RunSummary.to_json`; None on the other ranks.

    Raises:
        InputError: a variable of the environment is missing or no number, or the config is bad.
        GroupError: ranks are missing, or a collective did not finish.
    """
    settings = TrainConfig.from_json(config or {})
    rank, world_size = _env_int("RANK"), _env_int("WORLD_SIZE")
    flops = count_flops(settings.model, settings.tokens_per_rank * world_size, convention)
    train.setup(
        rank=rank,
        world_size=world_size,
        master_addr=_env("MASTER_ADDR"),
        master_port=_env_int("MASTER_PORT"),
        config=settings.to_json(),
        timeout_s=timeout_s,
    )
    try:
        peaks = _gather(measure_peak(config=settings.to_json()), world_size)
        results = _gather(train.run(steps=steps, warmup=warmup), world_size)
        # A rank that closes its connections while another still reads from them would break the gather there.
        dist.barrier()
    finally:
        train.teardown(keep_model=False)
    if rank != 0:
        return None
    return summarise_inits([results], flops, cluster_peak(peaks)).to_json()


def _gather(mine: dict[str, Any], world_size: int) -> list[dict[str, Any]]:
    everyone: list[Any] = [None] * world_size
    dist.all_gather_object(everyone, mine)
    return everyone


def _env(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise InputError(
            f"{name} is not set; start this with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT"
        )
    return value


def _env_int(name: str) -> int:
    value = _env(name)
    if not value.isdigit():
        raise InputError(f"{name} must be a whole number, not {value!r}")
    return int(value)


if __name__ == "__main__":
    try:
        summary = main()
    except NettuneError as error:
        sys.exit(f"error: {error}")
    if summary is not None:
        sys.stdout.write(json.dumps(summary) + "\n")
