"""`topology.conf` for Slurm's topology/tree. Keeps: which leaf group each host is under, and what joins the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.exports.slurm import hostlist, slurm_tree

if TYPE_CHECKING:
    from topology.fabric import Fabric


def export(fabric: Fabric) -> dict[str, str]:
    """`topology.conf` with SwitchName lines.

    Raises:
        InputError: what `slurm_tree` refuses.
    """
    tree = slurm_tree(fabric)
    lines = [f"# {note}" for note in tree.notes]
    lines.append("# slurm.conf: TopologyPlugin=topology/tree")
    for switch in tree.switches:
        key, names = ("Nodes", switch.nodes) if switch.nodes else ("Switches", switch.switches)
        lines.append(f"SwitchName={switch.name} {key}={hostlist(names)}")
    return {"topology.conf": "\n".join(lines) + "\n"}
