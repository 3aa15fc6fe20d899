"""Open MPI: a rankfile, a hostfile with the slots that it needs, and the mpirun line of versions 4 and 5 as a script.

Grammar: docs/launching-apps and the lexers of hostfile and rankfile (orte/prrte util/hostfile, rmaps/rank_file).
Domains are cut off names, so two hosts may not differ in theirs alone. Of 5.0.11: `--map-by seq:file=` crashes; with
`--bind-to none` any "pe" in the path of a rankfile is taken for the directive PE=, hence /dev/fd/3. Version 4 puts the
host of mpirun first whatever the order of a hostfile, so only a rankfile will do; it binds to `slot` even so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.writers.rankmap import PLAIN_NAME, RankMap
from topology.writers.shell import HERE, script, show_devices

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

# Words of the two lexers; localhost is whichever host reads the file.
_WORDS = (
    "rank",
    "slot",
    "slots",
    "slot_list",
    "count",
    "cpu",
    "cpus",
    "core",
    "cores",
    "username",
    "localhost",
)
_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`openmpi.rankfile`, `openmpi.hostfile` and `openmpi.sh`.

    Raises:
        InputError: a host's name that Open MPI's files cannot hold, or two that differ in their domain alone.
    """
    ranks = RankMap.of(placement, fabric)
    ranks.check_names("Open MPI", PLAIN_NAME, _WORDS)
    short: dict[str, str] = {}
    for host in ranks.ranks:
        other = short.setdefault(host if _ADDRESS.fullmatch(host) else host.split(".")[0], host)
        if other != host:
            raise InputError(
                f"Open MPI cuts domains off names, so {other} and {host} would be one host; use slurm or hydra"
            )
    devices, wrap = show_devices(ranks)
    common = f"mpirun -np {ranks.size} --hostfile openmpi.hostfile --bind-to none"
    return {
        "openmpi.rankfile": (
            "# The host of each rank; slots only number the ranks of a host. Open MPI 5 and 4:\n"
            f"#   {common} --map-by rankfile:file=/dev/fd/3 PROGRAM 3<openmpi.rankfile\n"
            f"#   {common} --rankfile openmpi.rankfile PROGRAM\n"
            + "".join(
                f"rank {rank}={host} slot={local}\n"
                for rank, (host, local) in enumerate(zip(ranks.hosts, ranks.local_ranks, strict=True))
            )
        ),
        "openmpi.hostfile": "# The slots that openmpi.rankfile needs; sh openmpi.sh PROGRAM uses both.\n"
        + "".join(f"{host} slots={len(own)}\n" for host, own in ranks.ranks.items()),
        "openmpi.sh": script(
            "Ranks on hosts by the map: sh openmpi.sh PROGRAM ARGS; more words for mpirun go into MPIRUN_OPTIONS.",
            "The map is openmpi.rankfile and openmpi.hostfile beside this script. Version 5 then binds no rank to cores,",
            "version 4 the i-th rank of a host to core i.",
        )
        + HERE
        + wrap
        + "# shellcheck disable=SC2086 # the options are words\n"
        + 'case "$(mpirun --version)" in\n'
        + '  *"(Open MPI) "[1-4].*) set -- --rankfile "$here/openmpi.rankfile" ${MPIRUN_OPTIONS:-} "$@" ;;\n'
        + '  *"(Open MPI) "*) set -- --map-by rankfile:file=/dev/fd/3 ${MPIRUN_OPTIONS:-} "$@" ;;\n'
        + '  *) echo "error: mpirun is not Open MPI\'s; use hydra.sh" >&2; exit 2 ;;\n'
        + "esac\n"
        + f'exec mpirun -np {ranks.size} --hostfile "$here/openmpi.hostfile" --bind-to none "$@" \\\n'
        + '  3<"$here/openmpi.rankfile"\n',
    } | devices
