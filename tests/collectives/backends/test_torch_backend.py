"""Work functions of the torch backend in real gloo ranks on this machine."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from collectives.communicator import connected
from collectives.job import JobSpec
from collectives.traffic import RING_DIRECTION, AllReduceTraffic, JobTraffic
from nettune.errors import InputError
from nettune.launch import AgentError

pytestmark = pytest.mark.slow

BACKEND = "collectives.backends.torch_backend:"
JOINING = "collectives.backends.joining:"
HOSTS = ["h0", "h1", "h2", "h3"]
MIB = 1 << 20


def joined(agents, seats=HOSTS, **options):
    return connected(agents, seats, **{"iface": "lo", "timeout_s": 10, **options})


def sent_by_edge(ranks, before, group):
    """(src, dst) -> payload bytes sent since `before`, on connections of one group."""
    return {
        (one.src, one.dst): one.sent_bytes - before.get((one.src, one.dst), 0)
        for one in ranks.connections()
        if one.group == group
    }


@pytest.mark.parametrize("size_bytes", [64 << 10, 4 * MIB])
def test_gloo_is_one_ring_downwards(agents, size_bytes):
    """Rank r sends 2(n-1)/n of the message to r - 1 and next to nothing to anybody else, as the traffic model says."""
    everybody = (0, 1, 2, 3)
    repeats = 4
    with joined(agents) as ranks:
        ranks.step(AllReduceTraffic(4, size_bytes).work, repeats=1)
        before = sent_by_edge(ranks, {}, everybody)
        ranks.step(AllReduceTraffic(4, size_bytes).work, repeats=repeats)
        sent = sent_by_edge(ranks, before, everybody)
    (phase,) = AllReduceTraffic(4, size_bytes).phases
    assert len(sent) == 12
    for src, dst, carried in zip(
        phase.src.tolist(), phase.dst.tolist(), phase.edge_bytes.tolist(), strict=True
    ):
        assert dst == (src + RING_DIRECTION["gloo"]) % 4
        # What is above the model is headers of segments and barriers: a few hundred bytes each.
        assert repeats * carried <= sent.pop((src, dst)) <= repeats * (carried + 4096)
    assert max(sent.values()) < 10_000


def test_order_of_hosts_needs_no_new_process(agents):
    """Another order gives the same processes other ranks, with new connections."""
    pids = agents.call("os:getpid")
    ports = []
    for seats in (HOSTS, HOSTS[::-1], ["h2", "h0", "h3", "h1"]):
        with joined(agents, seats) as ranks:
            assert ranks.ranks == 4
            ports.append({one.sport for one in ranks.connections()})
            times = ranks.step(AllReduceTraffic(4, MIB).work, repeats=2, warmup=1)
            assert len(times.job_s) == 2
            assert all(0 < time_s <= max(times.job_s) for own in times.total_s for time_s in own)
    assert ports[0] != ports[1] != ports[2]
    assert agents.call("os:getpid") == pids
    assert all(
        len(agents.call("os:listdir", {"path": "/proc/self/fd"}, ranks=[rank])[0]) < 16 for rank in range(4)
    )


def test_step_of_a_pipeline_job(agents):
    """Stage transfers use connections of all ranks, gradients those of their group; the results are checked."""
    traffic = JobTraffic(JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=MIB, pp_bytes=MIB // 2))
    with joined(agents, groups=traffic.process_groups) as ranks:
        times = ranks.step(traffic.work, repeats=3, warmup=1)
        connections = ranks.connections()
    assert set(times.phases_s) == {"pp p2p", "dp all-reduce"}
    assert all(len(own) == 3 for of_rank in times.phases_s.values() for own in of_rank)
    groups = {one.group for one in connections}
    assert groups == {(0, 1, 2, 3), (0, 2), (1, 3)}
    sent = {(one.group, one.src, one.dst): one.sent_bytes for one in connections}
    assert sent[(0, 2), 0, 2] >= 4 * MIB
    assert sent[(0, 1, 2, 3), 0, 1] >= 4 * MIB // 2
    assert sent[(0, 1, 2, 3), 0, 2] < 100_000
    # Each direction of every connection stands once, mirrored.
    ends = {(one.sport, one.dport): one for one in connections}
    assert len(ends) == len(connections)
    assert all(ends[one.dport, one.sport].src == one.dst for one in connections)


def phase(size_bytes, op="all_reduce", members=(0, 1, 2, 3), **more):
    return {"name": "x", "op": op, "size_bytes": size_bytes, "groups": [list(members)], **more}


def test_all_reduce_by_a_subgroup(agents):
    """Ranks that are in no group of a phase wait for the others; times come back for the timed repeats."""
    with joined(agents, groups=[[1, 3]]) as ranks:
        times = ranks.step([phase(MIB, members=[1, 3])], repeats=2, warmup=1)
        assert [len(own) for own in times.total_s] == [2] * 4
        assert times.wrong == 0


def test_wrong_sums_are_counted(agents):
    """When one rank adds other numbers than it should, the ranks say how many of their values are wrong."""
    with joined(agents) as ranks:
        # Rank 0 contributes a message of its own (zeros): no rank's sums can be right, but where it would add 0.
        agents.call("site:addsitedir", {"sitedir": str(Path(__file__).parent)}, ranks=[0])
        agents.call("collectives_spoil:spoil", {}, ranks=[0])
        wrong = ranks.step([phase(MIB)], repeats=1).wrong
        agents.call("collectives_spoil:mend", {}, ranks=[0])
        items = MIB // 4
        assert wrong == 4 * (items - -(-items // 251))
        assert ranks.step([phase(MIB)], repeats=1).wrong == 0


ALL_OPS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"]


@pytest.mark.parametrize("dtype", ["float", "double", "half", "bfloat16", "int32", "int64", "uint8"])
def test_every_operation_of_the_library(agents, dtype):
    """Torch's own collectives give right values for every type; so does a schedule."""
    with joined(agents) as ranks:
        for op in ALL_OPS:
            assert ranks.step([phase(64 << 10, op, dtype=dtype)], repeats=1).wrong == 0, op
        ring = {"schedule": {"name": "ring"}, "dtype": dtype}
        assert ranks.step([phase(64 << 10, **ring)], repeats=1).wrong == 0


