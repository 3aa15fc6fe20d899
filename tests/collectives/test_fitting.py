"""Alpha and beta from round trips: what the links do to short and long messages, told apart."""

from __future__ import annotations

import pytest

from collectives.cost.alpha_beta import fit
from collectives.fitting import LONG_BYTES, SHORT_BYTES, points_of

RATE_MBITS = 50.0
US_PER_BYTE = 8 / RATE_MBITS


def fitted(time_us):
    """1 / beta in Mbit/s and alpha in us, of one time for each size in three initialisations."""
    times = {size: [time_us(size)] for size in (*SHORT_BYTES, *LONG_BYTES)}
    model = fit([point for init in range(3) for point in points_of(times, "fabric", init)])
    return 8 / model.beta_us_per_byte["fabric"].value, model.alpha_us["fabric"].value


@pytest.mark.parametrize("saved_bytes", [0, 15_140, 64_000])
def test_what_a_token_bucket_saved_up_is_no_bandwidth(saved_bytes):
    """The first bytes of a message pass at once: neither beta nor alpha is smaller for it."""
    rate, alpha = fitted(lambda size: 300 + US_PER_BYTE * max(0, size - saved_bytes))
    assert rate == pytest.approx(RATE_MBITS, rel=1e-3)
    assert alpha == pytest.approx(300, rel=0.05)


def test_a_slow_start_is_no_latency():
    """What every long message loses at its beginning is left out of both."""
    rate, alpha = fitted(lambda size: 300 + US_PER_BYTE * size + (5000 if size > 14_480 else 0))
    assert rate == pytest.approx(RATE_MBITS, rel=1e-3)
    assert alpha == pytest.approx(300, rel=0.05)


def test_a_longer_message_that_took_less_is_left_out():
    """Something else took the time; no beta below 0 comes of it."""
    long, longer = LONG_BYTES
    times = {**{size: [300.0] for size in SHORT_BYTES}, long: [9e5], longer: [4e5]}
    assert {point.size_bytes for point in points_of(times, "fabric", 0)} == set(SHORT_BYTES)
