"""Slurm: one host per task and line, which `srun` obeys with the arbitrary distribution, and the srun line as a script.

Grammar: slurm_read_hostfile (src/api/step_launch.c and src/common): a line is a host's name that begins with a letter
or digit, `#` begins a comment; the number of lines must equal srun's -n (_task_layout_hostfile refuses otherwise).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.writers.rankmap import RankMap
from topology.writers.shell import HERE, script, show_devices

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

# 64 characters and 18 digits in a row are what Slurm's hostlists hold; DEFAULT and ALL are words of slurm.conf.
_NAME = re.compile(r"(?!(?:DEFAULT|ALL)$)(?!.*[0-9]{19})[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`slurm.hostfile` and `slurm.sh`.

    Raises:
        InputError: a host's name that Slurm cannot hold.
    """
    ranks = RankMap.of(placement, fabric)
    ranks.check_names("Slurm", _NAME)
    line = f"srun --distribution=arbitrary --nodes={len(ranks.ranks)} --ntasks={ranks.size}"
    devices, wrap = show_devices(ranks)
    head = f"# Line i is the host of rank i: SLURM_HOSTFILE=slurm.hostfile {line} PROGRAM, or sh slurm.sh PROGRAM\n"
    return {
        "slurm.hostfile": head + "".join(f"{host}\n" for host in ranks.hosts),
        "slurm.sh": script(
            "Ranks on hosts by the map: sh slurm.sh PROGRAM ARGS, inside an allocation that has these hosts or outside",
            "of any; more words for srun go into SRUN_OPTIONS. The map is slurm.hostfile beside this script.",
        )
        + HERE
        + 'export SLURM_HOSTFILE="$here/slurm.hostfile"\n'
        # with it srun refuses a map that has more ranks on a host (seen with 22.05)
        + "unset SLURM_NTASKS_PER_NODE\n"
        + wrap
        + "# shellcheck disable=SC2086 # the options are words\n"
        + f'exec {line} ${{SRUN_OPTIONS:-}} "$@"\n',
    } | devices