def test_connections_of_a_pair_are_told_apart(agents):
    """Each channel of a schedule uses the connection that routes name, or that of its number."""
    schedule = {"schedule": {"name": "ring", "options": {"channels": 2}}}
    with joined(agents, connections=3) as ranks:
        before = {(one.src, one.dst, one.copy): one.sent_bytes for one in ranks.connections()}
        assert len(before) == 3 * 12
        ranks.step([phase(MIB, **schedule)], repeats=1)
        chosen = [[rank, (rank + 1) % 4, channel, 2] for rank in range(4) for channel in range(2)]
        ranks.step([phase(2 * MIB, **schedule, routes=chosen)], repeats=1)
        sent = {
            (one.src, one.dst, one.copy): one.sent_bytes - before[one.src, one.dst, one.copy]
            for one in ranks.connections()
        }
    carried = {copy: [sent[rank, (rank + 1) % 4, copy] for rank in range(4)] for copy in range(3)}
    for copy, expected in ((0, 0.75 * MIB), (1, 0.75 * MIB), (2, 3 * MIB)):
        assert all(expected <= one <= expected + 8192 for one in carried[copy])


def test_a_cap_is_kept(agents):
    """Paced connections send no faster: 1 MiB at 8 MiB a second takes at least a tenth of a second less burst."""
    with joined(agents) as ranks:
        ranks.cap_rate(8 * MIB)
        times = ranks.step([phase(2 * MIB, schedule={"name": "ring"})], repeats=2, warmup=1)
    assert min(times.job_s) > 0.25


