"""Every chart: readable, named units, and calm at the edges of its data."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from nettune.stats import Interval
from reports.charts.busbw_against_size import SizeSeries, busbw_against_size
from reports.charts.heat_map import heat_map
from reports.charts.measured_against_predicted import LinkRow, largest_deviation, measured_against_predicted
from reports.charts.orders_bar import OrderBar, orders_bar
from reports.charts.step_breakdown import StepParts, step_breakdown
from reports.charts.sweep_curve import SweepPoint, sweep_curve

NAN = math.nan
NO_INTERVAL = Interval(NAN, NAN, NAN)
LONG = "gpu-node-rack07-u21.cluster7.example.com"
ODD = "$x_1$ <b>&\x1b\u4e2d\udcff"


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_the_sample_report_is_readable(sample_report, unreadable):
    """In a report like the demo's no text of any figure overlaps, is cut off or is below 9 pixels."""
    for figure in sample_report.figures:
        assert unreadable(figure.svg) == [], figure.caption


def test_every_figure_names_its_units(sample_report):
    """Each figure of a whole report has a unit in brackets on its axis or scale."""
    for figure in sample_report.figures:
        assert any(re.search(r"\[.+\]", text) for text in texts(figure.svg)), figure.caption
        assert figure.alt.endswith(".")


