"""Bytes of others: taken off, and told where they are too many."""

from __future__ import annotations

import pytest

from collectives.background import Watch, contaminated
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.routing import Routing

MB = 1_000_000


@pytest.fixture
def routing():
    """Two hosts under a switch."""
    builder = FabricBuilder()
    builder.node("leaf", NodeKind.SWITCH)
    for host in ("h0", "h1"):
        builder.node(host, NodeKind.HOST)
        builder.port(host, "eth0", speed_gbps=0.1)
        builder.port("leaf", host, speed_gbps=0.1)
        builder.link((host, "eth0"), ("leaf", host))
    return Routing.shortest_paths(builder.build())


@pytest.fixture
def clock(monkeypatch):
    """A clock that only sleeping moves."""
    now = [0.0]
    monkeypatch.setattr("collectives.background.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        "collectives.background.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    return now


def watched(routing, clock, idle_bytes_per_s, sent, payload):
    """Links after `sent` bytes left h0 within a second on top of a background that others send all the time."""
    own = [0.0]

    def counters():
        total = int(own[0] + idle_bytes_per_s * clock[0])
        return {("h0", "eth0"): (0, total), ("h1", "eth0"): (total, 0)}

    watch = Watch.begun(routing, counters)
    own[0] += sent
    clock[0] += 1.0
    out = routing.fabric.out_of_port[routing.fabric.port_row("h0", "eth0")]
    into = routing.fabric.out_of_port[routing.fabric.port_row("leaf", "h1")]
    return {link.name: link for link in watch.ended({int(out): payload, int(into): payload})}


def test_the_background_is_taken_off(routing, clock):
    """What is left is the collective's, beside its prediction with headers."""
    links = watched(routing, clock, 20_000, 10 * MB, 9.56 * MB)
    first = links["h0:eth0 > leaf:h0"]
    assert first.measured_bytes == pytest.approx(10 * MB, rel=1e-3)
    assert first.background_bytes == pytest.approx(20_000, rel=1e-3)
    assert first.predicted_bytes == pytest.approx(10 * MB, rel=1e-3)
    assert contaminated(list(links.values())) == ""


def test_bytes_that_nobody_predicted_are_told(routing, clock):
    """A burst that was not there before: more than a sixth beyond the prediction."""
    links = watched(routing, clock, 0, 13 * MB, 9.56 * MB)
    assert contaminated(list(links.values())).endswith("3e+06 more than this collective's 1e+07")


def test_a_background_that_is_not_small_is_told(routing, clock):
    """Its bytes can be taken off, what it does to the time cannot."""
    links = watched(routing, clock, 2 * MB, 10 * MB, 9.56 * MB)
    assert contaminated(list(links.values())).startswith("others sent 2e+06 bytes over h0:eth0 > leaf:h0")


def test_without_a_prediction_nothing_is_judged(routing, clock):
    """Counters alone cannot tell whose bytes they count."""
    watch = Watch.begun(routing, lambda: {("h0", "eth0"): (0, int(clock[0] * MB))})
    clock[0] += 1.0
    links = watch.ended(None)
    assert links
    assert contaminated(links) == ""
