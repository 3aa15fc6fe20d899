"""`topology.conf` for Slurm's topology/block (23.11 or newer). Keeps: which block each host is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.exports.slurm import hostlist, slurm_blocks

if TYPE_CHECKING:
    from topology.fabric import Fabric


def export(fabric: Fabric) -> dict[str, str]:
    """`topology.conf` with BlockName lines and BlockSizes.

    Raises:
        InputError: what `slurm_blocks` refuses.
    """
    found = slurm_blocks(fabric)
    lines = [f"# {note}" for note in found.notes]
    lines.append("# slurm.conf: TopologyPlugin=topology/block")
    lines += [f"BlockName={name} Nodes={hostlist(hosts)}" for name, hosts in found.blocks]
    lines.append(f"BlockSizes={','.join(map(str, found.sizes))}")
    return {"topology.conf": "\n".join(lines) + "\n"}
