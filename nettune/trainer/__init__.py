"""The reference trainer: a small GPT under DDP whose step time, exposed communication and MFU are measured.

`config`, `flops`, `peak` and `mfu` need no torch at import; `model`, `data`, `train` and `standalone` do.
Functions of `train` run in a rank and are called there by name, `nettune.trainer.train:setup`.
"""

from __future__ import annotations

from nettune.trainer.config import DEMO_CONFIG, GPTConfig, TrainConfig
from nettune.trainer.flops import CONVENTIONS, DEFAULT_CONVENTION, Flops, count_flops
from nettune.trainer.mfu import JobStep, RunSummary, compare_runs, job_steps, mfu, summarise_inits
from nettune.trainer.peak import Peak, cluster_peak, device_peak

__all__ = [
    "CONVENTIONS",
    "DEFAULT_CONVENTION",
    "DEMO_CONFIG",
    "Flops",
    "GPTConfig",
    "JobStep",
    "Peak",
    "RunSummary",
    "TrainConfig",
    "cluster_peak",
    "compare_runs",
    "count_flops",
    "device_peak",
    "job_steps",
    "mfu",
    "summarise_inits",
]
