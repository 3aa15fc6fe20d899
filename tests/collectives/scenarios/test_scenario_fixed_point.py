"""Packets against the fluid: DCQCN's flows rest where its equations say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from collectives.congestion.fluid import Bottleneck, fixed_point
from collectives.congestion.presets import ecn_curve, paper
from collectives.scenarios.build import prepare
from collectives.scenarios.outcome import SeedOutcome
from collectives.scenarios.reader import make_scenario
from collectives.scenarios.translate import lay_out, simulation

SHORT = {"preset": "paper"}
LONG = {"preset": "paper", "kmax_bytes": 2_000_000, "pmax": 0.1}
"""The same slope without the cliff at 200 KB, which the noise of single packets reaches with 10 flows at 40 Gb/s."""


@pytest.mark.parametrize(
    ("gbps", "flows", "ecn", "size"),
    [(40.0, 2, SHORT, "512M"), (40.0, 10, LONG, "100M"), (100.0, 10, SHORT, "256M")],
)
def test_packets_rest_at_the_fixed_point(gbps: float, flows: int, ecn: dict[str, float], size: str) -> None:
    """Mean queue within 15% of the fluid's, mean rate of a flow within 5% of C/N, once alpha has settled."""
    made = prepare(
        make_scenario({
            "fabric": {"leaves": 1, "spines": 0, "hosts_per_leaf": flows + 1, "host_gbps": gbps},
            "transport": {"mtu_bytes": 1000, "header_bytes": 0},
            "congestion": {"preset": "paper"},
            "switch": {"buffer_bytes": "256M"},
            "ecn": ecn,
            "job": [{"kind": "incast", "to": "h0", "size": size}],
        }),
        Path(),
    )  # fmt: skip
    layout = lay_out(made, 1)
    result = simulation(made, layout, sample_us=5.0).run(1)
    outcome = SeedOutcome.of(layout, result, made.routing.fabric.directed_count)
    samples = outcome.samples
    assert samples is not None
    first = np.nanmin(outcome.fct_us)
    settled = (samples.time_us > 0.5 * first) & (samples.time_us < 0.95 * first)
    queue = samples.queue_bytes[layout.watch_links[0]][settled].mean()
    rate = np.mean([rates[settled].mean() for rates in samples.rate_gbps.values()])
    curve = ecn_curve("paper", gbps, {key: value for key, value in ecn.items() if key != "preset"})
    point = fixed_point(Bottleneck(paper(gbps), curve, gbps, flows, delay_us=4))
    assert queue == pytest.approx(point.queue_bytes, rel=0.15)
    assert rate == pytest.approx(gbps / flows, rel=0.05)
