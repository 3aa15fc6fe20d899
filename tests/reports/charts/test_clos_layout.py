"""Where the drawing puts nodes and cables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.charts.clos_layout import clos_layout, spread_out

WIDTH = 1020.0


@given(st.lists(st.floats(0, 1000), max_size=12), st.floats(0, 100))
def test_spread_out_keeps_order_and_distance(wanted, gap):
    """Places keep their order and distance, and places that are far enough apart already do not move."""
    ordered = np.sort(np.array(wanted))
    places = spread_out(ordered, gap)
    assert np.all(np.diff(places) >= gap - 1e-6)
    if len(ordered) and np.all(np.diff(ordered) >= gap):
        assert np.allclose(places, ordered)
    bounded = spread_out(ordered, gap, 0.0, 1e6)
    assert np.all(bounded >= 0)
    assert np.all(np.diff(bounded) >= gap - 1e-6)
    if len(ordered):
        assert places.mean() == pytest.approx(ordered.mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("leaves", "hosts", "spines", "parallel", "rails"),
    [(4, 2, 2, 1, 1), (1, 1, 1, 1, 1), (8, 8, 8, 1, 1), (4, 4, 2, 2, 2), (3, 5, 1, 4, 1), (16, 4, 4, 1, 1)],
)
def test_boxes_never_touch_and_stay_inside(sample, leaves, hosts, spines, parallel, rails):
    """In fabrics of many shapes no two boxes overlap, none leaves the drawing, and every cable starts at a box."""
    fabric = sample.clos(leaves, hosts, spines, parallel, rails)
    layout = clos_layout(fabric, WIDTH, 8)
    left, right = layout.x - layout.box_width / 2, layout.x + layout.box_width / 2
    low, high = layout.y - layout.box_height / 2, layout.y + layout.box_height / 2
    assert left.min() >= 0
    assert right.max() <= WIDTH
    assert low.min() >= 0
    assert high.max() <= layout.height
    for a in range(len(left)):
        apart = (right[a] < left) | (right < left[a]) | (high[a] < low) | (high < low[a])
        assert apart.sum() == len(left) - 1
    node = fabric.ports.node[fabric.directed_ports[:, 0]]
    assert np.all((layout.ends[:, 0] >= left[node]) & (layout.ends[:, 0] <= right[node]))


def test_parallel_cables_are_drawn_apart(sample):
    """Four cables between the same two switches leave from four places at both ends."""
    fabric = sample.clos(2, 2, 1, 4)
    layout = clos_layout(fabric, WIDTH, 4)
    assert len(np.unique(layout.ends.round(3), axis=0)) == fabric.directed_count


def test_hosts_stand_under_their_leaf(sample):
    """Hosts keep together by leaf, and the leaf is above their middle."""
    fabric = sample.clos(4, 2, 2)
    layout = clos_layout(fabric, WIDTH, 4)
    for leaf in range(4):
        rows = [fabric.node_row(f"h{2 * leaf + index}") for index in (0, 1)]
        assert layout.x[fabric.node_row(f"leaf{leaf}")] == pytest.approx(layout.x[rows].mean())