EDGES = {
    "heat one host": lambda: heat_map([[NAN]], ["h0"], caption="c"),
    "heat none": lambda: heat_map(np.zeros((0, 0)), [], caption="c"),
    "heat zeros": lambda: heat_map(np.zeros((3, 3)), ["a", "b", "c"], caption="c"),
    "heat nothing measured": lambda: heat_map(np.full((3, 3), NAN), ["a", "b", "c"], marked=["b"], caption="c"),
    "heat gaps": lambda: heat_map([[0.0, 1.0, NAN], [2.0, 0.0, math.inf], [3.0, 4.0, 0.0]], ["a", "b", "c"], caption="c"),
    "heat 64": lambda: heat_map(
        np.full((64, 64), 380.0), [f"h{i}" for i in range(64)], leaves=[f"l{i // 8}" for i in range(64)], caption="c"
    ),
    "heat paced, nothing measured": lambda: heat_map(np.full((2, 2), NAN), ["a", "b"], reference_gbps=0.1, caption="c"),
    "heat paced below": lambda: heat_map(np.full((2, 2), 400.0), ["a", "b"], reference_gbps=1.0, caption="c"),
    "heat 200": lambda: heat_map(np.full((200, 200), 380.0), [f"h{i}" for i in range(200)], caption="c"),
    "heat long": lambda: heat_map(np.full((4, 4), 9.4), [f"{i}{LONG}" for i in range(4)], leaves=[LONG] * 4, caption="c"),
    "size none": lambda: busbw_against_size([], caption="c"),
    "size one": lambda: busbw_against_size([SizeSeries("a", [8], [Interval(1, 1, 1)])], link_rate_gbps=1, caption="c"),
    "size gaps": lambda: busbw_against_size(
        [SizeSeries(LONG, [8, 2**33], [NO_INTERVAL, Interval(0, 0, 0)])], caption="c", wide=False
    ),
    "size many": lambda: busbw_against_size(
        [SizeSeries(f"order {n}", [2**i for i in range(3, 34)], [Interval(n, n, n)] * 31) for n in range(8)], caption="c"
    ),
    "orders none": lambda: orders_bar([], caption="c"),
    "orders gaps": lambda: orders_bar(
        [OrderBar(LONG, NO_INTERVAL, [NAN]), OrderBar("zero", Interval(0, 0, 0), [0.0])], caption="c", wide=False
    ),
    "orders long": lambda: orders_bar([OrderBar(LONG, Interval(399.9, 388.8, 400.0))], link_rate_gbps=400, caption="c"),
    "step none": lambda: step_breakdown([], caption="c"),
    "step zero": lambda: step_breakdown([StepParts("a", 0, 0, 0)], caption="c"),
    "step gaps": lambda: step_breakdown(
        [StepParts(LONG, NAN, 1, -1e-9, NO_INTERVAL), StepParts("b", 10, 1e-6, 0.2, Interval(0.4, 0.39, 0.41))], caption="c"
    ),
    "sweep none": lambda: sweep_curve([], knob="k", caption="c"),
    "sweep one": lambda: sweep_curve(
        [SweepPoint("4", Interval(1, 1, 1))], knob="bucket [MiB]", kept="4", default="4", caption="c"
    ),
    "sweep failed": lambda: sweep_curve(
        [SweepPoint(str(2**i), NO_INTERVAL if i == 3 else Interval(i + 1, NAN, NAN)) for i in range(14)],
        knob="k", kept="8", default="64", caption="c",
    ),
    "bytes none": lambda: measured_against_predicted([], caption="c"),
    "bytes zero": lambda: measured_against_predicted([LinkRow("a", 0, 0)], caption="c"),
    "bytes gaps": lambda: measured_against_predicted([LinkRow(LONG, NAN, 5), LinkRow("b", 7, NAN)], caption="c"),
    "bytes many": lambda: measured_against_predicted([LinkRow(f"l{i}", i * 1e6, i * 1.01e6) for i in range(256)], caption="c"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_the_data_are_drawn_and_readable(name, unreadable):
    """Nothing measured, one host, zero, NaN, 200 hosts, long names: no error, no warning, nothing unreadable."""
    figure = EDGES[name]()
    assert unreadable(figure.svg) == []
    assert figure.alt
    assert not any(word in {"nan", "inf"} for text in texts(figure.svg) for word in text.split())
    assert len(figure.svg) < 400_000


def test_odd_names_are_drawn_as_text(unreadable):
    """Dollars, markup, control characters and characters that no font has are drawn or replaced, never interpreted."""
    drawn = [
        heat_map(np.ones((1, 1)), [ODD], leaves=[ODD], marked=[ODD], caption="c"),
        orders_bar([OrderBar(ODD, Interval(1, 1, 1))], quantity=ODD, caption="c"),
        measured_against_predicted([LinkRow(ODD, 1, 1)], caption="c"),
        sweep_curve([SweepPoint(ODD, Interval(1, 1, 1))], knob=ODD, caption="c"),
    ]
    for figure in drawn:
        assert "<b>" not in figure.svg
        assert "\x1b" not in figure.svg
        assert any("$x_1$ &lt;b&gt;&amp;???" in text for text in texts(figure.svg))
        figure.svg.encode()


def test_units_follow_the_size_of_the_values():
    """An emulated fabric reads in Mbit/s, a real one in Gbit/s."""
    assert (
        "all-reduce busbw [Mbit/s]" in orders_bar([OrderBar("a", Interval(0.09, 0.08, 0.1))], caption="c").svg
    )
    assert (
        "all-reduce busbw [Gbit/s]" in orders_bar([OrderBar("a", Interval(370, 360, 380))], caption="c").svg
    )


def test_the_heat_map_shows_values_to_sixteen_hosts_and_marks_hosts():
    """Values are printed while they can be read; the lowest pair and marked hosts are told in words too."""
    matrix = np.full((4, 4), 0.0935)
    matrix[2, 1] = 0.0468
    figure = heat_map(
        matrix, ["a", "b", "c", "d"], leaves=["l0", "l0", "l1", "l1"], marked=["c"], caption="c"
    )
    assert "46.8" in texts(figure.svg)
    assert "lowest 46.8 Mbit/s from c to b" in figure.alt
    assert "marked: c" in figure.alt
    large = heat_map(np.full((17, 17), 0.0935), [f"h{i}" for i in range(17)], caption="c")
    assert "93.5" not in texts(large.svg)
    with pytest.raises(ValueError, match="for 2 hosts"):
        heat_map(matrix, ["a", "b"], caption="c")


def test_the_heat_map_tells_what_a_sound_pair_shows(unreadable):
    """The reference stands in the scale and in words, and where all pairs are slow the scale still reaches it."""
    slow = np.full((3, 3), 0.088)
    plain = heat_map(slow, ["a", "b", "c"], caption="c")
    paced = heat_map(slow, ["a", "b", "c"], quantity="q" * 50, reference_gbps=0.176, caption="c")
    assert "line is a sound pair: 176 Mbit/s" in texts(paced.svg)
    assert "sound pair: 176 Mbit/s" in paced.alt
    assert max(float(text) for text in texts(paced.svg) if text.isdecimal()) > 150
    assert unreadable(paced.svg) == []
    for nothing in (None, 0.0, NAN, math.inf):
        assert heat_map(slow, ["a", "b", "c"], reference_gbps=nothing, caption="c") == plain


def test_the_deviation_is_that_of_links_that_carry_payload():
    """Links below a tenth of the peak do not count: there acknowledgements outweigh the payload."""
    rows = [LinkRow("a", 1000, 1030), LinkRow("b", 500, 480), LinkRow("c", 10, 90), LinkRow("d", 0, 5)]
    worst = largest_deviation(rows)
    assert worst is not None
    assert worst[1].name == "b"
    assert worst[0] == pytest.approx(-0.04)
    assert largest_deviation([LinkRow("a", 0, 5)]) is None
    assert "Largest deviation -4.00 % on b" in measured_against_predicted(rows, caption="c").svg


def test_sizes_are_written_as_nccl_tests_takes_them():
    """The axis of sizes says 64K, 1M and 4M."""
    one = SizeSeries("a", [2**16, 2**20, 2**22], [Interval(1, 1, 1)] * 3)
    assert {"64K", "1M", "4M"} <= set(texts(busbw_against_size([one], caption="c").svg))
    with pytest.raises(ValueError, match="2 sizes and 1 results"):
        SizeSeries("a", [1, 2], [Interval(1, 1, 1)])


def test_the_sweep_names_the_best_and_the_default():
    """The kept value and the one before it are named with their step times."""
    points = [SweepPoint("4", Interval(0.482, 0.47, 0.49)), SweepPoint("25", Interval(0.517, 0.51, 0.53))]
    said = texts(sweep_curve(points, knob="bucket [MiB]", kept="4", default="25", caption="c").svg)
    assert {"kept", "482 ms", "default", "517 ms"} <= set(said)


def test_the_breakdown_annotates_mfu():
    """Total and MFU stand beside each bar."""
    figure = step_breakdown([StepParts("a", 0.39, 0.07, 0.02, Interval(0.253, 0.249, 0.257))], caption="c")
    assert "480 ms, MFU 25.3 (24.9 to 25.7) %" in texts(figure.svg)
