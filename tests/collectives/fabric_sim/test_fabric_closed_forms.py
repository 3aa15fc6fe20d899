"""Times that can be worked out by hand, to the picosecond."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.congestion.parameters import FixedRate
from collectives.fabric_sim.network import Cable, Network, Transport

RATES = [25, 40, 50, 100, 200, 400, 800]


def finish_ps(sizes: Sequence[int], ps_per_byte: Sequence[int], delay_ps: int, ack: int) -> int:
    """Last acknowledgement of one flow on empty links, packet by packet: each link sends what has arrived, in order."""

    def through(ready: list[int], sizes: Sequence[int], links: Sequence[int]) -> list[int]:
        for link in links:
            free = 0
            for i, size in enumerate(sizes):
                free = max(free, ready[i]) + size * link
                ready[i] = free + delay_ps
        return ready

    arrived = through([0] * len(sizes), sizes, ps_per_byte)
    return through(arrived, [ack] * len(sizes), list(reversed(ps_per_byte)))[-1]


@pytest.mark.parametrize("gbps", RATES)
@pytest.mark.parametrize("switches", [1, 2, 4])
def test_one_flow_to_the_picosecond(fab, gbps, switches):
    """A flow through 1, 2 and 4 switches takes what wire, delay and acknowledgement add up to."""
    network = fab.chain([gbps] * (switches + 1), 1000)
    size = 999_999
    result = fab.run(network, fab.flows(network, [(0, 1, size)]))

    per_byte = 8000 // gbps
    packets = [1048] * 999 + [999 + 48]
    expected = finish_ps(packets, [per_byte] * (switches + 1), 1_000_000, 60)
    assert list(result.finish_ps) == [expected]
    assert result.total["data_hops"] == 1000 * switches


@given(
    sizes=st.integers(1, 40_000),
    rates=st.lists(st.sampled_from(RATES), min_size=2, max_size=5),
    delay_ns=st.integers(0, 5000),
    mtu=st.sampled_from([256, 1000, 4096]),
)
def test_mixed_rates_to_the_picosecond(fab, sizes, rates, delay_ns, mtu):
    """The slowest link paces the others, wherever it is."""
    network = fab.chain(rates, delay_ns)
    transport = Transport(mtu_bytes=mtu)
    result = fab.run(network, fab.flows(network, [(0, 1, sizes)]), transport=transport)

    full, rest = divmod(sizes, mtu)
    packets = [mtu + 48] * full + ([rest + 48] if rest else [])
    expected = finish_ps(packets, [8000 // gbps for gbps in rates], delay_ns * 1000, 60)
    assert list(result.finish_ps) == [expected]


def test_the_last_of_an_incast_waits_for_all(fab):
    """8 flows into one link: the last byte is there when all have been sent on it, and they share it evenly."""
    network = fab.star(9, 100, 1000)
    result = fab.run(network, fab.flows(network, [(host, 8, 1_000_000) for host in range(8)]))

    first_arrives = 83_840 + 1_000_000
    assert max(result.delivered_ps) == first_arrives + 8000 * 83_840 + 1_000_000
    assert max(result.delivered_ps) - min(result.delivered_ps) <= 8 * 83_840


def test_a_rate_is_kept(fab):
    """A fixed rate of 10 Gb/s on links of 100 spaces packets by ten times their length."""
    network = fab.chain([100, 100], 0)
    result = fab.run(network, fab.flows(network, [(0, 1, 100_000)]), FixedRate(rate_gbps=10))

    assert result.delivered_ps[0] == 99 * 838_400 + 2 * 83_840


def test_whole_nanoseconds_are_an_option(fab):
    """Cut as ns-3 does: 83 ns for 83.84, 4 for 4.8; the option changes nothing else."""
    network = fab.chain([100, 100], 1000)
    flow = fab.flows(network, [(0, 1, 16_000_000)])
    cut = fab.run(network, flow, transport=Transport(whole_ns=True))
    exact = fab.run(network, flow)

    assert cut.finish_ps[0] == 16_001 * 83_000 + 2 * 4_000 + 4_000_000
    assert exact.finish_ps[0] == 16_001 * 83_840 + 2 * 4_800 + 4_000_000


def test_data_and_acknowledgements_share_a_link(fab):
    """Two hosts that send to each other: each sends 60 bytes of acknowledgement for each packet that it gets."""
    network = fab.chain([100, 100], 1000)
    result = fab.run(network, fab.flows(network, [(0, 1, 1_000_000), (1, 0, 1_000_000)]))

    assert result.finish_ps[0] == result.finish_ps[1]
    assert result.finish_ps[0] / 1e6 == pytest.approx(1000 * 88.64e-3 + 4, rel=0.01)


def test_parallel_cables_are_links_of_their_own(fab):
    """Two flows on two parallel cables do not meet."""
    cables = [Cable(0, 4, 100, 0), Cable(1, 4, 100, 0), Cable(2, 5, 100, 0), Cable(3, 5, 100, 0)]
    cables += [Cable(4, 5, 100, 0), Cable(4, 5, 100, 0)]
    network = Network(["a", "b", "c", "d", "s", "t"], 4, cables)
    alone, both = [
        fab.run(network, [
            flow._replace(paths=([flow.paths[0][0], 8 + 2 * i, flow.paths[0][2]],))
            for i, flow in enumerate(fab.flows(network, pairs))
        ])
        for pairs in ([(0, 2, 500_000)], [(0, 2, 500_000), (1, 3, 500_000)])
    ]  # fmt: skip
    assert both.delivered_ps[0] == alone.delivered_ps[0] == both.delivered_ps[1]
    assert both.column["link_data_bytes"][8] == both.column["link_data_bytes"][10] == 500 * 1048
