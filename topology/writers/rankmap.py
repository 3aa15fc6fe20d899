"""The map as launchers see it: hosts by rank, runs of ranks on one host, the accelerators of each host's ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Container

    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Names that no file format and no shell takes for something else."""


@dataclass(frozen=True)
class RankMap:
    """Host name and accelerator of each of R ranks.

    Attributes:
        hosts: (R,) host of each rank.
        gpus: (R,) index of its accelerator on that host.
    """

    hosts: tuple[str, ...]
    gpus: tuple[int, ...]

    @classmethod
    def of(cls, placement: Placement, fabric: Fabric) -> RankMap:
        """The names of a placement.

        Raises:
            InputError: the placement has no ranks.
        """
        if not placement.ranks:
            raise InputError("the map has no ranks, so there is nothing to launch")
        return cls(tuple(placement.hosts(fabric)), tuple(map(int, placement.gpu)))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.hosts)

    @cached_property
    def ranks(self) -> dict[str, list[int]]:
        """Ranks of each host in rising order; hosts in the order of their first rank."""
        found: dict[str, list[int]] = {}
        for rank, host in enumerate(self.hosts):
            found.setdefault(host, []).append(rank)
        return found

    @cached_property
    def local_ranks(self) -> list[int]:
        """(R,) number of each rank among the ranks of its host."""
        return [local for _, local in sorted((r, i) for of in self.ranks.values() for i, r in enumerate(of))]

    @cached_property
    def runs(self) -> list[tuple[str, int]]:
        """(host, how many ranks follow one another on it) from rank 0 on."""
        return [(host, len(list(run))) for host, run in groupby(self.hosts)]

    @cached_property
    def devices(self) -> dict[str, tuple[int, ...]]:
        """Accelerators of each host by local rank."""
        return {host: tuple(self.gpus[rank] for rank in ranks) for host, ranks in self.ranks.items()}

    @cached_property
    def natural_devices(self) -> bool:
        """Local rank i uses accelerator i everywhere, which is what programs do when nobody tells them otherwise."""
        return all(own == tuple(range(len(own))) for own in self.devices.values())

    def check_names(
        self, launcher: str, pattern: re.Pattern[str] = PLAIN_NAME, words: Container[str] = ()
    ) -> None:
        """Refuse names that this launcher's files cannot hold.

        Raises:
            InputError: a host's name does not match the pattern, or is a word of the format.
        """
        for host in self.ranks:
            if not pattern.fullmatch(host) or host in words:
                raise InputError(f"{launcher} cannot name host {host!r} in its files")

    def host_by_host(self, launcher: str) -> dict[str, int]:
        """Number of ranks of each host, where its ranks follow one another.

        Raises:
            InputError: the ranks of a host do not.
        """
        for host, ranks in self.ranks.items():
            if ranks[-1] - ranks[0] + 1 != len(ranks):
                shown = ", ".join(map(str, ranks[:4])) + (", ..." if len(ranks) > 4 else "")
                raise InputError(
                    f"{launcher} numbers ranks host by host, and {host} has ranks {shown}; use slurm or openmpi"
                )
        return {host: len(ranks) for host, ranks in self.ranks.items()}
