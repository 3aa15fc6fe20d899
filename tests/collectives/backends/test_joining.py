"""Where ranks meet: who serves the store, whose keys count, and which failures become one line."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from torch._C._distributed_c10d import TCPStore  # noqa: E402 - torch may be missing

from collectives.backends import joining  # noqa: E402 - needs torch
from nettune.errors import InputError  # noqa: E402 - after the line that needs torch
from nettune.launch import AgentError  # noqa: E402 - after the line that needs torch

BACKEND = "collectives.backends.torch_backend:"
JOINING = "collectives.backends.joining:"
GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer\n frame #0"


@pytest.fixture
def agent_store(monkeypatch):
    """A store as torchrun's agent serves it; `meet` finds it at its address."""
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")  # taken back after the test
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def meet(store, rank, timeout_s=0.5):
    return joining.meet(
        rank=rank,
        world_size=2,
        master_addr="127.0.0.1",
        master_port=store.port,
        timeout_s=timeout_s,
        deadline=time.monotonic() + timeout_s,
    )


def test_rank_zero_joins_the_store_of_the_agent(agent_store):
    """Under torchrun rank 0 serves nothing: it leaves its mark at the agent's store, where the others find it."""
    with pytest.raises(joining.GroupError, match=r"rank 0 of 2: rank 1 did not join within 0\.5 s"):
        meet(agent_store, 0)
    meet(agent_store, 1).set("key", "value")


def test_a_restart_does_not_count_ranks_of_the_life_before(agent_store, monkeypatch):
    """The agent's store outlives a restart of the ranks: marks of the earlier ones are not taken for new ranks."""
    with pytest.raises(joining.GroupError, match="rank 1 did not join"):
        meet(agent_store, 0)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with pytest.raises(joining.GroupError, match="rank 1 of 2: rank 0 did not join"):
        meet(agent_store, 1)


def test_leaving_closes_a_store_that_nobody_joined_by(agents):
    """A store of an initialisation that did not come about is gone afterwards, also its port."""
    served = {"world_size": 2, "iface": "lo"}
    master = agents.call(JOINING + "serve_store", served, ranks=[0])[0]
    rank_1 = {"rank": 1, **served, **master, "timeout_s": 0.5}
    with pytest.raises(AgentError, match="rank 0 did not join"):
        agents.call(BACKEND + "init_group", rank_1, ranks=[1])
    agents.call(BACKEND + "destroy_group", ranks=[0])
    with pytest.raises(AgentError, match=r"found no rank 0 at 127\.0\.0\.1"):
        agents.call(BACKEND + "init_group", rank_1, ranks=[1])


def test_a_store_of_another_initialisation_is_not_taken(agents):
    """Rank 0 joins by the store that it was told of, not by whatever its process serves."""
    master = agents.call(JOINING + "serve_store", {"world_size": 1, "iface": "lo"}, ranks=[0])[0]
    other = {**master, "master_port": master["master_port"] - 1}
    with pytest.raises(AgentError, match="has not served the store"):
        agents.call(BACKEND + "init_group", {"rank": 0, "world_size": 1, "iface": "lo", **other}, ranks=[0])


def test_ranks_do_not_wait_for_a_name_server(agents):
    """A process that serves or joins has the resolver's short time-outs, unless it was started with others."""
    agents.call(JOINING + "serve_store", {"world_size": 1, "iface": "lo"}, ranks=[3])
    assert agents.call("os:getenv", {"key": "RES_OPTIONS"}, ranks=[3]) == ["timeout:1 attempts:1"]
    agents.call(BACKEND + "destroy_group", ranks=[3])


@pytest.mark.parametrize("computes", [False, True])
def test_a_failure_of_the_network_is_one_line(computes):
    """What gloo throws is one line that says who, what and why, without file names and stacks."""
    with (
        pytest.raises(joining.GroupError) as caught,
        joining.one_line_errors("rank 1 of 2", "a step", computes=computes),
    ):
        raise RuntimeError(GLOO)
    line = str(caught.value)
    assert line.startswith("rank 1 of 2: a step did not finish (Connection closed by peer); ")
    assert "\n" not in line


def test_a_defect_in_a_block_that_computes_keeps_its_traceback():
    """A wrong shape is no failure of the network, and no other error is touched either."""
    with (
        pytest.raises(RuntimeError, match=r"^shapes differ$"),
        joining.one_line_errors("me", "x", computes=True),
    ):
        raise RuntimeError("shapes differ")
    with pytest.raises(InputError, match=r"^wrong$"), joining.one_line_errors("me", "x"):
        raise InputError("wrong")
    with pytest.raises(joining.GroupError, match="shapes differ"), joining.one_line_errors("me", "x"):
        raise RuntimeError("shapes differ")
