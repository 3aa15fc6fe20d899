"""Open MPI: a rankfile and a hostfile with the slots that it needs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`openmpi.rankfile` and `openmpi.hostfile`.

    Open MPI 5 takes `--map-by rankfile:file=openmpi.rankfile`, version 4 takes `--rankfile openmpi.rankfile`;
    `--map-by seq:file=` crashes 5.0.11.
    """
    hosts = placement.hosts(fabric)
    slot: Counter[str] = Counter()
    ranks = []
    for rank, host in enumerate(hosts):
        ranks.append(f"rank {rank}={host} slot={slot[host]}\n")
        slot[host] += 1
    return {
        "openmpi.rankfile": "".join(ranks),
        "openmpi.hostfile": "".join(f"{host} slots={count}\n" for host, count in slot.items()),
    }
