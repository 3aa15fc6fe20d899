"""Buffer thresholds against the figures of DCQCN's paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.congestion.buffers import SharedBuffer, headroom_bytes
from nettune.errors import InputError

TRIDENT2 = SharedBuffer(buffer_bytes=12_000_000, ports=32, headroom_bytes=22_400)


def test_the_papers_figures() -> None:
    """12 MB, 32 ports, 22.4 KB: PFC at 24.47 KB, ECN below 0.765 KB (static) and 21.75 KB (beta 8)."""
    assert TRIDENT2.static_pfc_bytes == pytest.approx(24_475)
    assert TRIDENT2.static_ecn_bytes == pytest.approx(765, abs=0.5)
    assert TRIDENT2.dynamic_ecn_bytes(8) == pytest.approx(21_756, abs=1)


@given(st.floats(0.1, 64), st.integers(1, 64), st.integers(1, 8))
def test_ecn_below_its_bound_marks_before_pfc_pauses(beta: float, ports: int, priorities: int) -> None:
    """With one egress queue at the bound, fed evenly by all ports, no port has reached its PFC threshold."""
    buffer = SharedBuffer(16_000_000, ports, 10_000, priorities)
    queue = buffer.dynamic_ecn_bytes(beta) * 0.999
    # The worst case of the paper: all ports' shares of all priorities grow alike, which takes most of the free buffer.
    occupied = queue * ports * priorities
    assert queue < buffer.dynamic_pfc_bytes(beta, occupied)


def test_headroom_is_what_arrives_until_the_pause_works() -> None:
    """100 Gb/s, 1 us, 1048 B: 25,000 B on the cable both ways, three packets, one frame."""
    assert headroom_bytes(100, 1, 1048) == 25_000 + 3 * 1048 + 64
    assert headroom_bytes(100, 1, 1048, response_us=2) == headroom_bytes(100, 1, 1048) + 25_000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SharedBuffer(5_000_000, 32, 22_400), "are not more than the headroom of 32 ports"),
        (lambda: SharedBuffer(0, 32, 22_400), "must be above 0"),
        (lambda: SharedBuffer(float("nan"), 32, 22_400), "must be above 0"),
        (lambda: TRIDENT2.dynamic_pfc_bytes(0), "beta must be above 0"),
        (lambda: headroom_bytes(0, 1, 1048), "rate and packet must be above 0"),
        (lambda: headroom_bytes(100, -1, 1048), "times must be 0 or more"),
    ],
)
def test_impossible_buffers_are_refused(make: object, message: str) -> None:
    """A buffer smaller than its headroom, no rate, no number: one line each."""
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator] # a lambda of the table above
