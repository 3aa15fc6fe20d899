r"""DeepSpeed: its host file, whose order of hosts is the order of ranks.

Grammar: deepspeed/launcher/runner.py, `^(\S+)\s+slots=(\d+)` a line, each host once, `#` begins a line of comment. Rank i
of a host gets accelerator i.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.writers.rankmap import RankMap

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`deepspeed.hostfile`.

    Raises:
        InputError: ranks of one host that do not follow one another, accelerators other than 0, 1, 2, ... of a host,
            a name that pdsh would take apart.
    """
    ranks = RankMap.of(placement, fabric)
    ranks.check_names("DeepSpeed")
    counts = ranks.host_by_host("DeepSpeed")
    if not ranks.natural_devices:
        raise InputError(
            "DeepSpeed gives rank i of a host accelerator i, and this map says otherwise; use torchrun"
        )
    head = "# Ranks follow this order of hosts: deepspeed --hostfile deepspeed.hostfile train.py ARGS\n"
    return {"deepspeed.hostfile": head + "".join(f"{host} slots={count}\n" for host, count in counts.items())}
