"""Shared buffer, PFC and ECN of switches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.congestion.buffers import headroom_bytes
from collectives.congestion.parameters import EcnCurve
from collectives.fabric_sim.core import Status
from collectives.fabric_sim.network import SwitchSettings, Transport


@given(
    gbps=st.sampled_from([25, 100, 400, 800]),
    delay_ns=st.integers(0, 20_000),
    senders=st.integers(2, 6),
    mtu=st.sampled_from([500, 1000, 4096, 9000]),
    xoff=st.integers(0, 60_000),
)
def test_no_loss_with_headroom_by_the_formula(fab, gbps, delay_ns, senders, mtu, xoff):
    """Whatever rate, delay and packet: what arrives after a port has decided to pause fits into its headroom."""
    settings = SwitchSettings(buffer_bytes=256 * 2**20, xoff_bytes=xoff, reserve_bytes=0)
    network = fab.star(senders + 1, gbps, delay_ns, settings)
    transport = Transport(mtu_bytes=mtu)
    size = int(mtu * 20 + 3 * xoff + gbps * delay_ns)
    pairs = [(host, senders, size) for host in range(senders)]
    result = fab.run(network, fab.flows(network, pairs), transport=transport)

    assert result.status is Status.DONE
    assert result.total["drops"] == 0
    assert result.total["pauses"] > 0


@pytest.mark.parametrize("part", [0.0, 0.6])
def test_loss_without_headroom(fab, part):
    """With less headroom than the formula's, packets are lost."""
    formula = headroom_bytes(100, 5.0, 1048)
    settings = SwitchSettings(xoff_bytes=20_000, headroom_bytes=int(part * formula))
    network = fab.star(9, 100, 5000, settings)
    flows = fab.flows(network, [(host, 8, 1_000_000) for host in range(8)])

    assert fab.run(network, flows, transport=Transport(timeout=8)).total["drops"] > 0
    whole = fab.star(9, 100, 5000, replace(settings, headroom_bytes=round(formula) + 1))
    assert fab.run(whole, flows, transport=Transport(timeout=8)).total["drops"] == 0


def test_dynamic_threshold_shares_what_is_free(fab):
    """Ports at their limit alpha x free hold alpha S / (1 + n alpha) of the shared bytes S each, n of them."""
    settings = SwitchSettings(buffer_bytes=4 * 2**20, reserve_bytes=0, alpha=0.125, headroom_bytes=37_500)
    senders = 8
    network = fab.star(senders + 1, 100, 1000, settings)
    flows = fab.flows(network, [(host, senders, 2_000_000) for host in range(senders)])
    result = fab.run(network, flows)

    shared = 4 * 2**20 - (senders + 1) * 37_500
    limit = 0.125 * shared / (1 + senders * 0.125)
    peak = max(result.column["link_peak"])
    assert senders * limit <= peak <= senders * (limit + 37_500)
    assert result.total["drops"] == 0


def test_pauses_spread_and_all_bytes_arrive(fab):
    """A flow that only shares the way to a leaf with an incast is slowed by pauses; nothing is lost."""
    network = fab.leaf_spine(2, 1, 8, SwitchSettings(buffer_bytes=1_200_000))
    victim = [(1, 9, 1_000_000)]
    incast = [(0, 8, 1_000_000), *((host, 8, 1_000_000) for host in range(10, 16))]
    alone = fab.run(network, fab.flows(network, victim))
    result = fab.run(network, fab.flows(network, victim + incast))

    assert result.finish_ps[0] > 2 * alone.finish_ps[0]
    assert result.total["drops"] == 0
    downlink = network.links_between[18, 17][0]
    assert result.column["link_pauses"][downlink] > 0
    assert 0 < result.column["link_paused"][downlink] < result.total["now"]
    assert sum(result.column["link_pauses"]) == result.total["pauses"]


def test_classes_are_paused_one_by_one(fab):
    """A class whose buffer is full does not stop another one."""
    settings = SwitchSettings(xoff_bytes=20_000)
    network = fab.star(4, 100, 1000, settings)
    full = fab.flows(network, [(0, 2, 3_000_000), (1, 2, 3_000_000)], cls=3)
    other = fab.flows(network, [(0, 3, 1_000_000)], cls=4)
    result = fab.run(network, [*full, *other])

    pauses = [result.column["link_pauses"][result.classes * 0 + row] for row in range(result.classes)]
    assert pauses[0] > 0
    assert pauses[1] == 0
    # Round robin between classes would take twice its time alone; paused with the other it would take three times.
    assert result.finish_ps[2] < 0.7 * result.finish_ps[0]


def test_ecn_marks_by_its_curve(fab):
    """A queue that stays at one depth is marked with the curve's probability."""
    pmax = 0.3
    curve = EcnCurve(kmin_bytes=0, kmax_bytes=400_000, pmax=pmax)
    network = fab.star(3, 100, 1000, SwitchSettings(ecn=lambda _: curve))
    # A burst of 200 KB leaves a queue of about 100 KB, which a second sender at the link's rate keeps.
    first = fab.flows(network, [(0, 2, 200_000)])
    second = fab.flows(network, [(1, 2, 20_000_000)])
    link = network.links_between[3, 2][0]
    result = fab.run(network, [*first, *second], sample_us=2, watch_links=[link])

    width = result.sample_width
    queues = [result.samples[i + 1] for i in range(100 * width, len(result.samples) - 100 * width, width)]
    mean = sum(queues) / len(queues)
    assert 100_000 < mean < 300_000
    expected = pmax * mean / 400_000 * 20_200
    assert result.column["link_marks"][link] == pytest.approx(expected, rel=0.1)


def test_nothing_is_marked_below_kmin_and_all_above_kmax(fab):
    """Step marking: the packets behind which at least the threshold waits."""
    curve = EcnCurve(kmin_bytes=50_000, kmax_bytes=50_000, pmax=1)
    network = fab.star(3, 100, 1000, SwitchSettings(ecn=lambda _: curve))
    result = fab.run(network, fab.flows(network, [(0, 2, 40_000), (1, 2, 40_000)]))
    assert result.total["marks"] == 0

    result = fab.run(network, fab.flows(network, [(0, 2, 200_000), (1, 2, 200_000)]))
    # The queue grows by a packet with each that leaves, up to 200, and shrinks again: 48 of 1048 bytes are above.
    assert result.total["marks"] == pytest.approx(2 * (200 - 48), abs=2)


@given(
    gbps=st.sampled_from([25, 100, 400]),
    mtu=st.sampled_from([1000, 9000]),
    xoff=st.integers(0, 40_000),
    xon=st.integers(0, 3000),
    seed=st.integers(1, 99),
)
def test_pause_frames_keep_their_order(fab, gbps, mtu, xoff, xon, seed):
    """Where links are busy both ways, frames wait for a packet, and for each other: no port is paused for ever."""
    settings = SwitchSettings(
        xoff_bytes=xoff, xon_offset_bytes=xon, buffer_bytes=256 * 2**20, reserve_bytes=0
    )
    network = fab.leaf_spine(2, 1, 3, settings)
    network = replace(network, cables=[replace(cable, gbps=gbps, delay_ns=100) for cable in network.cables])
    pairs = [(src, dst, 40 * mtu) for src in range(6) for dst in range(6) if src != dst]
    result = fab.run(network, fab.flows(network, pairs), transport=Transport(mtu_bytes=mtu), seed=seed)

    assert result.status is Status.DONE
    assert result.total["drops"] == 0
    assert not any(result.column["link_is_paused"]) or result.total["now"] == max(result.finish_ps)
