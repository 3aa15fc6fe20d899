"""Messages that share a queue pair, and messages of 0 bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.congestion import presets
from collectives.congestion.parameters import EcnCurve
from collectives.fabric_sim.core import Status
from collectives.fabric_sim.flows import Flow
from collectives.fabric_sim.network import Cable, SwitchSettings, Transport
from nettune.errors import InputError

STEP = EcnCurve(kmin_bytes=40_000, kmax_bytes=40_000, pmax=1)


def shared(flows, connection=7):
    """The same flows on one queue pair."""
    return [flow._replace(connection=connection) for flow in flows]


@pytest.mark.parametrize("name", ["hpcc-runpy", "paper", "hpcc", "hybrid"])
def test_a_message_goes_on_at_the_rate_of_the_one_before(fab, name):
    """After congestion the next message of the connection starts at the rate that is left, not at the link's."""
    network = fab.star(5, 100, 1000, SwitchSettings(ecn=lambda _: STEP))
    others = fab.flows(network, [(host, 4, 3_000_000) for host in (1, 2, 3)])
    first, second = fab.flows(network, [(0, 4, 1_000_000), (0, 4, 20_000)])
    second = second._replace(after=(0,))

    def rate_of_the_second(flows):
        result = fab.run(
            network, [*flows, *others], presets.control(name, 100), sample_us=1, watch_flows=[0, 1]
        )
        return next(rate for rate in result.samples[2::3] if rate)

    assert rate_of_the_second([first, second]) == 100e9
    assert rate_of_the_second(shared([first, second])) < 80e9


def test_messages_of_a_connection_go_one_after_another(fab):
    """Posted at once they arrive in order, the first as if it were alone; with their own queue pairs they share the link."""
    network = fab.chain([100, 100], 1000)
    flows = fab.flows(network, [(0, 1, 1_000_000)] * 3)
    alone = fab.run(network, flows[:1]).finish_ps[0]
    finish = fab.run(network, shared(flows)).finish_ps
    apart = fab.run(network, flows).finish_ps

    assert finish[0] == alone
    assert finish[1] - finish[0] == finish[2] - finish[1] == 1000 * 83_840
    assert finish[2] == max(apart)
    assert min(apart) > 2.5 * alone


@pytest.mark.parametrize("name", ["swift", "hpcc"])
def test_the_window_is_of_the_connection(fab, name):
    """Many small messages at once have no more in flight than one large one, so that the queue is as short."""
    network = fab.star(4, 100, 1000, SwitchSettings(ecn=lambda _: STEP))
    large = fab.flows(network, [(host, 3, 2_000_000) for host in range(3)])
    small = [
        flow._replace(connection=host)
        for host in range(3)
        for flow in fab.flows(network, [(host, 3, 5_000)] * 400)
    ]
    link = network.links_between[4, 3][0]
    peaks = [
        fab.run(network, flows, presets.control(name, 100)).column["link_peak"][link]
        for flows in (large, small)
    ]
    assert peaks[1] < 1.3 * peaks[0]


@given(
    loss=st.floats(0, 0.2),
    selective=st.booleans(),
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=12),
    name=st.sampled_from(["hpcc-runpy", "mlx5-default", "swift", "hpcc", "hybrid", "pfc-only"]),
    seed=st.integers(1, 99),
)
def test_every_message_arrives_whatever_is_lost(fab, loss, selective, sizes, name, seed):
    """Also where later messages are on their way when an earlier one must be sent again."""
    network = fab.chain([100, 100], 1000)
    network = replace(network, cables=[Cable(c.a, c.b, c.gbps, c.delay_ns, loss) for c in network.cables])
    flows = shared(fab.flows(network, [(0, 1, size) for size in sizes]))
    transport = Transport(timeout=8, retry_count=1000, selective_repeat=selective, nack_interval_us=50)
    result = fab.run(network, flows, presets.control(name, 100), transport, seed)
    assert result.status is Status.DONE
    assert min(result.finish_ps) > 0


def test_a_connection_has_one_pair_of_ends(fab):
    """Another destination, class or control is refused."""
    network = fab.star(3, 100, 1000)
    flows = fab.flows(network, [(0, 1, 1000), (0, 2, 1000)])
    with pytest.raises(InputError, match="flow 1 shares connection 7 with flow 0"):
        fab.run(network, shared(flows))


def test_a_message_of_no_bytes_takes_no_time(fab):
    """It is over when those that it waits for are, and its gap; others wait for it in turn; it needs no path."""
    network = fab.chain([100, 100], 1000)
    (real,) = fab.flows(network, [(0, 1, 5000)])
    nothing = Flow(0, 0, 0, (), ())
    flows = [
        real,
        nothing._replace(after=(0,), gap_us=2.5),
        nothing._replace(start_us=1),
        real._replace(after=(1, 2)),
        nothing._replace(after=(3,)),
    ]
    result = fab.run(network, flows)

    assert result.status is Status.DONE
    assert result.finish_ps[1] == result.delivered_ps[1] == result.delivered_ps[0] + 2_500_000
    assert result.finish_ps[2] == 1_000_000
    assert result.delivered_ps[3] == result.delivered_ps[1] + result.delivered_ps[0]
    assert result.finish_ps[4] == result.delivered_ps[3]
    assert fab.run(network, [nothing]).status is Status.DONE