@pytest.mark.parametrize(
    ("function", "kwargs", "message"),
    [
        ("step_traffic", {"phases": [phase(6)]}, "no multiple of 4"),
        ("step_traffic", {"phases": [phase(0)]}, "no multiple of 4"),
        ("step_traffic", {"phases": [phase(8, "all_gather")]}, "no multiple of 4 blocks"),
        ("step_traffic", {"phases": [phase(8, dtype="float8")]}, "'float8' is not known"),
        ("step_traffic", {"phases": [{**phase(8), "groups": [[0, 1], [2, 3]]}]}, "no group of ranks"),
        ("step_traffic", {"phases": [phase(8, schedule={"name": "bush"})]}, "no schedule 'bush'"),
        ("step_traffic", {"phases": [{"name": "x", "op": "gossip", "size_bytes": 4}]}, "'gossip' is not"),
        (
            "init_group",
            {"rank": 0, "world_size": 4, "master_addr": "127.0.0.1", "master_port": 1, "iface": "lo"},
            "up already",
        ),
    ],
)
def test_misuse_is_one_line(agents, function, kwargs, message):
    """Bad sizes, groups and operations are refused by name, and the ranks stay usable."""
    with joined(agents) as ranks:
        with pytest.raises(AgentError, match=message) as caught:
            agents.call(BACKEND + function, kwargs)
        assert "\n" not in str(caught.value)
        ranks.step(AllReduceTraffic(4, 64).work, repeats=1)


def test_no_group_is_said(agents):
    """Operations before joining say what to call first."""
    with pytest.raises(AgentError, match="call init_group first"):
        agents.call(BACKEND + "connections", ranks=[2])


@pytest.mark.parametrize(
    ("iface", "groups", "message"), [("nope0", [], "'nope0' has no IPv4"), ("lo", [[2, 1]], "ascending")]
)
def test_bad_interface_or_group(agents, iface, groups, message):
    """What cannot work is refused before anything connects; joining works afterwards."""
    with pytest.raises(AgentError, match=message), joined(agents, iface=iface, groups=groups):
        pass
    with joined(agents) as ranks:
        assert ranks.init_s > 0


def test_more_ranks_than_agents(agents):
    """A host takes as many ranks as it has agents."""
    with pytest.raises(InputError, match="rank 1 sits on 'h0'"), joined(agents, ["h0", "h0"]):
        pass


def test_rank_that_never_comes_is_named(agents):
    """Joining ends in its time-out with one line that names the missing rank; the next one works."""
    master = agents.call(JOINING + "serve_store", {"world_size": 4, "iface": "lo"}, ranks=[0])[0]

    def kwargs(rank):
        return {"rank": rank, "world_size": 4, "iface": "lo", "timeout_s": 1, **master}

    with pytest.raises(AgentError, match=r"rank 2 did not join within 1 s") as caught:
        agents.call(BACKEND + "init_group", kwargs, ranks=[0, 1, 3])
    assert "\n" not in str(caught.value)
    with joined(agents) as ranks:
        ranks.step(AllReduceTraffic(4, 64).work, repeats=1)


def test_no_rank_zero_is_said(agents):
    """A rank that finds no store says where it looked."""
    where = {"master_addr": "127.0.0.1", "master_port": 9, "iface": "lo", "timeout_s": 1}
    with pytest.raises(AgentError, match=r"found no rank 0 at 127.0.0.1:9 within 1 s"):
        agents.call(BACKEND + "init_group", {"rank": 1, "world_size": 2, **where}, ranks=[1])
    with pytest.raises(AgentError, match="has not served the store"):
        agents.call(BACKEND + "init_group", {"rank": 0, "world_size": 2, **where}, ranks=[0])


def step_and_signal(agents, number, timeout_s):
    """Send a signal to the agent on h2 in the middle of a long step; the error's line."""
    victim = agents.call("os:getpid", ranks=[2])[0]
    later = threading.Timer(0.7, os.kill, (victim, number))
    later.start()
    with pytest.raises(AgentError) as caught, joined(agents, HOSTS[::-1], timeout_s=timeout_s) as ranks:
        ranks.step(AllReduceTraffic(4, 4 * MIB).work, repeats=100_000)
    later.join()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rank_that_dies_is_named(mortal_agents):
    """A killed rank ends the step at once with its host's name."""
    assert "h2 was killed" in step_and_signal(mortal_agents, signal.SIGKILL, 20)


def test_rank_that_hangs_is_named(mortal_agents):
    """A stopped rank (rank 1 of this order) is named with its host, not those that waited for it."""
    assert step_and_signal(mortal_agents, signal.SIGSTOP, 3).startswith("rank 1 on h2 hangs")
