"""NCCL's side of the torch backend, as far as it goes without a GPU: refusals, devices, what it cannot do."""

from __future__ import annotations

import pytest

from collectives.bench import Method
from collectives.communicator import connected
from collectives.measuring import Case, Place, measure
from collectives.schedules import Op
from collectives.setting import Setting
from nettune.errors import InputError
from nettune.launch import AgentError

torch = pytest.importorskip("torch")
from collectives.backends import devices  # noqa: E402 - needs torch

HOSTS = ["h0", "h1", "h2", "h3"]


@pytest.fixture
def gpus(monkeypatch):
    """The function that gives this machine a number of GPUs."""

    def have(count):
        monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: True)
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)

    return have


def test_gloo_needs_no_gpu(gpus):
    """Its data are on the CPU, whatever there is."""
    gpus(0)
    devices.require("gloo")
    assert devices.device_of("gloo", 3) == torch.device("cpu")


def test_nccl_without_a_gpu_is_one_line(gpus):
    """It says what is missing and what to use."""
    gpus(0)
    with pytest.raises(InputError, match="finds no GPU here, and every rank needs one; use gloo"):
        devices.device_of("nccl", 0)


@pytest.mark.parametrize(
    ("environ", "number"),
    [
        ({}, 1),
        ({"LOCAL_RANK": "2"}, 2),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, 0),
        ({"SLURM_LOCALID": "3"}, 3),
        ({"MPI_LOCALRANKID": "x"}, 1),
    ],
)
def test_the_launcher_tells_the_device(gpus, environ, number):
    """By the number on the host; without one by the rank, around where there are fewer devices."""
    gpus(4)
    assert devices.device_of("nccl", 5, environ) == torch.device("cuda", number)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_ranks_refuse_nccl_by_name(agents):
    """Selected as gloo is; the rank that has no GPU says so in one line, and the ranks are as good as before."""
    refused = connected(agents, HOSTS, backend="nccl", iface="lo", timeout_s=5)
    with pytest.raises(AgentError, match=r"rank \d on h\d raised .*backend nccl") as caught, refused:
        pass
    assert "\n" not in str(caught.value)
    with connected(agents, HOSTS, iface="lo", timeout_s=10) as ranks:
        assert ranks.connections()


@pytest.mark.parametrize("backend", ["nccl", "mpi"])
@pytest.mark.parametrize(("text", "cap_gbps"), [("rings+steer", None), ("ring", 0.1)])
def test_connections_that_are_not_told_cannot_be_chosen_or_paced(agents, backend, text, cap_gbps):
    """Said before anything starts."""
    case = Case(Op.ALL_REDUCE, (1024,), cap_gbps=cap_gbps)
    with pytest.raises(InputError, match=f"{backend} does not hand out its connections"):
        measure(agents, [Setting.parse(text)], {"": Place(HOSTS)}, case, Method(backend=backend))
