"""Real launchers across lab hosts put every rank where the written files say."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.bundle import read
from nettune.qualify.drains import decide
from nettune.qualify.outputs import files
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.placement.mapping import Placement
from topology.writers import launcher_files

pytestmark = pytest.mark.lab

# Names of hosts neither in order nor equally often, ranks of one host apart from one another.
SCATTERED = ["h5", "h2", "h7", "h2", "h0", "h5", "h3"]
# Rank 0 on a host that every sort puts last; ranks of one host together, not equally many.
HOST_BY_HOST = ["h7", "h7", "h1"]

MPI_PROGRAM = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
found = world.gather((world.rank, socket.gethostname()))
if found:
    print(*(host for _, host in sorted(found)))
"""
TORCH_PROGRAM = """
import os, socket, sys
said = (os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"], socket.gethostname(), *sys.argv[1:])
# one write, or the lines of ranks that share a stream may run together
sys.stdout.write(f"rank {'/'.join(said)}\\n")
sys.stdout.flush()
"""


@pytest.fixture
def folder(lab, agent, tmp_path):
    """The function that writes every launcher's files for a map of the lab's hosts; returns their folder."""

    def write(hosts):
        builder = FabricBuilder()
        address = {end.node: end.address for link in lab.wiring.links for end in link.ends}
        for host in lab.hosts:
            builder.node(host, NodeKind.HOST)
            builder.port(host, "eth0", address=address[host])
        fabric = builder.build()
        files, refused = launcher_files(Placement.of_hosts(fabric, hosts), fabric)
        for name, content in files.items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path, refused

    return write


