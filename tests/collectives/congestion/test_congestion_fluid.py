"""The fluid model against the fixed points and the stability of its paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.congestion.fluid import Bottleneck, fixed_point, integrate
from collectives.congestion.parameters import EcnCurve
from collectives.congestion.presets import ecn_curve, paper
from collectives.congestion.stability import settling, stability_map
from nettune.errors import InputError

CURVE = ecn_curve("paper", 40)
# The curve of the authors' committed script: the same slope up to ten times the queue.
LONG_CURVE = EcnCurve(kmin_bytes=5e3, kmax_bytes=2e6, pmax=0.1)


def bottleneck(flows: int, gbps: float = 40, delay_us: float = 50, curve: EcnCurve = CURVE) -> Bottleneck:
    """DCQCN as in its paper."""
    return Bottleneck(paper(gbps), curve, gbps, flows, delay_us)


@pytest.mark.parametrize(
    ("gbps", "flows", "p", "queue_kb"),
    [
        (40, 2, 7.770e-4, 20.2),
        (40, 8, 4.552e-3, 93.8),
        (40, 10, 6.032e-3, 122.6),
        (100, 10, 1.888e-3, 41.8),
        (200, 16, 1.420e-3, 32.7),
        (400, 32, 1.420e-3, 32.7),
    ],
)
def test_fixed_points(gbps: float, flows: int, p: float, queue_kb: float) -> None:
    """Marking and queue as solved independently of this code; asked within 5%, held within 0.5%."""
    point = fixed_point(bottleneck(flows, gbps))
    assert point.p == pytest.approx(p, rel=0.005)
    assert point.queue_bytes == pytest.approx(queue_kb * 1e3, rel=0.005)
    assert point.on_ramp


def test_alpha_of_two_flows() -> None:
    """40 Gb/s and 2 flows: alpha 0.1014."""
    assert fixed_point(bottleneck(2)).alpha == pytest.approx(0.1014, rel=0.001)


def test_sixteen_flows_leave_the_ramp() -> None:
    """At 40 Gb/s p* of 16 flows is 1.087%, above pmax: the queue cannot stay below Kmax."""
    point = fixed_point(bottleneck(16))
    assert point.p == pytest.approx(1.087e-2, rel=0.001)
    assert not point.on_ramp


@settings(max_examples=15)
@given(st.floats(1, 40), st.integers(1, 200), st.integers(1, 200))
def test_marking_depends_on_capacity_over_flows_only(share_gbps: float, few: int, many: int) -> None:
    """Equal C/N, equal p* and alpha*, whatever N."""
    one, other = (fixed_point(bottleneck(n, gbps=share_gbps * n)) for n in (few, many))
    assert one.p == pytest.approx(other.p, rel=1e-6)
    assert one.alpha == pytest.approx(other.alpha, rel=1e-6)


@settings(max_examples=15)
@given(st.integers(2, 60), st.floats(20, 400))
def test_nothing_moves_at_the_fixed_point(flows: int, gbps: float) -> None:
    """All slopes are 0 there, to rounding."""
    model = bottleneck(flows, gbps)
    point = fixed_point(model)
    scale = model.capacity / gbps
    at = [
        np.asarray(value)
        for value in (point.alpha, point.target_gbps * scale, point.rate_gbps * scale, point.p)
    ]
    for slope, value in zip(model.flow_slopes(at[0], at[1], at[2], at[3], at[2]), at, strict=False):
        assert abs(float(slope)) < 1e-9 * float(value)


def test_stability_is_not_monotonic_in_flows() -> None:
    """At 85 us 2 flows settle, 10 swing, 64 settle again; at 4 us all settle."""
    growth = stability_map(bottleneck(2), [2, 10, 64], [4, 85])
    assert (growth[:, 0] < 0).all()
    assert [bool(value < 0) for value in growth[:, 1]] == [True, False, True]


def test_slower_increase_and_longer_ramp_settle() -> None:
    """R_AI 10 Mb/s and Kmax 1000 KB settle up to 100 us, where the defaults do not."""
    model = bottleneck(10, delay_us=100, curve=replace(CURVE, kmax_bytes=1e6))
    calm = replace(model, control=replace(model.control, additive_increase_mbps=10))
    assert settling(calm).stable
    assert not settling(bottleneck(10, delay_us=100)).stable


def test_single_flow_has_nobody_to_be_fair_to() -> None:
    """Fairness is undefined for one flow, and does not decide."""
    found = settling(bottleneck(1, gbps=10, delay_us=4))
    assert np.isnan(found.fairness_per_ms)
    assert found.stable


@pytest.mark.parametrize(("flows", "settles"), [(2, True), (10, False), (64, True)])
def test_integration_agrees_with_the_roots(flows: int, settles: bool) -> None:
    """From the start at line rate, swings at 85 us shrink or grow as the linear model says."""
    model = bottleneck(flows, delay_us=85, curve=LONG_CURVE)
    assert settling(model).stable is settles
    run = integrate(model, 60_000, step_us=10)
    swing = [
        float(np.ptp(run.queue_bytes[(run.time_us > a) & (run.time_us < a + 10_000)]))
        for a in (30_000, 50_000)
    ]
    assert (swing[1] < swing[0]) is settles
    if settles:
        wanted = fixed_point(model).queue_bytes
        assert run.queue_bytes[-1000:].mean() == pytest.approx(wanted, rel=0.05)


def test_unequal_flows_become_fair() -> None:
    """Rates that start 9:1 end within 2% of each other, and fill the link."""
    run = integrate(bottleneck(2, delay_us=4), 60_000, step_us=4, rates_gbps=np.array([36.0, 4.0]))
    first, second = run.rate_gbps[-1]
    assert first == pytest.approx(second, rel=0.02)
    assert first + second == pytest.approx(40, rel=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bottleneck(0), "flows must be 1 to"),
        (lambda: bottleneck(2, gbps=0), "link_gbps must be above 0"),
        (lambda: bottleneck(2, delay_us=float("nan")), "delay_us must be above 0"),
        (lambda: bottleneck(2, curve=EcnCurve(kmin_bytes=5, kmax_bytes=5, pmax=1)), "marking must rise"),
        (lambda: integrate(bottleneck(2), 0), "duration and the step must be above 0"),
        (lambda: integrate(bottleneck(50_000), 1e9), "are more than"),
        (lambda: integrate(bottleneck(2), 100, rates_gbps=np.ones(3)), "2 rates of 0 or more"),
    ],
)
def test_impossible_bottlenecks_are_refused(make: object, message: str) -> None:
    """No flows, no rate, no ramp, no time, more values than memory should hold: one line each."""
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator] # a lambda of the table above
