"""What a job is made of: parallel sizes, who is in a group with whom, bytes of each kind; `job.toml`.

`spec` has the job, `layout` its groups, `model` the bytes that a model's shape gives, `reader` the file.
"""

from __future__ import annotations

from collectives.job.layout import EMBEDDING, FRAMEWORKS, GROUPS, KINDS, Layout
from collectives.job.model import LEFT_OUT, ModelShape, Volume
from collectives.job.reader import load_job, make_job
from collectives.job.spec import BACKENDS, JobSpec

__all__ = [
    "BACKENDS",
    "EMBEDDING",
    "FRAMEWORKS",
    "GROUPS",
    "KINDS",
    "LEFT_OUT",
    "JobSpec",
    "Layout",
    "ModelShape",
    "Volume",
    "load_job",
    "make_job",
]
