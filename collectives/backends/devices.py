"""Which device a rank computes and communicates on: the CPU for gloo, a GPU of its own for NCCL."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
from torch import distributed as dist

from nettune.errors import InputError

NCCL = "nccl"
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID")
"""Of torchrun, Open MPI, Slurm, Hydra: the number of a rank on its host."""


def require(backend: str) -> None:
    """Refuse a backend that this host cannot have.

    Raises:
        InputError: NCCL, and PyTorch has none or finds no GPU.
    """
    if backend != NCCL:
        return
    if not dist.is_nccl_available():
        raise InputError(f"backend nccl: PyTorch {torch.__version__} here is built without it; use gloo")
    if not torch.cuda.device_count():
        raise InputError("backend nccl: PyTorch finds no GPU here, and every rank needs one; use gloo")


def device_of(backend: str, rank: int, environ: Mapping[str, str] = os.environ) -> torch.device:
    """The device of a rank: by the number on its host that its launcher tells, else by its rank.

    Raises:
        InputError: as `require`.
    """
    require(backend)
    if backend != NCCL:
        return torch.device("cpu")
    local = next((environ[name] for name in _LOCAL_RANKS if environ.get(name, "").isdigit()), str(rank))
    return torch.device("cuda", int(local) % torch.cuda.device_count())


def settle(device: torch.device) -> None:
    """Return when everything that was started on the device is over; on the CPU it is."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
