"""Congestion control in the packet simulator: DCQCN against its state machine and its fluid, the others by what they promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collectives.congestion import presets
from collectives.congestion.fluid import Bottleneck, fixed_point
from collectives.congestion.parameters import Dcqcn, EcnCurve, FixedRate
from collectives.fabric_sim.network import SwitchSettings, Transport

ALWAYS = EcnCurve(kmin_bytes=0, kmax_bytes=0, pmax=1)
"""Marks whatever leaves something behind."""


def samples(result):
    """(S, columns) of a run."""
    return np.array(result.samples).reshape(-1, result.sample_width)


def rate_steps(fab, control, bursts):
    """(us, Gb/s) at each change of the rate of a long flow into which bursts of two short ones run."""
    curve = EcnCurve(kmin_bytes=40_000, kmax_bytes=40_000, pmax=1)
    network = fab.star(5, 100, 1000, SwitchSettings(ecn=lambda _: curve))
    flows = fab.flows(network, [(0, 4, 20_000_000), (1, 4, 100_000), (2, 4, 90_000), (3, 4, 90_000)])
    flows = [flow._replace(start_us=at) for flow, at in zip(flows, [0, 0, bursts, bursts], strict=True)]
    table = samples(fab.run(network, flows, control, sample_us=1, watch_flows=[0], until_us=1500))
    rates = table[:, 1] / 1e9
    changes = np.flatnonzero(np.diff(rates)) + 1
    return [(float(table[i, 0]) / 1e6, float(rates[i])) for i in changes]


def test_dcqcn_follows_its_state_machine(fab):
    """A burst of marks cuts by alpha / 2 each 4 us from alpha 1 on; then half way back each 300 us, R_AI, R_HAI."""
    control = replace(presets.hpcc_runpy(100), clamp_target=True)
    steps = rate_steps(fab, control, bursts=10_000)

    times, rates = zip(*steps, strict=True)
    assert rates[0] == pytest.approx(50)
    np.testing.assert_allclose(np.diff(times[:5]), 4)
    target, lowest = rates[3], rates[4]
    np.testing.assert_allclose(np.diff(times[4:9]), 300)
    first = (lowest + target) / 2
    second = (first + target + 0.02) / 2
    third = (second + target + 0.22) / 2
    np.testing.assert_allclose(rates[5:8], [first, second, third], rtol=1e-6)


def test_the_target_outlives_cuts_without_an_increase(fab):
    """With clamping after increases only, the first increase goes half way to the rate before the first cut."""
    times_rates = rate_steps(fab, presets.hpcc_runpy(100), bursts=10_000)
    lowest, raised = times_rates[4][1], times_rates[5][1]
    assert raised == pytest.approx((lowest + 100) / 2)


def test_alpha_decays_between_bursts(fab):
    """A second burst after 150 us without a mark cuts by (1 - g)^150 / 2 and a little more for its own marks."""
    steps = rate_steps(fab, presets.hpcc_runpy(100), bursts=170)
    (last, lowest), (cut, less) = steps[4:6]
    earlier = 2 * (1 - lowest / steps[3][1])

    alpha = 2 * (1 - less / lowest)
    assert alpha == pytest.approx(earlier * (255 / 256) ** (cut - last), abs=4 / 256)
    assert alpha < 0.6


def test_cnp_interval_spaces_cnps(fab):
    """Every packet is marked: the receiver sends one CNP each interval, and none more."""
    control = replace(presets.paper(100), cnp_interval_us=10, min_rate_mbps=50_000)
    network = fab.star(3, 100, 1000, SwitchSettings(ecn=lambda _: ALWAYS))
    result = fab.run(network, fab.flows(network, [(0, 2, 5_000_000), (1, 2, 5_000_000)]), control)

    assert result.total["cnps"] == pytest.approx(2 * result.total["now"] / 10e6, rel=0.05)
    each = fab.run(
        network, fab.flows(network, [(0, 2, 500_000), (1, 2, 500_000)]), replace(control, cnp_interval_us=0)
    )
    assert each.total["cnps"] == each.total["marks"] > 900


@pytest.mark.parametrize(("gbps", "flows"), [(100, 10), (40, 8)])
def test_dcqcn_settles_at_the_fixed_point_of_the_fluid(fab, gbps, flows):
    """Queue within 15% of the fluid's, rates at C/N (41.8 and 93.8 KB)."""
    control, curve = presets.paper(gbps), presets.ecn_curve("paper", gbps)
    network = fab.star(flows + 1, gbps, 500, SwitchSettings(ecn=lambda _: curve, buffer_bytes=64 * 2**20))
    endless = fab.flows(network, [(host, flows, 10**11) for host in range(flows)])
    link = network.links_between[flows + 1, flows][0]
    result = fab.run(
        network,
        endless,
        control,
        Transport(mtu_bytes=1000, header_bytes=0),
        sample_us=20,
        watch_links=[link],
        watch_flows=range(flows),
        until_us=80_000,
    )
    table = samples(result)[2000:]

    wanted = fixed_point(Bottleneck(control, curve, gbps, flows, 4.0))
    assert table[:, 1].mean() == pytest.approx(wanted.queue_bytes, rel=0.15)
    assert table[:, 2:].mean() / 1e9 == pytest.approx(gbps / flows, rel=0.01)


