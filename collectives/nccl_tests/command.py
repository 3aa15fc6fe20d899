"""The command that starts nccl-tests on hosts, by mpirun (Open MPI, Hydra), srun, ssh, or here.

Only variables of the network are passed on, by name: a record of the command has no value of any, and a secret in the
environment of the shell reaches no rank by our doing. Output lines are labelled with the rank where the launcher can.
"""

from __future__ import annotations

import enum
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectives.nccl_tests.jsonform import is_secret
from nettune.errors import InputError, UnavailableError
from nettune.launch.strays import MARK

_PASSED_ON = ("NCCL_", "RCCL_", "UCX_", "FI_", "OFI_", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", MARK)


class Kind(enum.StrEnum):
    """What starts the ranks."""

    OPENMPI = "mpirun"  # of Open MPI
    HYDRA = "mpiexec.hydra"  # of MPICH, MVAPICH, Intel MPI
    SRUN = "srun"
    SSH = "ssh"
    HERE = "none"


@dataclass(frozen=True)
class Launcher:
    """A launcher that was found.

    Attributes:
        major: version of Open MPI; 0 for others.
    """

    kind: Kind
    program: str = ""
    major: int = 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to run where.

    Attributes:
        hosts: in the order of ranks; empty for this machine.
        ranks_per_host: processes on each; with ssh and without a launcher GPUs of the one process.
        begin_bytes, end_bytes, factor: sizes.
        iterations, warmup: of each size; None for the binary's own.
        check: compare the data (-c 1).
        settings: variables for this run, `NCCL_ALGO` ..
        extra: further words for the binary.
        launcher_extra: further words for the launcher.
        hostfile: path of `host_lines` in a file, for srun, which sorts hosts without it.
    """

    op: str
    hosts: tuple[str, ...] = ()
    ranks_per_host: int = 1
    begin_bytes: int = 8
    end_bytes: int = 128 << 20
    factor: int = 2
    iterations: int | None = None
    warmup: int | None = None
    check: bool = True
    settings: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()
    launcher_extra: tuple[str, ...] = ()
    hostfile: str = ""

    @property
    def host_lines(self) -> str:
        """The host of each rank, a line each."""
        return "".join(f"{host}\n" * self.ranks_per_host for host in self.hosts)

    @property
    def ranks(self) -> int:
        """Processes of the whole job."""
        return max(1, len(self.hosts)) * self.ranks_per_host


def find_launcher(name: str | None, job: Job, environ: Mapping[str, str]) -> Launcher:
    """The launcher that is asked for, or the one that fits: srun inside a Slurm job, else mpirun.

    Raises:
        InputError: no such kind, or one that cannot start this job.
        UnavailableError: it is not installed.
    """
    wanted = name
    if wanted is None:
        inside = "SLURM_JOB_ID" in environ and shutil.which("srun", path=environ.get("PATH"))
        wanted = "srun" if inside else "none" if len(job.hosts) < 2 and job.ranks_per_host == 1 else "mpirun"
    if wanted in {Kind.SSH, Kind.HERE} and len(job.hosts) > (1 if wanted == Kind.SSH else 0):
        raise InputError(
            f"--launcher {wanted} starts one process, which cannot reach {len(job.hosts)} hosts; use mpirun or srun"
        )
    if wanted == Kind.SSH and not job.hosts:
        raise InputError("--launcher ssh needs --hosts")
    if wanted == Kind.HERE:
        return Launcher(Kind.HERE)
    names = {"mpirun": ("mpirun", "mpiexec", "mpiexec.hydra"), "hydra": ("mpiexec.hydra", "mpiexec")}
    program = next(
        (
            path
            for one in names.get(wanted, (wanted,))
            if (path := shutil.which(one, path=environ.get("PATH")))
        ),
        None,
    )
    if program is None:
        raise UnavailableError(
            f"{wanted} is not on PATH; install it, or choose another --launcher (mpirun, srun, ssh, none)"
        )
    if wanted in {"srun", "ssh"}:
        return Launcher(Kind(wanted), program)
    if wanted in names or "/" in wanted:
        return _mpi(program, environ)
    raise InputError(
        f"--launcher {wanted!r:.60} is not known; choose mpirun, hydra, srun, ssh, none, or the path of an mpirun"
    )


def _mpi(program: str, environ: Mapping[str, str]) -> Launcher:
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, errors="replace", timeout=20, check=False,
            env=dict(environ),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{program} --version does not answer: {error}") from error
    text = told.stdout + told.stderr
    if (found := re.search(r"Open MPI\)?\D{0,20}(\d+)\.\d+", text)) is not None:
        return Launcher(Kind.OPENMPI, program, int(found[1]))
    if re.search(r"HYDRA|Intel\(R\) MPI|MPICH|mvapich", text, re.IGNORECASE):
        return Launcher(Kind.HYDRA, program)
    first = next((line for line in text.splitlines() if line.strip()), "nothing")
    raise UnavailableError(
        f"{program} is no mpirun of Open MPI, MPICH or Intel MPI: its --version says {first[:80]!r}"
    )


def test_words(job: Job, binary: str, gpus: int) -> list[str]:
    """The binary and its own options."""
    words = [binary, "-b", str(job.begin_bytes), "-e", str(job.end_bytes), "-f", str(job.factor)]
    words += ["-g", str(gpus), "-c", "1" if job.check else "0"]
    for flag, value in (("-n", job.iterations), ("-w", job.warmup)):
        words += [] if value is None else [flag, str(value)]
    return [*words, *job.extra]


def command(
    job: Job, binary: str, launcher: Launcher, environ: Mapping[str, str], *, root: bool
) -> list[str]:
    """The argument list; `job.settings` are to be in the environment of its process.

    Args:
        job: what to run where.
        binary: of `find_binary`.
        launcher: of `find_launcher`.
        environ: whose variables of the network are passed on, by name.
        root: Open MPI asks for an option when root starts it.

    Raises:
        InputError: a host's name that is none.
    """
    for host in job.hosts:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,252}", host):
            raise InputError(f"--hosts: {host!r:.60} is no name of a host")
    names = sorted(
        {name for name in (*environ, *(name for name, _ in job.settings), MARK) if passed_on(name)}
    )
    one_gpu = test_words(job, binary, 1)
    counts = [f"{host}:{job.ranks_per_host}" for host in job.hosts or ("localhost",)]
    match launcher.kind:
        case Kind.OPENMPI:
            words = [launcher.program, *(["--allow-run-as-root"] if root else [])]
            words += ["--output", "tag"] if launcher.major >= 5 else ["--tag-output"]
            words += ["-np", str(job.ranks), "--host", ",".join(counts)]
            words += ["--map-by", f"ppr:{job.ranks_per_host}:node", "--bind-to", "none"]
            words += [word for name in names for word in ("-x", name)]
        case Kind.HYDRA:
            words = [launcher.program, "-prepend-rank", "-n", str(job.ranks), "-ppn", str(job.ranks_per_host)]
            words += ["-hosts", ",".join(job.hosts)] if job.hosts else []
            words += ["-genvlist", ",".join([*names, "PATH"])]
        case Kind.SRUN:
            # with that variable of an allocation srun refuses a map (seen with 22.05)
            words = ["env", "-u", "SLURM_NTASKS_PER_NODE"] if job.hostfile else []
            words += [launcher.program, "--label", "--kill-on-bad-exit=1", "--ntasks", str(job.ranks)]
            words += ["--nodes", str(len(job.hosts))] if job.hosts else []
            ordered = ["--distribution", "arbitrary"]
            words += ordered if job.hostfile else ["--ntasks-per-node", str(job.ranks_per_host)]
            words += ["--nodelist", ",".join(job.hosts)] if job.hosts and not job.hostfile else []
        case Kind.SSH:
            settings = [f"{name}={value}" for name, value in _with_values(names, job.settings, environ)]
            remote = shlex.join(["env", *settings, *test_words(job, binary, job.ranks_per_host)])
            return [launcher.program, "-o", "BatchMode=yes", *job.launcher_extra, job.hosts[0], remote]
        case Kind.HERE:
            return test_words(job, binary, job.ranks_per_host)
    return [*words, *job.launcher_extra, *one_gpu]


def passed_on(name: str) -> bool:
    """Whether a variable goes to the ranks: it is of the network, and its name is no secret's."""
    return name.startswith(_PASSED_ON) and not is_secret(name)


def _with_values(
    names: Sequence[str], settings: Sequence[tuple[str, str]], environ: Mapping[str, str]
) -> list[tuple[str, str]]:
    values = {**environ, **dict(settings)}
    # the other host has libraries and GPUs of its own
    return [
        (name, values[name]) for name in names if name in values and name.startswith(("NCCL_", "RCCL_", MARK))
    ]