def run(lab, host, argv, *, path=(), timeout_s=60, **env):
    """Run a command on a host, other programs first on its PATH; its output, which must be that of a success."""
    words = [f"PATH={os.pathsep.join([*map(str, path), os.environ['PATH'], '/usr/sbin'])}"]
    words += [f"{key}={value}" for key, value in env.items()]
    done = lab.exec(host, ["env", *words, *map(str, argv)], timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_open_mpi_puts_ranks_where_the_rankfile_says(lab, folder, openmpi):
    """Ranks of an MPI program, as its own communicator numbers them, run on the hosts of the map."""
    here, _ = folder(SCATTERED)
    (here / "program.py").write_text(MPI_PROGRAM, encoding="utf-8")
    options = (
        f"--prtemca plm ssh --prtemca plm_ssh_agent {here}/agent --prtemca plm_ssh_no_tree_spawn 1"
        " --prtemca prte_if_include eth0 --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0"
    )

    out = run(
        lab, "h0", ["sh", here / "openmpi.sh", sys.executable, here / "program.py"],
        path=[openmpi], MPIRUN_OPTIONS=options, TMPDIR="/run",
        OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1,
    )  # fmt: skip

    assert out.split() == SCATTERED


def test_hydra_puts_ranks_where_the_host_file_says(lab, folder):
    """A host that comes again on a later line gets its later ranks."""
    mpiexec = shutil.which("mpiexec.hydra")
    if mpiexec is None:
        pytest.skip("needs mpiexec.hydra: Debian package mpich")
    here, _ = folder(SCATTERED)

    out = run(
        lab, "h0", ["sh", here / "hydra.sh", "sh", "-c", 'echo "$PMI_RANK $(hostname)"'],
        path=[Path(mpiexec).parent], MPIEXEC_OPTIONS=f"-launcher ssh -launcher-exec {here}/agent -iface eth0",
    )  # fmt: skip

    assert [host for _, host in sorted(line.split() for line in out.splitlines())] == SCATTERED


def test_torchrun_numbers_ranks_by_the_map(lab, folder):
    """Over the agent in ssh's place: global ranks follow the map though the hosts' names would sort otherwise."""
    pytest.importorskip("torch", reason="needs torch: pip install 'nettune[train]'")
    here, _ = folder(HOST_BY_HOST)
    (here / "program.py").write_text(TORCH_PROGRAM, encoding="utf-8")
    (here / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    (here / "torchrun").chmod(0o755)

    out = run(
        lab, "h0", ["sh", here / "torchrun-ssh.sh", here / "program.py", "it's one  word"],
        path=[here], SSH=here / "agent", OMP_NUM_THREADS=1,
    )  # fmt: skip

    said = sorted(line.split("/") for line in out.splitlines() if line.startswith("rank "))
    assert [one[3] for one in said] == HOST_BY_HOST
    assert said[0] == ["rank 0", "3", "0", "h7", "it's one  word"]
    assert [one[2] for one in said] == ["0", "1", "0"]


def test_slurm_puts_tasks_where_the_hostfile_says(lab, folder, slurm):
    """In an allocation of its own, and inside one of all hosts with fewer tasks a host, tasks run where the map says."""
    here, _ = folder(SCATTERED)
    program = ["sh", "-c", 'echo "$SLURM_PROCID $(hostname)"']

    outside = run(lab, "h0", ["sh", here / "slurm.sh", *program], SLURM_CONF=slurm, SLURM_NTASKS_PER_NODE=1)
    inside = run(
        lab, "h0", ["salloc", "--nodes=8", "--ntasks-per-node=1", "--exclusive", "sh", here / "slurm.sh", *program],
        SLURM_CONF=slurm,
    )  # fmt: skip

    for out in (outside, inside):
        assert [host for _, host in sorted(line.split() for line in out.splitlines())] == SCATTERED


def test_slurm_collects_captures_and_takes_the_drains(lab, folder, slurm, request):
    """One srun a node fills a bundle, a node that is down is named; real scontrol drains the hosts that are at fault."""
    here, _ = folder(SCATTERED)
    nettune = [sys.executable, "-m", "nettune", "qualify"]
    resume = ["scontrol", "update", "NodeName=h[2-3]", "State=RESUME"]  # other tests share this Slurm
    request.addfinalizer(lambda: run(lab, "h0", resume, SLURM_CONF=slurm))
    run(lab, "h0", ["scontrol", "update", "NodeName=h3", "State=DOWN", "Reason=test"], SLURM_CONF=slurm)
    words = [
        "collect",
        "--slurm",
        "--hosts",
        "h[2-5]",
        "--timeout",
        "20",
        "-o",
        here / "b.tar",
        "--output",
        "json",
    ]
    path = f"PATH={os.environ['PATH']}:/usr/sbin"
    done = lab.exec("h0", ["env", path, f"SLURM_CONF={slurm}", *map(str, [*nettune, *words])], timeout_s=60)
    told = json.loads(done.stdout)

    assert done.returncode == 2, done.stderr
    assert (told["captured"], list(told["failed"])) == (3, ["h3"])

    bundle = read(here / "b.tar")
    names = [(one.host, one.files["/proc/sys/kernel/hostname"].text.strip()) for one in bundle.captures]
    assert sorted(names) == [("h2", "h2"), ("h4", "h4"), ("h5", "h5")]

    fault = Finding(check="port-state", status=Status.FAIL, where=ElementId.nic("h2", "mlx5_0"),
                    what="is DOWN; 'quoted', $HOME, `id` = 5 \u20ac\n", fix="see the cable")  # fmt: skip
    drains = decide([fault], [f"h{n}" for n in range(8)], {})
    script = files(drains, [fault], ["h2"], 0.0)["drain.sh"]
    (here / "drain.sh").write_text(script, encoding="utf-8")
    run(lab, "h0", ["sh", here / "drain.sh"], SLURM_CONF=slurm)
    shown = run(lab, "h0", ["scontrol", "show", "node", "h2"], SLURM_CONF=slurm)
    assert "DRAIN" in shown
    assert "nettune port-state nic/mlx5_0: is DOWN; ?quoted?, ?HOME, ?id? ? 5" in shown


# Each rank imports torch: more of them show nothing more here. Rank 0 is again on the host that sorts last.
TWO_HOSTS = ["h7", "h1"]
BENCH = ["-m", "nettune", "bench", "-s", "builtin", "-s", "ring", "-b", "64K", "-e", "64K", "--inits", "2", "-n", "1",
         "--output", "json"]  # fmt: skip


def benched(out, hosts):
    """The one object on stdout, of a bench over ranks on these hosts."""
    told = json.loads(out[out.index("{") :])
    assert told["bench"]["ranks"] == len(hosts)
    assert [setting["name"] for setting in told["bench"]["settings"]] == ["builtin", "ring"]
    assert all(
        (case["wrong"], [len(init) for init in case["inits_us"]]) == (0, [1, 1])
        for setting in told["bench"]["settings"]
        for case in setting["cases"]
    )
    return told


@pytest.mark.parametrize("backend", ["torch", "mpi"])
def test_bench_runs_under_mpirun(lab, folder, openmpi, backend):
    """On the ranks that mpirun placed: over gloo, and over MPI itself; one report, exit code 0."""
    pytest.importorskip("torch", reason="needs torch: pip install 'nettune[train]'")
    here, _ = folder(TWO_HOSTS)
    options = (
        f"--prtemca plm ssh --prtemca plm_ssh_agent {here}/agent --prtemca plm_ssh_no_tree_spawn 1"
        " --prtemca prte_if_include eth0 --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0"
    )

    out = run(
        lab, "h0", ["sh", here / "openmpi.sh", sys.executable, *BENCH, "--backend", backend, "--runs", here / "runs"],
        path=[openmpi], MPIRUN_OPTIONS=options, TMPDIR="/run",
        OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, timeout_s=120,
    )  # fmt: skip

    assert benched(out, TWO_HOSTS)["launcher"] == "mpirun"


def test_bench_runs_under_torchrun(lab, folder):
    """On the ranks that torchrun started over the agent in ssh's place."""
    pytest.importorskip("torch", reason="needs torch: pip install 'nettune[train]'")
    here, _ = folder(TWO_HOSTS)
    (here / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    (here / "torchrun").chmod(0o755)

    out = run(
        lab, "h0", ["sh", here / "torchrun-ssh.sh", *BENCH, "--runs", here / "runs"],
        path=[here], SSH=here / "agent", OMP_NUM_THREADS=1, timeout_s=120,
    )  # fmt: skip

    assert benched(out, TWO_HOSTS)["launcher"] == "torchrun"


def test_bench_runs_under_srun(lab, folder, slurm):
    """On the tasks that srun placed; ranks find rank 0 by the job's own names and numbers."""
    pytest.importorskip("torch", reason="needs torch: pip install 'nettune[train]'")
    here, _ = folder(TWO_HOSTS)

    out = run(
        lab, "h0", ["sh", here / "slurm.sh", sys.executable, *BENCH, "--runs", here / "runs"],
        SLURM_CONF=slurm, timeout_s=120,
    )  # fmt: skip

    assert benched(out, TWO_HOSTS)["launcher"] == "srun"
