"""Finding the binaries and launchers, and the commands that are built of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectives.nccl_tests.binary import find_binary
from collectives.nccl_tests.command import Job, Kind, Launcher, command, find_launcher
from nettune.errors import InputError, UnavailableError

ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_X_TOKEN": "hunter2",
    "AWS_SECRET_ACCESS_KEY": "hunter3",
    "HOME": "/root",
    "LD_LIBRARY_PATH": "/x",
}
TWO = Job(op="all_reduce", hosts=("g2", "g1"), ranks_per_host=8, begin_bytes=8, end_bytes=1 << 27, factor=2)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The function that puts programs with a body on PATH, alone there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def put(folder="bin", **bodies):
        path = tmp_path / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, body in bodies.items():
            (path / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            (path / name).chmod(0o755)
        return {"PATH": str(tmp_path / "bin")}

    return put


def test_binaries_are_found_where_people_put_them(programs, tmp_path):
    """Named, on PATH, in NCCL_TESTS_HOME, in the usual folders; with MPI the `_mpi` build comes first."""
    environ = programs(all_reduce_perf="", all_reduce_perf_mpi="", broadcast_perf_mpi="")
    here = tmp_path / "bin"

    assert find_binary("all_reduce", None, mpi=False, environ=environ) == str(here / "all_reduce_perf")
    assert find_binary("all_reduce", None, mpi=True, environ=environ) == str(here / "all_reduce_perf_mpi")
    assert find_binary("broadcast", None, mpi=False, environ=environ) == str(here / "broadcast_perf_mpi")
    programs("home/build", sendrecv_perf="")
    environ["NCCL_TESTS_HOME"] = str(tmp_path / "home")
    assert find_binary("sendrecv", None, mpi=True, environ=environ).endswith("home/build/sendrecv_perf")
    programs("nccl-tests/build", alltoall_perf="")
    assert find_binary("alltoall", None, mpi=True, environ=environ).endswith("nccl-tests/build/alltoall_perf")
    assert find_binary("all_reduce", str(here), mpi=True).endswith("all_reduce_perf_mpi")
    assert find_binary("all_reduce", str(here / "all_reduce_perf"), mpi=True).endswith("/all_reduce_perf")
    assert find_binary("all_reduce", "/only/there/all_reduce_perf", mpi=True) == "/only/there/all_reduce_perf"


def test_a_missing_binary_says_where_was_looked(programs, tmp_path):
    """One line with every place; a file that cannot run, an operation that is none."""
    environ = programs()
    with pytest.raises(UnavailableError, match=r"looked in PATH, .*/opt/nccl-tests/build.* --binary"):
        find_binary("all_reduce", None, mpi=True, environ=environ)
    with pytest.raises(UnavailableError, match="are not in"):
        find_binary("all_reduce", str(tmp_path), mpi=True)
    (tmp_path / "text").write_text("x", encoding="utf-8")
    with pytest.raises(UnavailableError, match="cannot be executed"):
        find_binary("all_reduce", str(tmp_path / "text"), mpi=True)
    with pytest.raises(UnavailableError, match="neither a file nor a program"):
        find_binary("all_reduce", "nowhere", mpi=True)
    with pytest.raises(InputError, match="choose one of all_reduce"):
        find_binary("allreduce", None, mpi=True)


@pytest.mark.parametrize(
    ("says", "kind", "major"),
    [
        ("mpirun (Open MPI) 4.1.4", Kind.OPENMPI, 4),
        ("mpirun (Open MPI) 5.0.10", Kind.OPENMPI, 5),
        ("HYDRA build details:\n    Version:  4.0.2", Kind.HYDRA, 0),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9", Kind.HYDRA, 0),
    ],
)
def test_an_mpirun_is_known_by_its_version(programs, says, kind, major):
    """Open MPI 4 and 5, and the family of Hydra."""
    environ = programs(mpirun=f"/bin/cat <<'EOF'\n{says}\nEOF")

    assert find_launcher("mpirun", TWO, environ) == Launcher(kind, environ["PATH"] + "/mpirun", major)
    assert find_launcher(environ["PATH"] + "/mpirun", TWO, environ).kind is kind


def test_launchers_that_fit(programs):
    """Srun inside a job, mpirun for several hosts, none for one process; what cannot start the job is refused."""
    environ = programs(mpirun="echo mpirun '(Open MPI)' 4.1.4", srun="", ssh="")
    one = Job(op="all_reduce")

    assert find_launcher(None, TWO, environ | {"SLURM_JOB_ID": "1"}).kind is Kind.SRUN
    assert find_launcher(None, TWO, environ).kind is Kind.OPENMPI
    assert find_launcher(None, one, environ).kind is Kind.HERE
    for name, job, says in (
        ("ssh", TWO, "cannot reach 2 hosts"),
        ("none", TWO, "cannot reach 2 hosts"),
        ("ssh", one, "needs --hosts"),
        ("sshd", one, "not on PATH"),
    ):
        with pytest.raises((InputError, UnavailableError), match=says):
            find_launcher(name, job, environ)
    for body in ("echo hello", "exit 1", "/bin/sleep 0"):
        with pytest.raises(UnavailableError, match="no mpirun of Open MPI"):
            find_launcher("mpirun", TWO, programs(mpirun=body))


def test_commands(programs):
    """Ranks, hosts in order, labels, and variables by name only."""
    build = "/b/all_reduce_perf"
    tail = f"{build} -b 8 -e 134217728 -f 2 -g 1 -c 1"
    names = "-x LD_LIBRARY_PATH -x NCCL_DEBUG -x NETTUNE_MARK"

    def made(kind, major=0, job=TWO, *, root=False):
        return " ".join(command(job, build, Launcher(kind, "L", major), ENV, root=root))

    assert (
        made(Kind.OPENMPI, 4)
        == f"L --tag-output -np 16 --host g2:8,g1:8 --map-by ppr:8:node --bind-to none {names} {tail}"
    )
    assert made(Kind.OPENMPI, 5, root=True).startswith(
        "L --allow-run-as-root --output tag -np 16 --host g2:8,g1:8"
    )
    assert (
        made(Kind.HYDRA)
        == f"L -prepend-rank -n 16 -ppn 8 -hosts g2,g1 -genvlist LD_LIBRARY_PATH,NCCL_DEBUG,NETTUNE_MARK,PATH {tail}"
    )
    assert (
        made(Kind.SRUN)
        == f"L --label --kill-on-bad-exit=1 --ntasks 16 --nodes 2 --ntasks-per-node 8 --nodelist g2,g1 {tail}"
    )
    ordered = replace(TWO, hostfile="/r/hosts")
    assert made(Kind.SRUN, job=ordered).startswith(
        "env -u SLURM_NTASKS_PER_NODE L --label --kill-on-bad-exit=1 --ntasks 16 --nodes 2 --distribution arbitrary /b"
    )
    assert ordered.host_lines == "g2\n" * 8 + "g1\n" * 8
    here = Job(op="all_reduce", ranks_per_host=4, iterations=5, warmup=2, check=False, extra=("-d", "half"))
    assert made(Kind.HERE, job=here) == f"{build} -b 8 -e 134217728 -f 2 -g 4 -c 0 -n 5 -w 2 -d half"
    assert "--host localhost:4" in made(Kind.OPENMPI, 5, job=here)
    ssh = Job(
        op="all_reduce",
        hosts=("g1",),
        ranks_per_host=8,
        settings=(("NCCL_ALGO", "a b;c"),),
        launcher_extra=("-p", "22"),
    )
    assert (
        made(Kind.SSH, job=ssh)
        == f"L -o BatchMode=yes -p 22 g1 env 'NCCL_ALGO=a b;c' NCCL_DEBUG=INFO {build} -b 8 -e 134217728 -f 2 -g 8 -c 1"
    )
    for kind in Kind:
        assert "hunter" not in made(kind, 5, job=here if kind is Kind.HERE else ssh)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "", "a;b", "a:8", "x" * 300])
def test_hosts_that_are_options_are_refused(host):
    """A name never becomes an option or a word of the shell."""
    with pytest.raises(InputError, match="no name of a host"):
        command(Job(op="all_reduce", hosts=(host,)), "b", Launcher(Kind.SSH, "ssh"), {}, root=False)
