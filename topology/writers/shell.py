"""Parts that the written POSIX shell scripts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.writers.rankmap import RankMap

HERE = 'here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd) || exit 2\n'
"""Sets `here` to the folder of the script: the files that it needs lie beside it."""

DEVICES_SCRIPT = "devices.sh"


def script(*comments: str) -> str:
    """The head of a script: what it is for and how it is used."""
    return "#!/bin/sh\n" + "".join(f"# {line}\n" for line in comments)


def show_devices(ranks: RankMap) -> tuple[dict[str, str], str]:
    """(`devices.sh` by its name, the line that puts it before the program); both empty where ranks need none."""
    if ranks.natural_devices:
        return {}, ""
    by_devices: dict[tuple[int, ...], list[int]] = {}
    for host, own in ranks.devices.items():
        by_devices.setdefault(own, []).extend(ranks.ranks[host])
    cases = "".join(
        f"  {'|'.join(map(str, sorted(of)))}) CUDA_VISIBLE_DEVICES={','.join(map(str, own))} ;;\n"
        for own, of in by_devices.items()
    )
    text = (
        script(
            "Each rank's last step before the program: sh devices.sh PROGRAM ARGS. It shows a rank the accelerators of",
            "its host in the map's order, so that local rank i, which takes device i, gets the one that the map says.",
        )
        # mpirun inside a Slurm job: SLURM_PROCID is then the daemon's, so it is asked last
        + 'case "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-}}}" in\n'
        + cases
        + '  *) echo "error: devices.sh: no rank of the map in the environment" >&2; exit 2 ;;\n'
        + 'esac\nexport CUDA_VISIBLE_DEVICES\nexec "$@"\n'
    )
    return {DEVICES_SCRIPT: text}, f'set -- sh "$here/{DEVICES_SCRIPT}" "$@"\n'