def test_the_cliff_at_kmax_holds_the_queue_below_the_fluid(fab):
    """10 flows at 40 Gb/s swing to Kmax of the paper's curve; the same slope up to 400 KB lets them rest where the fluid does."""
    control, paper = presets.paper(40), presets.ecn_curve("paper", 40)
    longer = replace(paper, kmax_bytes=400_000, pmax=paper.pmax * 395 / 195)
    wanted = fixed_point(Bottleneck(control, paper, 40, 10, 4.0)).queue_bytes
    assert fixed_point(Bottleneck(control, longer, 40, 10, 4.0)).queue_bytes == pytest.approx(wanted)

    def queue(curve):
        network = fab.star(11, 40, 500, SwitchSettings(ecn=lambda _: curve, buffer_bytes=64 * 2**20))
        flows = fab.flows(network, [(host, 10, 10**11) for host in range(10)])
        watched = {"sample_us": 20, "watch_links": [network.links_between[11, 10][0]], "until_us": 100_000}
        transport = Transport(mtu_bytes=1000, header_bytes=0)
        return samples(fab.run(network, flows, control, transport, **watched))[2000:, 1]

    short, long = queue(paper), queue(longer)
    assert np.mean(short > 200_000) > 0.01
    assert np.mean(long > 200_000) > 0.05
    assert short.mean() < 0.75 * wanted
    assert long.mean() == pytest.approx(wanted, rel=0.15)


@pytest.mark.parametrize("name", sorted(presets.PRESETS))
def test_every_preset_shares_a_link_and_loses_nothing(fab, name):
    """8 flows of each preset into one link all end; where increases are not small steps, in little more than the ideal."""
    gbps = 100
    settings = SwitchSettings(ecn=lambda rate: presets.ecn_curve("hpcc-runpy", rate))
    network = fab.star(9, gbps, 1000, settings)
    flows = fab.flows(network, [(host, 8, 2_000_000) for host in range(8)])
    result = fab.run(network, flows, presets.control(name, gbps))

    ideal = 16_000 * 83_840
    assert result.total["drops"] == 0
    assert min(result.finish_ps) > 0
    assert (
        ideal
        < max(result.finish_ps)
        < (2 if name in {"hpcc-runpy", "swift", "hpcc", "hybrid", "pfc-only"} else 20) * ideal
    )


