"""Files that make a launcher obey a placement; one module per launcher.

Adding one: a module here with `files(placement, fabric) -> dict[file name, content]`, a line in `WRITERS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

WRITERS = {
    "slurm": "topology.writers.slurm",
    "openmpi": "topology.writers.openmpi",
    "hydra": "topology.writers.hydra",
    "torchrun": "topology.writers.torchrun",
    "deepspeed": "topology.writers.deepspeed",
    "kubernetes": "topology.writers.kubernetes",
    "nccl": "topology.writers.nccl",
    "json": "topology.writers.plain",
}


def launcher_files(placement: Placement, fabric: Fabric) -> tuple[dict[str, str], dict[str, str]]:
    """Content of every file by its name, and the reason of every writer that cannot express this map."""
    written: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, module in WRITERS.items():
        try:
            written |= import_module(module).files(placement, fabric)
        except InputError as error:
            refused[name] = str(error)
    return written, refused
