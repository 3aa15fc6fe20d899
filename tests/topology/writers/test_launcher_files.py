"""Launcher files of a placement."""

from __future__ import annotations

import json
import subprocess

import pytest

from topology.placement.mapping import Placement
from topology.writers import WRITERS, launcher_files


@pytest.fixture
def written(clos):
    """Files of four ranks on three hosts' worth of order."""
    fabric = clos()
    placement = Placement.of_hosts(fabric, ["node5", "node1", "node8", "node2"])
    files, refused = launcher_files(placement, fabric)
    assert not refused
    return files


def test_slurm_lists_one_host_a_rank_in_order(written):
    """Lines that are no comment are the hosts by rank."""
    lines = [line for line in written["slurm.hostfile"].splitlines() if not line.startswith("#")]

    assert lines == ["node5", "node1", "node8", "node2"]


def test_open_mpi_numbers_ranks_and_slots(written):
    """The rankfile names each rank's host, the hostfile as many slots as are used."""
    assert written["openmpi.rankfile"].splitlines()[0] == "rank 0=node5 slot=0"
    assert written["openmpi.hostfile"].splitlines() == [
        "node5 slots=1",
        "node1 slots=1",
        "node8 slots=1",
        "node2 slots=1",
    ]


@pytest.mark.parametrize(("host", "rank"), [("node5", 0), ("node2", 3)])
def test_torchrun_script_starts_the_right_node_rank(written, tmp_path, host, rank):
    """Run on a host, the script execs torchrun with that host's node rank and the address of rank 0."""
    script = tmp_path / "torchrun.sh"
    script.write_text(written["torchrun.sh"])
    for name, body in (("hostname", f"echo {host}"), ("torchrun", 'echo "$@"')):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)

    done = subprocess.run(
        ["sh", str(script), "train.py", "--x"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == (
        f"--nnodes 4 --nproc-per-node 1 --node-rank {rank} --master-addr 10.0.2.1 --master-port 29500 train.py --x".split()
    )


def test_torchrun_refuses_what_it_cannot_express(clos):
    """Ranks of a host that do not follow one another are refused with the reason; other launchers still get files."""
    fabric = clos()
    files, refused = launcher_files(Placement.of_hosts(fabric, ["node1", "node2", "node1", "node2"]), fabric)

    assert set(refused) == {"torchrun"}
    assert "host by host" in refused["torchrun"]
    assert files["openmpi.rankfile"].splitlines()[2] == "rank 2=node1 slot=1"


def test_json_is_the_placement(written):
    """placement.json has the schema of a placement."""
    assert json.loads(written["placement.json"])["schema"] == "nettune.placement/1"
    assert set(WRITERS) >= {"slurm", "openmpi", "torchrun", "json"}
