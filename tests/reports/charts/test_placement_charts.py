"""Drawings of a placement: histogram of loads, times of orders with the bound, the map of a large cluster."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from reports.charts.leaf_map import leaf_maps, leaf_rows
from reports.charts.load_histogram import load_histogram
from reports.charts.order_times import OrderTime, order_times
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.placement.mapping import Placement

SHAPES = [(32, 16, 8), (96, 2, 4), (128, 4, 4)]


def pods(count=12, leaves=10, hosts=2):
    """Three tiers: pods of leaves under two switches each, joined by two more."""
    builder = FabricBuilder()
    for top in range(2):
        builder.node(f"core{top}", NodeKind.SWITCH)
    for pod in range(count):
        for switch in range(2):
            builder.node(f"p{pod}s{switch}", NodeKind.SWITCH)
            for top in range(2):
                cable(builder, f"p{pod}s{switch}", f"u{top}", f"core{top}", f"d{pod}.{switch}")
        for leaf in range(leaves):
            name = f"p{pod}l{leaf}"
            builder.node(name, NodeKind.SWITCH)
            for switch in range(2):
                cable(builder, name, f"u{switch}", f"p{pod}s{switch}", f"d{leaf}")
            for host in range(hosts):
                builder.node(f"{name}h{host}", NodeKind.HOST)
                cable(builder, f"{name}h{host}", "eth0", name, f"d{host}")
    return builder.build()


def cable(builder, a, port_a, b, port_b):
    builder.port(a, port_a, speed_gbps=400)
    builder.port(b, port_b, speed_gbps=400)
    builder.link((a, port_a), (b, port_b))


def in_order(fabric):
    return Placement.of_hosts(fabric, fabric.hosts)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_cluster_is_drawn_by_leaf_groups(sample, unreadable, shape):
    """512 hosts and more: no text overlaps or is tiny, and two maps stay a small drawing."""
    fabric = sample.clos(*shape)
    load = np.random.default_rng(0).random(fabric.directed_count)
    views = [(title, in_order(fabric), load) for title in ("before", "after")]
    figure = leaf_maps(fabric, views, quantity="load [MiB]", caption="c")

    assert unreadable(figure.svg) == []
    assert len(figure.svg) < 300_000
    assert f"{len(fabric.hosts)} hosts in {shape[0]} leaf groups" in figure.alt


def test_the_busiest_cable_is_named_by_its_own_ports(sample):
    """What stands under the title is a link of the fabric, not of the drawing; hosts' links do not count."""
    fabric = sample.clos(32, 4, 2)
    load = np.zeros(fabric.directed_count)
    load[fabric.out_of_port[fabric.port_row("h3", "eth0")]] = 99.0
    load[fabric.out_of_port[fabric.port_row("leaf7", "u1")]] = 12.5
    figure = leaf_maps(fabric, [("t", in_order(fabric), load)], quantity="load [MiB]", caption="c")

    assert "busiest between switches: leaf7:u1 &gt; spine1:d7, 12.5 MiB" in figure.svg
    idle = leaf_maps(fabric, [("t", in_order(fabric), 0 * load)], quantity="load [MiB]", caption="c")
    assert "nothing crosses between switches" in idle.svg


def widths(fabric, loads):
    """Widths of the halves when these ports of these switches send so much."""
    load = np.zeros(fabric.directed_count)
    for (node, port), value in loads.items():
        load[fabric.out_of_port[fabric.port_row(node, port)]] = value
    figure = leaf_maps(fabric, [("t", in_order(fabric), load)], quantity="load [MiB]", caption="c")
    found = re.findall(r"<path d=\"[^\"]*\"[^>]*stroke-width: ([\d.]+)", figure.svg)
    return [float(width) for width in found]


def test_both_directions_of_a_leaf_are_kept_apart(sample):
    """A leaf that only sends has one heavy half, one that receives as much has two."""
    fabric = sample.clos(32, 4, 2)
    up, down = ("leaf7", "u1"), ("spine0", "d7")

    assert sum(width > 5 for width in widths(fabric, {up: 12.5})) == 1
    assert sum(width > 5 for width in widths(fabric, {up: 12.5, down: 12.5})) == 2


def test_a_line_shows_the_busiest_cable_not_the_sum(sample):
    """Two cables with 10 each are lighter than one with 12."""
    fabric = sample.clos(32, 4, 2)
    found = widths(fabric, {("leaf7", "u0"): 10.0, ("leaf7", "u1"): 10.0, ("leaf9", "u0"): 12.0})

    assert sum(width > 4 for width in found) == 2


def test_pods_are_drawn_where_leaves_are_too_many(unreadable):
    """120 leaf groups in 12 pods: a box a pod, with the load of the cables above it alone."""
    fabric = pods()
    load = np.zeros(fabric.directed_count)
    load[fabric.out_of_port[fabric.port_row("p3l0", "u0")]] = 50.0
    load[fabric.out_of_port[fabric.port_row("p3s1", "u0")]] = 20.0
    figure = leaf_maps(fabric, [("t", in_order(fabric), load)], quantity="load [MiB]", caption="c")

    assert "240 hosts in 12 pods" in figure.alt
    assert "p3s1:u0 &gt; core0:d3.1, 20.0 MiB" in figure.svg
    assert unreadable(figure.svg) == []


def test_rows_of_leaf_groups_hold_every_rank_once(sample):
    """Leaf group, hosts, used hosts, ranks folded."""
    fabric = sample.clos(3, 4, 2)
    placement = Placement.of_hosts(fabric, ["h1", "h1", "h0", "h5", "h2"])

    assert leaf_rows(placement, fabric) == [
        ("leaf0", 4, 3, "0-2,4"),
        ("leaf1", 4, 1, "3"),
        ("leaf2", 4, 0, ""),
    ]


@pytest.mark.parametrize(
    "loads",
    [
        {},
        {"a": []},
        {"a": [0.0, 0.0]},
        {"before": [5e6] * 8, "nettune": [1e6] * 8},
        {"a": [math.nan, 3.0], "b": np.random.default_rng(1).lognormal(20, 1, 4000), "c": [7e9]},
    ],
)
def test_histograms_are_readable_and_tell_the_most_loaded(unreadable, loads):
    """Any loads, none among them."""
    figure = load_histogram(loads, own="nettune", caption="c")

    assert unreadable(figure.svg) == []
    if "nettune" in loads:
        assert "nettune, most 1.00 MB" in figure.svg
        assert "before up to 5.00 MB, nettune up to 1.00 MB" in figure.alt


@pytest.mark.parametrize("count", [0, 1, 6])
def test_times_stand_against_the_bound(unreadable, count):
    """Bars, their p95 in figures, and the bound in words."""
    orders = [OrderTime(f"order {n}", (1e3 * n, 2e3 * n, 3e3 * n), own=n == 1) for n in range(1, count + 1)]
    figure = order_times(orders, bound_us=2500.0, caption="c")

    assert unreadable(figure.svg) == []
    assert "bound 2.50 ms" in figure.alt
    assert not count or "order 1 3.00 ms" in figure.alt
