"""Hydra (MPICH, Intel MPI, MVAPICH): a host file in the order of ranks.

Grammar: HYDU_parse_hostfile and HYDU_add_to_node_list (mpich src/pm/hydra): `host:n` a line, `#` begins a comment;
ranks fill the lines in turn and start again at the first when they run out. A host may come again on a later line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.writers.rankmap import RankMap
from topology.writers.shell import HERE, script, show_devices

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`hydra.hostfile` and `hydra.sh`.

    Raises:
        InputError: a host's name that the file cannot hold.
    """
    ranks = RankMap.of(placement, fabric)
    ranks.check_names("Hydra")
    devices, wrap = show_devices(ranks)
    return {
        "hydra.hostfile": (
            f"# Ranks in turn: mpiexec.hydra -f hydra.hostfile -n {ranks.size} PROGRAM, or sh hydra.sh PROGRAM\n"
            + "".join(f"{host}:{count}\n" for host, count in ranks.runs)
        ),
        "hydra.sh": script(
            "Ranks on hosts by the map: sh hydra.sh PROGRAM ARGS; more words for mpiexec go into MPIEXEC_OPTIONS.",
            "The map is hydra.hostfile beside this script.",
        )
        + HERE
        + "mpiexec=$(command -v mpiexec.hydra || command -v mpiexec) || {\n"
        + '  echo "error: no mpiexec.hydra on PATH; it comes with MPICH, MVAPICH or Intel MPI" >&2\n'
        + "  exit 2\n"
        + "}\n"
        + wrap
        + "# shellcheck disable=SC2086 # the options are words\n"
        + f'exec "$mpiexec" -f "$here/hydra.hostfile" -n {ranks.size} ${{MPIEXEC_OPTIONS:-}} "$@"\n',
    } | devices