@pytest.mark.parametrize("name", ["swift", "hpcc", "hybrid"])
def test_delay_and_telemetry_keep_queues_short(fab, name):
    """What looks at delay or telemetry holds a shorter queue than no control, at nearly the link's rate."""
    settings = SwitchSettings(ecn=lambda rate: presets.ecn_curve("hpcc-runpy", rate))
    network = fab.star(9, 100, 1000, settings)
    flows = fab.flows(network, [(host, 8, 5_000_000) for host in range(8)])
    link = network.links_between[9, 8][0]

    def late_queue(control):
        result = fab.run(network, flows, control, sample_us=10, watch_links=[link])
        table = samples(result)
        return table[len(table) // 3 : 2 * len(table) // 3, 1].mean(), max(result.finish_ps)

    none, fastest = late_queue(FixedRate())
    queue, finish = late_queue(presets.control(name, 100))
    assert queue < 0.25 * none
    assert finish < 1.6 * fastest


def test_hybrid_does_not_fall_to_its_floor(fab):
    """While a first burst drains it keeps a good part of its share: 12 hosts to one take little more than the link needs."""
    settings = SwitchSettings(
        buffer_bytes=64 * 2**20, alpha=1, ecn=lambda rate: presets.ecn_curve("hpcc-runpy", rate)
    )
    network = fab.star(13, 400, 1000, settings)
    flows = fab.flows(network, [(host, 12, 8_000_000) for host in range(12)])
    ours, paper = [
        max(fab.run(network, flows, presets.control(name, 400)).fct_us) for name in ("hybrid", "paper")
    ]
    assert ours < 1.15 * 12 * 8_000 * 83.84 / 4000
    assert ours < paper


def test_rates_never_leave_their_range(fab):
    """Between the floor and the link's rate, whatever the preset's parameters do."""
    control = Dcqcn(
        cnp_interval_us=0,
        alpha_interval_us=0.5,
        gain=0.9,
        rate_decrease_interval_us=1,
        decrease_to_at_least=0.01,
        increase_timer_us=2,
        byte_counter=2000,
        fast_recovery_stages=1,
        additive_increase_mbps=50_000,
        hyper_increase_mbps=90_000,
        min_rate_mbps=700,
    )
    network = fab.star(4, 100, 1000, SwitchSettings(ecn=lambda _: ALWAYS))
    flows = fab.flows(network, [(host, 3, 2_000_000) for host in range(3)])
    rates = samples(fab.run(network, flows, control, sample_us=0.5, watch_flows=[0, 1, 2]))[:, 1:]
    sending = rates[rates > 0]
    assert sending.min() >= 0.7e9
    assert sending.max() <= 100e9


def test_a_slow_queue_pair_sees_its_rate_rise(fab):
    """Cut to 1 Mb/s, a packet would wait 8.4 ms for its turn; two increases later, after 600 us, it leaves."""
    control = replace(
        presets.mlx5_default(100), first_cnp_rate_gbps=0.001, byte_counter=None, additive_increase_mbps=50_000
    )
    network = fab.star(3, 100, 1000, SwitchSettings(ecn=lambda _: ALWAYS))
    result = fab.run(network, fab.flows(network, [(0, 2, 300_000), (1, 2, 300_000)]), control)

    assert result.total["cnps"] > 0
    assert 600 < max(result.fct_us) < 1200


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("hpcc-runpy", {"rate_decrease_interval_us": 1e-9}),
        ("hpcc-runpy", {"min_rate_mbps": 1e-12}),
        ("mlx5-default", {"increase_timer_us": 1e18, "byte_counter": 2**62}),
        ("swift", {"per_hop_us": 1e18, "max_cwnd_packets": 1e300}),
        ("hybrid", {"fast_after": 2**62, "ecn_interval_us": 1e18}),
    ],
)
def test_extreme_values_are_no_undefined_numbers(fab, name, change):
    """What does not fit into the core's whole numbers is taken as endless, what is too small as 1 ps."""
    network = fab.star(3, 100, 1000, SwitchSettings(ecn=lambda _: ALWAYS))
    flows = fab.flows(network, [(0, 2, 100_000), (1, 2, 100_000)])
    result = fab.run(network, flows, presets.control(name, 100, change), until_us=50_000)
    assert result.total["now"] <= 50_000_000_000
    assert result.total["data_hops"] > 0


def test_watching_changes_nothing(fab):
    """Samples of queues and rates leave times, marks and draws as they are; another seed draws others."""
    settings = SwitchSettings(buffer_bytes=2 * 2**20, ecn=lambda rate: presets.ecn_curve("paper", rate))
    network = fab.leaf_spine(4, 2, 4, settings)
    flows = fab.flows(network, [(host, (host + 5) % 16, 500_000) for host in range(16)])
    plain, watched, other = [
        fab.run(network, flows, presets.hpcc_runpy(100), seed=seed, **options)
        for seed, options in (
            (1, {}),
            (1, {"sample_us": 0.7, "watch_links": range(network.link_count), "watch_flows": range(16)}),
            (2, {}),
        )
    ]
    assert plain.finish_ps == watched.finish_ps != other.finish_ps
    assert plain.total["marks"] == watched.total["marks"] > 0
