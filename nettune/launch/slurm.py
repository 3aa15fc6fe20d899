"""The launcher of hosts that Slurm manages: a step of one task on each, by srun."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nettune.errors import InputError
from nettune.launch.remote import RemoteLauncher

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# `--overlap`: beside what the job runs there already. A signal or the end of srun ends the task. Where there is no job yet
# srun asks for one; a node that is not free at once is told so rather than waited for.
OPTIONS = ("--nodes=1", "--ntasks=1", "--overlap", "--quiet", "--immediate=20", "--input=0", "--mpi=none")


class SlurmLauncher(RemoteLauncher):
    """Runs commands by srun; partition, account and the like are srun's own variables (SLURM_PARTITION, ...).

    Args:
        hosts: names of Slurm's nodes.

    Raises:
        InputError: a name that srun would take for something else.
    """

    name = "slurm"

    def __init__(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            if not _NAME.fullmatch(host):
                raise InputError(f"{host[:60]!r} is no name of a Slurm node")
        super().__init__(tuple(dict.fromkeys(hosts)))

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        """The srun command line."""
        self._check(host)
        return ["srun", *OPTIONS, f"--nodelist={host}", *command]
