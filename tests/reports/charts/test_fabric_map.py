"""The drawing of the fabric: readable at every size, faults and loads visible."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nettune.elements import ElementId
from reports.charts.fabric_map import MapView, fabric_map, fabric_maps, rank_labels
from topology.builder import FabricBuilder
from topology.fabric import LinkState, NodeKind
from topology.placement.mapping import Placement


def strokes(svg):
    """Number of cable strokes of each width."""
    widths = re.findall(r"<path d=\"[^\"]*\"[^>]*stroke-width: ([\d.]+)", svg)
    return sorted(map(float, widths))


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 2, 2), (8, 8, 8), (16, 8, 4)])
def test_maps_are_readable_from_one_host_to_many(sample, unreadable, shape):
    """Before and after of fabrics of 1 to 128 hosts: no text overlaps, is cut off or is tiny."""
    fabric = sample.clos(*shape)
    ranks = {host: f"r{index}" for index, host in enumerate(fabric.hosts)}
    rng = np.random.default_rng(0)
    views = [
        MapView(name, rng.random(fabric.directed_count), ranks, ["switch/leaf0"])
        for name in ("before", "after")
    ]
    figure = fabric_maps(fabric, views, caption="c")
    assert unreadable(figure.svg) == []
    assert len(figure.svg) < 400_000


def test_the_heaviest_direction_is_the_widest_and_is_named(sample):
    """Load sets the width of a half, and the direction that is most loaded is written out with its unit."""
    fabric = sample.clos()
    load = np.zeros(fabric.directed_count)
    link = int(fabric.out_of_port[fabric.port_row("leaf2", "u1")])
    load[link] = 29.4
    figure = fabric_map(fabric, load, title="random", quantity="sent [MB]", caption="c")
    assert "busiest between switches: leaf2:u1 &gt; spine1:d2, 29.4 MB" in figure.svg
    assert "leaf2:u1 > spine1:d2, 29.4 MB" in figure.alt
    wide = [width for width in strokes(figure.svg) if width > 5]
    assert len(wide) == 1


def test_the_busiest_link_between_switches_is_named_before_a_host_s(sample):
    """Hosts' links carry the same whatever the order; they are named only where no link between switches is loaded."""
    fabric = sample.clos()
    load = np.full(fabric.directed_count, np.nan)
    nic, up = (int(fabric.out_of_port[fabric.port_row(*port)]) for port in (("h0", "eth0"), ("leaf2", "u1")))
    load[nic] = 9.0
    figure = fabric_map(fabric, load, quantity="sent [MiB]", caption="c")
    assert "most loaded: h0:eth0 &gt; leaf0:d0, 9.00 MiB" in figure.svg
    load[up] = 3.0
    figure = fabric_map(fabric, load, quantity="sent [MiB]", caption="c")
    assert "busiest between switches: leaf2:u1 &gt; spine1:d2, 3.00 MiB" in figure.svg
    assert "most loaded" not in figure.svg
    assert "3.00 MiB; most loaded: h0:eth0 > leaf0:d0, 9.00 MiB" in figure.alt


def test_two_maps_share_one_scale(sample):
    """The lighter of two maps is not stretched to the colours of the heavier."""
    fabric = sample.clos()
    heavy, light = np.full(fabric.directed_count, 40.0), np.full(fabric.directed_count, 4.0)
    alone = strokes(fabric_map(fabric, light, caption="c").svg)
    both = strokes(fabric_maps(fabric, [MapView("a", heavy), MapView("b", light)], caption="c").svg)
    assert sum(width > 5 for width in alone) == fabric.directed_count
    assert sum(width > 5 for width in both) == fabric.directed_count


def test_faults_are_marked_with_more_than_colour(sample):
    """A host, a port and a cable at fault each get an exclamation mark; an element that is not there gets none."""
    fabric = sample.clos()
    wanted = [
        ElementId.host("h3"),
        ElementId.port("leaf2", "u0"),
        ElementId.link("leaf0", "u1", "spine1", "d0"),
        ElementId.host("gone"),
        ElementId.fabric(),
    ]
    marks = fabric_map(fabric, None, highlight=wanted, caption="c").svg.count(">!<")
    assert marks == 3 + 1  # and one in the legend


def test_cables_that_are_down_and_nodes_that_hang_loose_are_drawn(unreadable):
    """A cable that is down is dashed and explained; a port without a cable and a lost switch do not break the map."""
    builder = FabricBuilder()
    for name, kind in (
        ("a", NodeKind.HOST),
        ("b", NodeKind.HOST),
        ("s", NodeKind.SWITCH),
        ("lost", NodeKind.SWITCH),
    ):
        builder.node(name, kind)
        builder.port(name, "p0")
    builder.port("s", "p1")
    builder.link(("a", "p0"), ("s", "p0"), state=LinkState.DOWN)
    builder.link(("b", "p0"), ("s", "p1"))
    fabric = builder.build()
    figure = fabric_map(fabric, [np.nan, 1.0, 2.0, np.inf], highlight=["switch/lost/port/p0"], caption="c")
    assert "cable is down" in figure.svg
    assert "stroke-dasharray" in figure.svg
    assert unreadable(figure.svg) == []


@pytest.mark.parametrize("load", ["none", "zero", "nan"])
def test_maps_without_loads_are_maps(sample, load):
    """No load at all, all zero and nothing measured are drawn without complaint."""
    fabric = sample.clos()
    loads = {
        "none": None,
        "zero": np.zeros(fabric.directed_count),
        "nan": np.full(fabric.directed_count, np.nan),
    }
    figure = fabric_map(fabric, loads[load], caption="c")
    assert "most loaded" not in figure.svg
    assert "busiest" not in figure.svg
    assert "h7" in figure.svg


def test_an_empty_fabric_is_a_map():
    """A fabric in which nothing was found is drawn as nothing."""
    assert fabric_map(FabricBuilder().build(), [], caption="c").svg.startswith("<svg")


def test_loads_of_another_fabric_are_refused(sample):
    """A column of another length than the directed links is a mistake of the caller."""
    with pytest.raises(ValueError, match=r"\(3,\) for 32 directed links"):
        fabric_map(sample.clos(), [1, 2, 3], caption="c")
    with pytest.raises(ValueError, match="at least one view"):
        fabric_maps(sample.clos(), [], caption="c")


def test_rank_labels_fold_ranks(sample):
    """Ranks in a row are a range, others a list."""
    fabric = sample.clos(2, 2, 1)
    placement = Placement.of_hosts(fabric, ["h0", "h0", "h0", "h1", "h2", "h1"])
    assert rank_labels(placement, fabric) == {"h0": "r0-2", "h1": "r3,5", "h2": "r4"}
