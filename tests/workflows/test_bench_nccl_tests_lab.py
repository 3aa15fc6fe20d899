"""`nettune bench --backend nccl-tests` across lab hosts: real mpirun, Hydra and srun start the emulated binary on each."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

EMULATOR = Path(__file__).parent.parent / "collectives" / "nccl_tests" / "emulated_nccl_tests.py"
OPTIONS = {
    "mpirun": "--prtemca plm ssh --prtemca plm_ssh_agent {agent} --prtemca plm_ssh_no_tree_spawn 1 --prtemca prte_if_include eth0",
    "srun": "--overcommit",
    "hydra": "-launcher ssh -launcher-exec {agent} -iface eth0",
}


@pytest.mark.parametrize("launcher", ["mpirun", "hydra", "srun"])
def test_ranks_run_on_the_hosts_in_order(lab, agent, tmp_path, request, launcher):
    """Six ranks on three hosts in the order asked for, NCCL's variables on all, and the verdict on what they print."""
    path = os.environ["PATH"]
    if launcher == "mpirun":
        path = f"{request.getfixturevalue('openmpi')}:{path}"
    slurm = request.getfixturevalue("slurm") if launcher == "srun" else ""
    program = shutil.which({"hydra": "mpiexec.hydra"}.get(launcher, launcher), path=path)
    if program is None:
        pytest.skip(f"needs {launcher}: Debian package mpich or slurm-wlm")
    binary = tmp_path / "all_reduce_perf"
    (tmp_path / "meet").mkdir()
    binary.write_text(
        f"#!/bin/sh\nexport EMULATE_DIR='{tmp_path / 'meet'}'\nexec '{sys.executable}' '{EMULATOR}' all_reduce_perf \"$@\"\n",
        encoding="utf-8",
    )
    binary.chmod(0o755)
    hosts = [lab.hosts[2], lab.hosts[0], lab.hosts[1]]
    words = [sys.executable, "-m", "nettune", "bench", "--backend", "nccl-tests", "--binary", str(binary), "--launcher", "srun" if slurm else program,
             "--launcher-args", OPTIONS[launcher].format(agent=agent), "--hosts", ",".join(hosts), "--ranks-per-host", "2",
             "-b", "1M", "-e", "4M", "--timeout", "40s", "--runs", str(tmp_path / "runs")]  # fmt: skip

    done = lab.exec(
        lab.hosts[0], ["env", f"PATH={path}", "TMPDIR=/run", f"SLURM_CONF={slurm}", *words], timeout_s=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 ranks on 3 hosts" in done.stdout
    assert (
        "nccl-tests-network 1" in done.stdout
    )  # NCCL's log came from rank 0's host, so its variables went there
    (text,) = (path.read_text(encoding="utf-8") for path in (tmp_path / "runs").glob("*/output-0.txt"))
    placed = [line.split(" on ")[1].split()[0] for line in text.splitlines() if "#  Rank" in line]
    assert placed == [host for host in hosts for _ in range(2)]
