"""Which rank this process is where a launcher has started one process for each: mpirun, torchrun, srun, Hydra.

| launcher | rank, number of ranks                         | where rank 0 can be met                                   |
|----------|-----------------------------------------------|-----------------------------------------------------------|
| torchrun | RANK, WORLD_SIZE                              | the agent's store at MASTER_ADDR:MASTER_PORT names a port |
| Open MPI | OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE    | rank 0 broadcasts it by MPI (mpi4py)                      |
| Hydra    | PMI_RANK, PMI_SIZE                            | the same                                                  |
| srun     | SLURM_PROCID, SLURM_NTASKS, with SLURM_STEP_ID | the step's first node, a port from the job's numbers      |

NETTUNE_MEET=HOST:PORT says where rank 0 listens, for all of them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

from nettune.errors import InputError, UnavailableError
from nettune.hosts import expand_hosts

MEET = "NETTUNE_MEET"
_SIOCGIFADDR = 0x8915
_FIRST_PORT, _PORTS = 20000, 10000


@dataclass(frozen=True)
class Launched:
    """This process's place among those that the launcher started.

    Attributes:
        launcher: `torchrun`, `mpirun` or `srun`.
        rank, ranks: its number, and how many there are.
    """

    launcher: str
    rank: int
    ranks: int


def launched(environ: Mapping[str, str] = os.environ) -> Launched | None:
    """From the environment; None where no launcher, or one of a single process, started this process.

    Raises:
        InputError: the variables hold no numbers.
    """
    step = environ.get("SLURM_STEP_ID", "").isdigit()  # in a batch script, too, SLURM_PROCID is 0
    for launcher, rank, ranks, sure in (
        ("torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID" in environ),
        ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", True),
        ("srun", "SLURM_PROCID", "SLURM_NTASKS", step),
        ("mpirun", "PMI_RANK", "PMI_SIZE", True),
    ):
        if sure and rank in environ and ranks in environ:
            try:
                found = Launched(launcher, int(environ[rank]), int(environ[ranks]))
            except ValueError as error:
                raise InputError(f"{launcher}: {rank} or {ranks} is no whole number ({error})") from error
            return found if found.ranks > 1 else None
    return None


def listening(me: Launched, environ: Mapping[str, str] = os.environ) -> socket.socket:
    """Rank 0's socket, on the port that `meeting_point` will name.

    Raises:
        InputError: NETTUNE_MEET has another form, or its port is taken.
        UnavailableError: as `meeting_point`.
    """
    known = _known(me, environ)
    port = parsed(known)[1] if known else 0
    try:
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise InputError(
            f"rank 0 cannot listen on port {port}: {error.strerror}; set {MEET}=HOST:PORT"
        ) from error


def meeting_point(me: Launched, port: int, environ: Mapping[str, str] = os.environ) -> str:
    """`HOST:PORT` of rank 0, the same in every rank; `port` is what rank 0 listens on, and not looked at elsewhere.

    Raises:
        InputError: NETTUNE_MEET has another form.
        UnavailableError: nothing here lets ranks find each other.
    """
    known = _known(me, environ)
    if known:
        return known
    own = f"{_own_address(environ)}:{port}" if me.rank == 0 else ""
    return _over_store(me, own, environ) if me.launcher == "torchrun" else _over_mpi(own)


def _known(me: Launched, environ: Mapping[str, str]) -> str:
    return environ.get(MEET) or (_of_slurm(environ) if me.launcher == "srun" else "")


def parsed(where: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`.

    Raises:
        InputError: another form.
    """
    host, _, port = where.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"{MEET}={where!r} is not HOST:PORT")
    return host, int(port)


def _own_address(environ: Mapping[str, str]) -> str:
    """Address of this host that others can reach: that of gloo's interface where one is set, else of its name."""
    own = addresses()
    iface = environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if iface in own:
        return own[iface]
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = ""
    # Names of single machines often stand for the loopback, where no other host can come.
    return named if named in own.values() and not named.startswith("127.") else _first(own)


def _first(own: Mapping[str, str]) -> str:
    return next((address for address in own.values() if not address.startswith("127.")), "127.0.0.1")


def addresses() -> dict[str, str]:
    """IPv4 address of each interface of this host that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = ioctl(probe, _SIOCGIFADDR, struct.pack("16s24x", name.encode()))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def _of_slurm(environ: Mapping[str, str]) -> str:
    nodes = environ.get("SLURM_ARBITRARY_NODELIST") or environ.get("SLURM_STEP_NODELIST", "")
    if environ.get("SLURM_DISTRIBUTION") == "arbitrary" and "SLURM_HOSTFILE" in environ:
        with contextlib.suppress(OSError):
            lines = Path(environ["SLURM_HOSTFILE"]).read_text(encoding="utf-8").splitlines()
            nodes = next((line.strip() for line in lines if line.strip() and line[0] != "#"), nodes)
    if not nodes:
        raise UnavailableError(f"srun: SLURM_STEP_NODELIST is not set; set {MEET}=HOST:PORT")
    numbers = f"{environ.get('SLURM_JOB_ID', '0')}{environ.get('SLURM_STEP_ID', '0')}"
    return f"{expand_hosts(nodes)[0]}:{_FIRST_PORT + int(numbers) % _PORTS}"


def _over_store(me: Launched, own: str, environ: Mapping[str, str]) -> str:
    from datetime import timedelta

    from torch._C._distributed_c10d import TCPStore

    address, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    store = TCPStore(address, port, me.ranks, is_master=False, timeout=timedelta(seconds=60))
    key = f"nettune/meet/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if me.rank == 0:
        store.set(key, own)
    return str(store.get(key).decode())


def _over_mpi(own: str) -> str:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise UnavailableError(
            f"under mpirun ranks find each other by mpi4py: pip install 'nettune[mpi]', or set {MEET}=HOST:PORT"
        ) from error
    return str(MPI.COMM_WORLD.bcast(own))
