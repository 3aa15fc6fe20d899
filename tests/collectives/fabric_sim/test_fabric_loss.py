"""Lost packets, time-outs, links that go down, several paths, flows that wait for others, and what never ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.fabric_sim.core import Status
from collectives.fabric_sim.flows import Flow
from collectives.fabric_sim.network import Cable, Change, Network, SwitchSettings, Transport
from nettune.errors import NettuneError


def lossy(fab, loss):
    """Two hosts; packets of both directions are lost between switch and host 1."""
    return Network(["a", "b", "s"], 2, [Cable(0, 2, 100, 1000), Cable(2, 1, 100, 1000, loss)])


@given(
    loss=st.floats(0, 0.2),
    selective=st.booleans(),
    packets=st.integers(1, 400),
    every=st.sampled_from([1, 4]),
    seed=st.integers(1, 2**31),
)
def test_every_message_arrives_whatever_is_lost(fab, loss, selective, packets, every, seed):
    """With a time-out nothing that is lost, data or acknowledgement, stops a flow; nothing is sent again without loss."""
    transport = Transport(timeout=5, retry_count=1000, selective_repeat=selective, ack_every=every)
    network = lossy(fab, loss)
    result = fab.run(network, fab.flows(network, [(0, 1, packets * 1000)]), transport=transport, seed=seed)

    assert result.status is Status.DONE
    assert result.delivered_ps[0] > 0
    assert (result.total["retransmissions"] > 0) == (result.total["timeouts"] + result.total["nacks"] > 0)
    if not result.total["losses"]:
        assert result.total["retransmissions"] == result.total["timeouts"] == 0


def test_selective_repeat_sends_only_what_is_missing(fab):
    """At 1% loss selective repeat resends what was lost or whose acknowledgement was, go-back-N a flight for each."""
    network = lossy(fab, 0.01)
    flow = fab.flows(network, [(0, 1, 20_000_000)])
    repeat, back = [
        fab.run(network, flow, transport=Transport(timeout=8, selective_repeat=selective))
        for selective in (True, False)
    ]
    assert repeat.total["retransmissions"] < 1.1 * repeat.total["losses"]
    assert back.total["retransmissions"] > 5 * repeat.total["retransmissions"]
    assert repeat.finish_ps[0] < back.finish_ps[0]


def test_time_out_is_4096_ns_times_a_power_of_two(fab):
    """A lost last packet is sent again after exactly the time-out; without one the simulation says what is wrong."""
    changes = [Change(0.05, 1, up=False), Change(30, 1, up=True)]
    network = Network(["a", "b", "s"], 2, [Cable(0, 2, 100, 1000), Cable(2, 1, 100, 1000)], changes=changes)
    flow = fab.flows(network, [(0, 1, 1000)])
    result = fab.run(network, flow, transport=Transport(timeout=4))

    assert result.total["timeouts"] == 1
    assert result.delivered_ps[0] == 16 * 4_096_000 + 2 * 83_840 + 2_000_000
    stuck = fab.run(network, flow)
    assert stuck.status is Status.STUCK
    assert "packets were lost" in stuck.stuck()


def test_a_flow_fails_after_its_retries(fab):
    """The first sending and each of the retries wait one time-out; a failed flow does not hold the others."""
    network = Network(
        ["a", "b", "c", "s"], 3, [Cable(i, 3, 100, 1000) for i in range(3)], changes=[Change(0, 1, up=False)]
    )
    flows = fab.flows(network, [(0, 1, 5000), (0, 2, 5000)])
    result = fab.run(network, flows, transport=Transport(timeout=5, retry_count=3))

    assert (result.status, result.total["failed"]) == (Status.DONE, 1)
    assert result.finish_ps[0] == -1 < result.finish_ps[1]
    assert result.total["timeouts"] == 4
    assert result.total["now"] == pytest.approx(4 * 32 * 4_096_000, rel=0.001)


def test_adaptive_retransmission_starts_short_and_doubles(fab):
    """20 us twice, 40 us twice, then 80 us: a link that is down for 100 us costs less than one long time-out."""
    changes = [Change(0, 1, up=False), Change(100, 1, up=True)]
    network = Network(["a", "b", "s"], 2, [Cable(0, 2, 100, 1000), Cable(2, 1, 100, 1000)], changes=changes)
    transport = Transport(timeout=14, adaptive_us=20, same_timeouts=2)
    result = fab.run(network, fab.flows(network, [(0, 1, 1000)]), transport=transport)

    assert result.total["timeouts"] == 4
    assert result.delivered_ps[0] == 120_000_000 + 2 * 83_840 + 2_000_000


def test_a_link_that_comes_back_carries_on(fab):
    """A flap in the middle of a flow loses what was on the way, and only that is sent again."""
    network = fab.leaf_spine(2, 1, 1)
    flap = [Change(50, 2, up=False), Change(60, 2, up=True)]
    network = Network(network.names, network.hosts, network.cables, changes=flap)
    transport = Transport(timeout=4, selective_repeat=True)
    result = fab.run(network, fab.flows(network, [(0, 1, 2_000_000)]), transport=transport)

    assert result.status is Status.DONE
    assert 0 < result.total["losses"] < 300
    assert result.total["retransmissions"] < 2 * result.total["losses"]


def test_spray_uses_all_paths_evenly(fab):
    """Packets of one flow over 4 spines; flowlets draw, one path without gaps."""
    network = fab.leaf_spine(2, 4, 1)
    paths = [fab.path(network, 0, 2, 4 + spine, 3, 1) for spine in range(4)]
    flow = Flow(0, 1, 4_000_000, paths, fab.path(network, 1, 3, 4, 2, 0))
    spines = [link for spine in range(4) for link in network.links_between[2, 4 + spine]]

    sprayed = fab.run(network, [flow], transport=Transport(spray=True))
    assert [sprayed.column["link_data_bytes"][link] for link in spines] == [1000 * 1048] * 4
    one = fab.run(network, [flow], transport=Transport(flowlet_us=5))
    assert sorted(one.column["link_data_bytes"][link] for link in spines) == [0, 0, 0, 4000 * 1048]


def test_spray_leaves_out_a_path_that_is_down(fab):
    """With one of 4 spines gone, its packets take the others."""
    network = fab.leaf_spine(2, 4, 1)
    network = Network(network.names, network.hosts, network.cables, changes=[Change(0, 2, up=False)])
    paths = [fab.path(network, 0, 2, 4 + spine, 3, 1) for spine in range(4)]
    flow = Flow(0, 1, 3_000_000, paths, fab.path(network, 1, 3, 7, 2, 0), start_us=1)
    result = fab.run(network, [flow], transport=Transport(spray=True))

    assert result.status is Status.DONE
    assert result.total["losses"] == 0


def test_flows_wait_for_others_and_for_gaps(fab):
    """A flow starts when all it waits for has arrived, and its gap later."""
    network = fab.chain([100, 100], 1000)
    first, second, third = fab.flows(network, [(0, 1, 100_000), (1, 0, 100_000), (0, 1, 1000)])
    flows = [first, second._replace(after=(0,), gap_us=7), third._replace(after=(0, 1), start_us=1)]
    result = fab.run(network, flows)

    once, answered = 101 * 83_840 + 2_000_000, 2 * (101 * 83_840 + 2_000_000) + 7_000_000
    # The third leaves behind the acknowledgement of the second.
    assert list(result.delivered_ps) == [once, answered, answered + 4_800 + 2 * 83_840 + 2_000_000]


def test_flows_that_wait_for_each_other_are_said(fab):
    """A circle of `after` ends at once, with the reason."""
    network = fab.chain([100, 100], 1000)
    one, other = fab.flows(network, [(0, 1, 1000), (0, 1, 1000)])
    result = fab.run(network, [one._replace(after=(1,)), other._replace(after=(0,))])

    assert result.status is Status.STUCK
    assert "circle of `after`" in result.stuck()


@pytest.mark.parametrize("timeout", [None, 8])
def test_deadlock_names_the_ports_that_wait_for_each_other(fab, timeout):
    """Flows around a ring of switches fill its buffers until every port is paused: the circle is named."""
    settings = SwitchSettings(xoff_bytes=20_000)
    network = fab.ring(4, settings)
    flows = [
        Flow(
            i,
            (i + 2) % 4,
            3_000_000,
            (fab.path(network, i, 4 + i, 4 + (i + 1) % 4, 4 + (i + 2) % 4, (i + 2) % 4),),
            fab.path(network, (i + 2) % 4, 4 + (i + 2) % 4, 4 + (i + 1) % 4, 4 + i, i),
        )
        for i in range(4)
    ]
    result = fab.run(network, flows, transport=Transport(timeout=timeout))

    assert result.status is Status.STUCK
    said = result.stuck()
    assert said.startswith("PFC deadlock, 4 flows left")
    for i in range(4):
        assert f"switch{i} > switch{(i + 1) % 4} paused behind" in said

    # Enough buffer, or no pauses, and the same flows end.
    roomy = fab.ring(4, SwitchSettings(buffer_bytes=64 * 2**20))
    assert fab.run(roomy, flows, transport=Transport(timeout=timeout)).status is Status.DONE


def test_queues_beyond_the_memory_end_the_run(fab):
    """A queue that outgrows what may be taken is an error of one line, not the end of the machine."""
    network = fab.star(9, 100, 1000, SwitchSettings(buffer_bytes=2**40))
    flows = fab.flows(network, [(host, 8, 50_000_000) for host in range(8)])
    with pytest.raises(NettuneError, match="needs more than 1 MiB"):
        fab.run(network, flows, memory_bytes=2**20)


def test_a_run_can_be_cut_short(fab):
    """`until_us` ends it with flows left."""
    network = fab.chain([100, 100], 1000)
    result = fab.run(network, fab.flows(network, [(0, 1, 10_000_000)]), until_us=100)

    assert (result.status, result.total["unfinished"], result.total["now"]) == (
        Status.TIME_OVER,
        1,
        100_000_000,
    )
    assert result.column["link_bytes"][0] == pytest.approx(100e3 * 12.5, rel=0.01)
