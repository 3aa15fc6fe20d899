"""Scenarios through the simulator: times that can be worked out, seeds, results, what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.scenarios.build import Scenario, prepare
from collectives.scenarios.judgement import ecn_bound, fluid_judgement
from collectives.scenarios.outcome import Outcome
from collectives.scenarios.reader import load_scenario, make_scenario
from collectives.scenarios.simulation import simulate_scenario
from collectives.scenarios.translate import lay_out
from nettune.errors import InputError
from topology.results import NetworkResult

# One switch, wire packets of 1000 + 0 bytes, one ACK a message, links of 1 us: times are round numbers.
STAR = {"leaves": 1, "spines": 0, "hosts_per_leaf": 8}
BARE = {"mtu_bytes": 1000, "header_bytes": 0, "ack_every": 60_000}
PACKET_US = 0.08
"""1000 bytes at 100 Gb/s."""


def scenario(*jobs: dict[str, Any], **tables: Any) -> Scenario:
    """A scenario on one switch unless `fabric` says otherwise; one seed, no congestion control."""
    values = {
        "fabric": STAR,
        "transport": BARE,
        "run": {"seeds": 1},
        "congestion": {"preset": "pfc-only"},
        "job": list(jobs),
        **tables,
    }
    return prepare(make_scenario(values), Path())


def simulated(*jobs: dict[str, Any], **tables: Any) -> Outcome:
    """The same, simulated."""
    return simulate_scenario(scenario(*jobs, **tables))


def message_us(packets: int) -> float:
    """Delivery of a message over two empty links, store and forward."""
    return 2 + (packets + 1) * PACKET_US


def test_a_permutation_takes_one_message() -> None:
    """Nobody shares a link: packets behind one another, one more for the switch, and the way of the last ACK."""
    outcome = simulated({"kind": "permutation", "size": 100_000})
    ack_us = 2 + 2 * 60 * 8e-5
    np.testing.assert_allclose(outcome.seeds[0].fct_us, message_us(100) + ack_us, atol=1e-5)


def test_ring_steps_add_up() -> None:
    """14 rounds of 100 packets, each when the one before has arrived; ACKs cost next to nothing, moments nothing."""
    outcome = simulated({"kind": "collective", "size": 800_000})
    rounds = outcome.seeds[0].end_us
    assert rounds == pytest.approx(14 * message_us(100) + 2 + 2 * 60 * 8e-5, abs=0.07)
    assert len(outcome.seeds[0].fct_us) == 8 * 14


def test_gaps_and_jitter_are_kept() -> None:
    """Computation between iterations is added whole; a late start is not part of completion."""
    job = {"kind": "permutation", "size": 100_000, "iterations": 3}
    plain = simulated(job).seeds[0]
    gaps = simulated({**job, "compute_us": 500.0}).seeds[0]
    late = simulated({**job, "start_us": 300.0}).seeds[0]
    assert gaps.end_us - plain.end_us == pytest.approx(1000, abs=0.01)
    assert np.nanmax(gaps.fct_us) == pytest.approx(np.nanmax(plain.fct_us), abs=0.01)
    assert late.end_us - plain.end_us == pytest.approx(300, abs=0.01)
    assert np.nanmax(late.fct_us) == pytest.approx(np.nanmax(plain.fct_us), abs=0.01)
    assert list(plain.phases) == ["job0/permutation"]


def test_connections_keep_their_rates() -> None:
    """Messages of a second iteration go on at the rates to which the first has led, not at the link's."""
    job = {"kind": "incast", "to": "h0", "size": 5_000_000, "iterations": 2}
    fabric = {"leaves": 1, "spines": 0, "hosts_per_leaf": 4}
    samples = simulated(job, fabric=fabric, congestion={"preset": "paper"}).seeds[0].samples
    assert samples is not None
    first = [next(rate for rate in rates[1:] if rate > 0) for rates in samples.rate_gbps.values()]
    assert first == pytest.approx([100, 100, 100, *first[3:]])
    assert max(first[3:]) < 90


