"""Real launchers across lab hosts put every rank where the written files say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nettune.lab import Lab, LabSpec
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.placement.mapping import Placement
from topology.writers import launcher_files

pytestmark = pytest.mark.lab

# Names of hosts neither in order nor equally often, ranks of one host apart from one another.
SCATTERED = ["h5", "h2", "h7", "h2", "h0", "h5", "h3"]
# Rank 0 on a host that every sort puts last; ranks of one host together, not equally many.
HOST_BY_HOST = ["h7", "h7", "h1", "h4", "h4", "h3"]

AGENT = """#!/bin/sh
# stands for ssh: options, HOST, and the words of a command for the shell there
while case "$1" in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
exec nsenter --net="/run/netns/$host" --uts="/run/uts/$host" sh -c "$*"
"""
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
import torch.distributed as dist
dist.init_process_group("gloo")
found = [None] * dist.get_world_size()
dist.all_gather_object(found, (dist.get_rank(), socket.gethostname(), int(os.environ["LOCAL_RANK"]), sys.argv[1]))
if dist.get_rank() == 0:
    print("ranks", *(f"{host}/{local}" for _, host, local, _ in sorted(found)), found[-1][3])
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def lab():
    """Eight hosts on four leaves."""
    with Lab.up(LabSpec(name="wr"), bound=True) as up:
        yield up


@pytest.fixture
def folder(lab, tmp_path):
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
        (tmp_path / "agent").write_text(AGENT, encoding="utf-8")
        (tmp_path / "agent").chmod(0o755)
        return tmp_path, refused

    return write


def run(lab, host, argv, *, path=(), timeout_s=60, **env):
    """Run a command on a host, other programs first on its PATH; its output, which must be that of a success."""
    words = [f"PATH={os.pathsep.join([*map(str, path), os.environ['PATH'], '/usr/sbin'])}"]
    words += [f"{key}={value}" for key, value in env.items()]
    done = lab.exec(host, ["env", *words, *map(str, argv)], timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def mpirun_folder():
    """Where Open MPI's mpirun is: on PATH, or where the wheels of the extra `mpi` are."""
    pytest.importorskip("mpi4py", reason="needs mpi4py: pip install 'nettune[mpi]'")
    import mpi4py

    beside = Path(mpi4py.__file__).parents[4] / "bin"
    found = shutil.which("mpirun", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("needs mpirun: pip install 'nettune[mpi]'")
    if "(Open MPI)" not in subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout:
        pytest.skip(f"{found} is not Open MPI's mpirun")
    return Path(found).parent


def test_open_mpi_puts_ranks_where_the_rankfile_says(lab, folder):
    """Ranks of an MPI program, as its own communicator numbers them, run on the hosts of the map."""
    bin_folder = mpirun_folder()
    here, _ = folder(SCATTERED)
    (here / "program.py").write_text(MPI_PROGRAM, encoding="utf-8")
    options = (
        f"--prtemca plm ssh --prtemca plm_ssh_agent {here}/agent --prtemca plm_ssh_no_tree_spawn 1"
        " --prtemca prte_if_include eth0 --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0"
    )

    out = run(
        lab, "h0", ["sh", here / "openmpi.sh", sys.executable, here / "program.py"],
        path=[bin_folder], MPIRUN_OPTIONS=options, TMPDIR="/run",
        OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1,
    )  # fmt: skip

    assert out.split() == SCATTERED


def test_torchrun_numbers_ranks_by_the_map(lab, folder):
    """Over the agent in ssh's place: global ranks follow the map though the hosts' names would sort otherwise."""
    pytest.importorskip("torch", reason="needs torch: pip install 'nettune[train]'")
    here, _ = folder(HOST_BY_HOST)
    (here / "program.py").write_text(TORCH_PROGRAM, encoding="utf-8")
    (here / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    (here / "torchrun").chmod(0o755)

    out = run(
        lab, "h0", ["sh", here / "torchrun-ssh.sh", here / "program.py", "it's one  word"],
        path=[here], SSH=here / "agent", GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS=1,
    )  # fmt: skip

    said = next(line for line in out.splitlines() if line.startswith("ranks"))
    assert said == "ranks h7/0 h7/1 h1/0 h4/0 h4/1 h3/0 it's one  word"
