"""Sizes, rates and durations as people write them."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.units import format_duration, format_rate, format_size, parse_duration, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", 8),
        ("4K", 4096),
        ("4k", 4096),
        ("128M", 128 << 20),
        ("8G", 8 << 30),
        ("4KiB", 4096),
        ("1.5M", 3 << 19),
    ],
)
def test_sizes_are_binary(text, expected):
    """K, M and G are powers of 1024, as in nccl-tests."""
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100mbit", 0.1), ("25gbit", 25.0), ("25 Gbit/s", 25.0), ("400Gbps", 400.0), ("9600kbit", 0.0096)],
)
def test_rates_are_decimal_bits(text, expected):
    """A rate is in powers of 1000 bits per second."""
    assert parse_rate(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"), [("250us", 2.5e-4), ("50ms", 0.05), ("2s", 2), ("10m", 600), ("1h", 3600)]
)
def test_durations(text, expected):
    """`m` is minutes, as in --budget 10m."""
    assert parse_duration(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "x", "4X", "-4K", "0", "0.3", "1e3", "4 M B", "NaN", "inf", "٣", "9" * 400]
)
def test_bad_sizes_are_refused(text):
    """What is no positive whole number of bytes is an InputError of one line that quotes it."""
    with pytest.raises(InputError) as caught:
        parse_size(text)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["100", "100mb", "0mbit", "-1gbit", "mbit", "100 MB/s"])
def test_a_rate_needs_a_unit_of_bits(text):
    """A bare number and a unit of bytes are refused: they are a factor of 8 apart."""
    with pytest.raises(InputError):
        parse_rate(text)


@given(st.text(max_size=12))
def test_garbage_never_raises_anything_else(text):
    """Any text gives a number above zero or an InputError."""
    for parse in (parse_size, parse_rate, parse_duration):
        with contextlib.suppress(InputError):
            assert parse(text) >= 0


@given(st.integers(1, 2**50))
def test_formatted_sizes_read_back(size):
    """What is printed is within its four digits of what was meant."""
    assert parse_size_loosely(format_size(size)) == pytest.approx(size, rel=1e-3)


def parse_size_loosely(text: str) -> float:
    """Value of a printed size, which need not be a whole number of bytes."""
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]


def test_printed_forms():
    """Numbers carry their unit."""
    assert format_rate(0.1) == "100 Mbit/s"
    assert format_rate(400) == "400 Gbit/s"
    assert format_size(4 << 20) == "4 MiB"
    assert format_duration(0.00025) == "250 us"
    assert format_duration(90) == "1.5 min"
    assert format_duration(0) == "0 us"
    assert math.isclose(parse_rate("100mbit"), 0.1)