def test_the_largest_messages_are_watched() -> None:
    """Of those through the busiest port: what takes longest is what a plot of rates must show."""
    small = {"kind": "permutation", "size": 10_000}
    made = scenario(small, {"kind": "incast", "to": "h0", "size": 10**6})
    layout = lay_out(made, 0)
    assert set(layout.workload.bytes_[list(layout.watch_flows)]) == {1e6}


def test_incast_shares_the_receivers_link() -> None:
    """7 senders of 1 MB to one NIC: the last byte after 7 MB at 100 Gb/s, PFC holds the rest."""
    outcome = simulated({"kind": "incast", "to": "h0", "size": 10**6}, switch={"buffer_bytes": "2M"})
    seed = outcome.seeds[0]
    assert seed.end_us == pytest.approx(7 * 1000 * PACKET_US, rel=0.02)
    assert seed.counters["pfc_pauses"] > 0
    assert seed.counters["drops"] == 0
    assert seed.link_paused_us.sum() == pytest.approx(seed.counters["pfc_paused_us"])


def test_seeds_draw_paths_and_repeat() -> None:
    """ECMP draws differ between seeds; the same seed gives the same bytes."""
    fabric = {"leaves": 4, "spines": 4, "hosts_per_leaf": 4}
    job = {"kind": "permutation", "shift": 5, "size": 10**6}
    one, again = (simulated(job, fabric=fabric, run={"seeds": 4}) for _ in range(2))
    for first, second in zip(one.seeds, again.seeds, strict=True):
        np.testing.assert_array_equal(first.fct_us, second.fct_us)
        assert first.counters == second.counters
    assert len({seed.end_us for seed in one.seeds}) > 1
    p5, p50, p95 = one.network_result().time_us
    assert p5 <= p50 <= p95


def test_spray_uses_all_paths() -> None:
    """Sprayed packets share 4 spines evenly, so that a permutation meets no collision."""
    fabric = {"leaves": 4, "spines": 4, "hosts_per_leaf": 4}
    job = {"kind": "permutation", "shift": 5, "size": 10**6}
    drawn = simulated(job, fabric=fabric)
    spread = simulated(
        job, fabric=fabric, paths={"mode": "spray"}, transport={**BARE, "selective_repeat": True}
    )
    assert spread.seeds[0].end_us < 0.75 * drawn.seeds[0].end_us


def test_flowlets_arrive() -> None:
    """Flowlets change paths and lose nothing."""
    outcome = simulated(
        {"kind": "permutation", "shift": 5, "size": 10**5, "iterations": 2, "compute_us": 100.0},
        fabric={"leaves": 2, "spines": 4, "hosts_per_leaf": 4},
        paths={"mode": "flowlet", "flowlet_gap_us": 5.0},
    )
    assert outcome.stuck is None
    assert np.isfinite(outcome.seeds[0].fct_us).all()


def test_results_name_phases_and_links() -> None:
    """Payload on each link, time of each phase; the JSON form is read back."""
    made = scenario(
        {"kind": "permutation", "size": 1000, "name": "a"},
        {"kind": "incast", "to": "h0", "size": 2000, "name": "b"},
    )
    outcome = simulate_scenario(made)
    result = outcome.network_result()
    assert result is not None
    assert [phase.name for phase in result.phases] == ["a/permutation", "b/incast"]
    assert result.phases[0].link_bytes.sum() == 8 * 2 * 1000
    into_h0 = int(made.routing.fabric.out_of_port[0]) ^ 1
    assert result.phases[1].link_bytes[into_h0] == 7 * 2000
    assert NetworkResult.from_json(result.to_json()).to_json() == result.to_json()
    assert set(outcome.fct_us("b")) == {"mean", "p50", "p99", "max"}
    assert outcome.fct_us("b")["max"] == outcome.fct_us()["max"]


