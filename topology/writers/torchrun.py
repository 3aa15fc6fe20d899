"""torchrun: the static launch line of each host.

Never the c10d rendezvous: it sorts the hosts by name as strings and so undoes any order (pytorch#191190).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

MASTER_PORT = 29500


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`torchrun.sh`, to be run on every host with the training script as its arguments.

    Raises:
        InputError: the ranks of one host do not follow one another, which torchrun cannot express.
    """
    hosts = placement.hosts(fabric)
    order = list(dict.fromkeys(hosts))
    per_host = len(hosts) // len(order)
    if hosts != [host for host in order for _ in range(per_host)]:
        raise InputError("torchrun needs equally many ranks on every host, numbered host by host")
    cases = "".join(f"  {shlex.quote(host)}) node_rank={rank} ;;\n" for rank, host in enumerate(order))
    master = fabric.ports.address[int(placement.nic[0])] or order[0]
    return {
        "torchrun.sh": (
            "#!/bin/sh\n"
            "# Run on every host: sh torchrun.sh train.py ARGS. Ranks follow the map, not the hosts' names.\n"
            'case "$(hostname)" in\n'
            f"{cases}"
            '  *) echo "error: $(hostname) is not in the map" >&2; exit 2 ;;\n'
            "esac\n"
            f"exec torchrun --nnodes {len(order)} --nproc-per-node {per_host} --node-rank $node_rank \\\n"
            f'  --master-addr {shlex.quote(master)} --master-port {MASTER_PORT} "$@"\n'
        )
    }
