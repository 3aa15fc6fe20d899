"""`topology.yaml` of Slurm 25.05 or newer: the tree as default, and blocks where there are accelerator domains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from topology.exports.slurm import hostlist, slurm_blocks, slurm_tree

if TYPE_CHECKING:
    from topology.fabric import Fabric


def export(fabric: Fabric) -> dict[str, str]:
    """`topology.yaml`; Slurm ignores topology.conf where it is there. Every text is quoted: `0e1` is a host too.

    Raises:
        InputError: what `slurm_tree` refuses.
    """
    tree = slurm_tree(fabric)
    lines = [f"# {note}" for note in tree.notes]
    lines += ["---", '- topology: "fabric"', "  cluster_default: true", "  tree:", "    switches:"]
    for switch in tree.switches:
        key, names = ("nodes", switch.nodes) if switch.nodes else ("children", switch.switches)
        lines += [
            f"      - switch: {json.dumps(switch.name)}",
            f"        {key}: {json.dumps(hostlist(names))}",
        ]
    if any(fabric.nodes.nvl_domain >= 0):
        found = slurm_blocks(fabric)
        lines += [f"# {note}" for note in found.notes[1:]]
        lines += [
            '- topology: "accelerator-domains"',
            "  cluster_default: false",
            "  block:",
            "    block_sizes:",
        ]
        lines += [f"      - {size}" for size in found.sizes]
        lines.append("    blocks:")
        for name, hosts in found.blocks:
            lines += [f"      - block: {json.dumps(name)}", f"        nodes: {json.dumps(hostlist(hosts))}"]
    return {"topology.yaml": "\n".join(lines) + "\n"}
