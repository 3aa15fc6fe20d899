"""Which rank a process is, from what launchers leave in its environment."""

from __future__ import annotations

import pytest

from nettune.errors import InputError, UnavailableError
from nettune.launch.launched import Launched, launched, listening, meeting_point, parsed

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
HYDRA = {"PMI_RANK": "2", "PMI_SIZE": "4"}
SRUN = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "77"}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (TORCHRUN, Launched("torchrun", 3, 8)),
        (OPENMPI, Launched("mpirun", 1, 4)),
        (HYDRA, Launched("mpirun", 2, 4)),
        (SRUN, Launched("srun", 0, 2)),
        ({**SRUN, **OPENMPI}, Launched("mpirun", 1, 4)),
        ({**SRUN, "SLURM_STEP_ID": "batch"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, None),
        ({**TORCHRUN, "WORLD_SIZE": "1"}, None),
        ({"RANK": "3", "WORLD_SIZE": "8"}, None),
        ({}, None),
    ],
)
def test_the_launcher_is_told_by_its_variables(environ, found):
    """A batch script, a single process and left-over variables of other programs are none."""
    assert launched(environ) == found


def test_numbers_that_are_none_are_refused():
    """One line, with the names of the variables."""
    with pytest.raises(InputError, match="OMPI_COMM_WORLD_RANK or OMPI_COMM_WORLD_SIZE is no whole number"):
        launched({**OPENMPI, "OMPI_COMM_WORLD_RANK": "one"})


def test_tasks_of_a_step_know_where_rank_0_is():
    """The first node of the step, or of an arbitrary distribution, and a port from the job's numbers."""
    me = Launched("srun", 1, 2)
    step = {**SRUN, "SLURM_STEP_NODELIST": "n[1,3]"}
    assert meeting_point(me, 0, step) == "n1:20770"
    assert meeting_point(me, 0, {**step, "SLURM_ARBITRARY_NODELIST": "n9,n1"}) == "n9:20770"
    assert meeting_point(me, 0, {**step, "NETTUNE_MEET": "head:99"}) == "head:99"
    with pytest.raises(UnavailableError, match="SLURM_STEP_NODELIST is not set"):
        meeting_point(me, 0, SRUN)


def test_rank_0_listens_where_it_is_looked_for():
    """On the port that is told, and a taken one is said with what to do."""
    me = Launched("mpirun", 0, 2)
    with listening(me, {}) as free:
        port = free.getsockname()[1]
        with pytest.raises(InputError, match=f"rank 0 cannot listen on port {port}"):
            listening(me, {"NETTUNE_MEET": f"here:{port}"})


@pytest.mark.parametrize("where", ["host", "host:", ":80", "host:0", "host:70000", "host:http"])
def test_a_bad_meeting_point_is_refused(where):
    """The form is HOST:PORT."""
    with pytest.raises(InputError, match="is not HOST:PORT"):
        parsed(where)
