"""A job's phases: which edges, how many bytes, in which order."""

from __future__ import annotations

import numpy as np
import pytest

from collectives.job import JobSpec
from collectives.traffic import AllReduceTraffic, JobTraffic, sent_bytes
from nettune.errors import InputError

MIB = 1 << 20


def edges(phase):
    columns = (phase.src.tolist(), phase.dst.tolist(), phase.edge_bytes.tolist())
    return {(src, dst): carried for src, dst, carried in zip(*columns, strict=True)}


def test_all_reduce_goes_down_the_ranks_with_gloo_and_up_with_nccl():
    """The ring of gloo sends from rank r to r - 1, that of NCCL to r + 1; 2(n-1)/n of the message on each edge."""
    (gloo,) = AllReduceTraffic(4, MIB).phases
    assert edges(gloo) == {(0, 3): 1.5 * MIB, (1, 0): 1.5 * MIB, (2, 1): 1.5 * MIB, (3, 2): 1.5 * MIB}
    (nccl,) = AllReduceTraffic(4, MIB, backend="nccl").phases
    assert edges(nccl) == {(0, 1): 1.5 * MIB, (1, 2): 1.5 * MIB, (2, 3): 1.5 * MIB, (3, 0): 1.5 * MIB}
    assert sent_bytes(AllReduceTraffic(8, MIB)) == pytest.approx(1.75 * MIB)


def test_phases_of_a_pipeline_job():
    """Stage transfers both ways, then gradients of all groups at once; kinds without bytes or peers are left out."""
    job = JobTraffic(JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=4 * MIB, pp_bytes=MIB, tp_bytes=MIB))
    stages, gradients = job.phases
    assert (stages.name, stages.after) == ("pp p2p", ())
    assert edges(stages) == {(0, 1): MIB, (1, 0): MIB, (2, 3): MIB, (3, 2): MIB}
    assert (gradients.name, gradients.after) == ("dp all-reduce", ("pp p2p",))
    assert edges(gradients) == {(0, 2): 4 * MIB, (2, 0): 4 * MIB, (1, 3): 4 * MIB, (3, 1): 4 * MIB}
    assert sent_bytes(job) == 5 * MIB


def test_work_is_the_same_step():
    """What the ranks are told to do names the same phases, groups and edges."""
    job = JobTraffic(JobSpec(tp=2, pp=2, dp=2, dp_bytes=MIB, pp_bytes=MIB, tp_bytes=MIB))
    assert [step["name"] for step in job.work] == [phase.name for phase in job.phases]
    by_name = {step["name"]: step for step in job.work}
    assert by_name["dp all-reduce"]["groups"] == job.job.groups("dp")
    assert {tuple(edge) for edge in by_name["pp p2p"]["edges"]} == set(edges(job.phases[1]))
    assert job.process_groups == job.job.groups("tp") + job.job.groups("dp")
    assert AllReduceTraffic(3, MIB).work[0]["groups"] == [[0, 1, 2]]


def test_big_groups_stay_sparse():
    """512 replicas of 64 ranks: edges grow with the ranks, not with their square."""
    job = JobTraffic(JobSpec(tp=8, pp=8, dp=512, dp_bytes=MIB))
    (phase,) = job.phases
    assert len(phase.src) == job.ranks
    assert np.allclose(phase.edge_bytes, 2 * 511 / 512 * MIB)


def test_nothing_to_send_is_no_phase():
    """One rank, or no bytes, gives no phase."""
    assert JobTraffic(JobSpec(dp=4)).phases == ()
    assert JobTraffic(JobSpec(dp_bytes=MIB)).phases == ()
    assert edges(AllReduceTraffic(1, MIB).phases[0]) == {}


@pytest.mark.parametrize(("ranks", "size", "backend"), [(0, 1, "gloo"), (2, 0, "gloo"), (2, 1, "smoke")])
def test_nonsense_is_refused(ranks, size, backend):
    """No rank, no bytes and unknown backends are refused when the traffic is made."""
    with pytest.raises(InputError, match="all-reduce"):
        AllReduceTraffic(ranks, size, backend)