def test_lossy_and_dead_cables() -> None:
    """Lost packets are sent again; a cable that comes back lets all arrive."""
    job = {"kind": "permutation", "size": 10**6}
    lossy = simulated(
        job, cable=[{"between": ["h0", "leaf0"], "loss": 0.01}], transport={**BARE, "timeout": 8}
    )
    assert lossy.stuck is None
    assert lossy.seeds[0].counters["retransmissions"] > 0
    transport = {**BARE, "timeout": 5}
    dead = simulated(
        job, cable=[{"between": ["h0", "leaf0"], "down_us": 20, "up_us": 60}], transport=transport
    )
    assert dead.stuck is None
    assert dead.seeds[0].end_us > 100


def test_priorities_keep_headroom_each() -> None:
    """One class of jobs fits into a buffer that a second class would not."""
    job = {"kind": "permutation", "size": 1000, "priority": 3}
    switch = {"buffer_bytes": 400_000}
    assert simulated(job, switch=switch).stuck is None
    with pytest.raises(InputError, match="headroom and reserves"):
        simulated(job, {"kind": "permutation", "priority": 4}, switch=switch)


def test_what_does_not_end_says_so() -> None:
    """Time that runs out is no result."""
    outcome = simulated({"kind": "permutation", "size": 10**6}, run={"seeds": 1, "limit_ms": 0.01})
    assert outcome.stuck is not None
    assert "run.limit_ms" in outcome.stuck
    assert outcome.network_result() is None
    assert outcome.fct_us()["max"] == []


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"switch": {"buffer_bytes": "16K"}}, "leaf0: headroom and reserves"),
        ({"cable": [{"between": ["h0", "h1"]}]}, r"\[\[cable\]\] 0: h0 and h1 are joined by 0 cables"),
        ({"cable": [{"between": ["h0", "x"]}]}, "has no node 'x'"),
        ({"cable": [{"between": ["h0", "leaf0"], "gbps": 1e6}]}, "the rate must be"),
    ],
)
def test_settings_that_cannot_be_simulated_are_refused(tables: dict[str, Any], message: str) -> None:
    """A buffer smaller than its headroom, a cable that is not there: one line."""
    with pytest.raises(InputError, match=message):
        simulated({"kind": "permutation"}, **tables)


def test_fluid_model_of_the_busiest_link() -> None:
    """An incast of 7 puts 7 flows on the receiver's link; other algorithms have no fluid model."""
    made = scenario({"kind": "incast", "to": "h0"}, congestion={"preset": "paper"}, ecn={"preset": "paper"})
    found = fluid_judgement(made, lay_out(made, 0))
    assert found is not None
    assert found.model.flows == 7
    assert found.model.delay_us == pytest.approx(2 * 2 * (1 + PACKET_US))
    assert found.map_per_ms.shape == (len(found.map_flows), len(found.map_delays_us))
    assert found.point.rate_gbps == pytest.approx(100 / 7)
    assert made.routing.fabric.directed_name(found.link) == "leaf0:p0 > h0:p0"
    swift = scenario({"kind": "incast", "to": "h0"}, congestion={"preset": "swift"})
    assert fluid_judgement(swift, lay_out(swift, 0)) is None


def test_ecn_bound_follows_buffer_and_alpha() -> None:
    """More buffer or a larger alpha lets ECN mark later; without PFC there is no bound."""
    job, dcqcn = {"kind": "incast", "to": "h0"}, {"preset": "paper"}
    bounds = [
        ecn_bound(scenario(job, switch=switch, congestion=dcqcn))
        for switch in ({"buffer_bytes": "2M"}, {"buffer_bytes": "4M"}, {"buffer_bytes": "4M", "alpha": 1.0})
    ]
    sizes = [bound.bound_bytes for bound in bounds if bound is not None]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
    assert ecn_bound(scenario(job, switch={"pfc": False}, congestion=dcqcn)) is None
    assert ecn_bound(scenario(job)) is None


def test_the_example_runs() -> None:
    """What the README shows: two jobs, both with phases, all messages arrive."""
    path = Path(__file__).parent / "examples" / "incast.toml"
    made = prepare(load_scenario(path, ["run.seeds=1"]), path.parent)
    outcome = simulate_scenario(made)
    assert outcome.stuck is None
    assert list(outcome.seeds[0].phases) == ["experts/all_to_all", "checkpoint/incast"]
