"""SLURM_HOSTFILE: one host per task and line; `srun` obeys its order with `--distribution=arbitrary`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`slurm.hostfile`; the number of lines must equal srun's -n (step_layout of slurmctld refuses otherwise)."""
    hosts = placement.hosts(fabric)
    head = f"# SLURM_HOSTFILE=slurm.hostfile srun --distribution=arbitrary --ntasks={len(hosts)} ...\n"
    return {"slurm.hostfile": head + "".join(f"{host}\n" for host in hosts)}
