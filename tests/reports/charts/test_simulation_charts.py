"""Drawings of a simulation: completion times, queues and rates over time."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from reports.charts.completion_cdf import completion_cdf
from reports.charts.queue_and_rate import queue_and_rate

TIME = np.linspace(0, 2000, 200)
PORTS = {f"leaf{i}:p{i} > spine{i}:p{i}": 1e5 * (1 + i) * (1 + np.sin(TIME / 100)) for i in range(6)}
FLOWS = {f"h{i} > h15 (1{i})": np.where(TIME < 1000, 40.0 + i, np.nan) for i in range(6)}


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_queues_and_rates_are_readable(unreadable):
    """Six ports and six flows with both thresholds: no text overlaps, units are named, peaks are told in words."""
    figure = queue_and_rate(
        TIME, PORTS, FLOWS, thresholds_bytes={"Kmin": 4e5, "Kmax": 1e6, "far": 1e9}, caption="c"
    )
    assert unreadable(figure.svg) == []
    assert {"queue [MB]", "rate [Gbit/s]", "time [ms]", "Kmin", "Kmax"} <= set(texts(figure.svg))
    assert "far" not in texts(figure.svg)
    assert "1.20 MB" in figure.alt
    assert "45.0 Gbit/s" in figure.alt


@pytest.mark.parametrize(
    ("queues", "rates"),
    [({}, {}), ({"a": np.full(200, np.nan)}, {}), ({f"p{i}": TIME for i in range(40)}, {"x" * 90: TIME})],
)
def test_odd_queues_are_drawn(unreadable, queues, rates):
    """Nothing sampled, gaps only, more ports than can be named, a long name."""
    assert unreadable(queue_and_rate(TIME, queues, rates, caption="c").svg) == []


def test_columns_must_fit_the_times():
    """A column of another length is a mistake of the caller."""
    with pytest.raises(ValueError, match="a: "):
        queue_and_rate(TIME, {"a": [1.0]}, {}, caption="c")


def test_completion_times_are_readable(unreadable):
    """Six settings: no text overlaps; the slowest message of each is written out."""
    times = {f"preset {name}": np.linspace(10, 900 + 10 * i, 50) for i, name in enumerate("abcdef")}
    for wide in (False, True):
        figure = completion_cdf(times, caption="c", wide=wide)
        assert unreadable(figure.svg) == []
    assert "preset a, last 900 us" in texts(figure.svg)
    assert "preset f median 480, last 950 us" in figure.alt


def test_a_long_tail_gets_a_logarithmic_axis():
    """A message that takes 300 times as long as the others would press them against the axis."""
    plain = texts(completion_cdf({"a": [100.0, 200.0]}, caption="c").svg)
    tail = texts(completion_cdf({"a": [100.0, 200.0, 30_000.0]}, caption="c").svg)
    assert {"0.1", "1", "10"} <= set(tail)
    assert "0.1" not in plain


@pytest.mark.parametrize(
    "times", [{}, {"a": []}, {"a": [math.nan]}, {"a": [0.0]}, {"$x_1$ <b>\x1b": [1.0, math.nan]}]
)
def test_odd_completion_times_are_drawn(unreadable, times):
    """Nothing, nothing that ended, zero, a name that is none."""
    assert unreadable(completion_cdf(times, caption="c").svg) == []
