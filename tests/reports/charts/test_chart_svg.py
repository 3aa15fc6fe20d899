"""SVG fit for a page and for a file; the same look whatever the user's settings."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from nettune.stats import Interval
from reports.charts.orders_bar import OrderBar, orders_bar
from reports.charts.style import bytes_unit, label, rate_unit, size_name, styled, time_unit
from reports.charts.svg import inline, standalone


def drawn():
    return orders_bar([OrderBar("nettune", Interval(92.8, 91.0, 93.4), own=True)], caption="c").svg


def test_text_stays_text_and_nothing_leaks():
    """Words can be selected and searched; no global style, name space or outside reference is left."""
    svg = drawn()
    assert ">nettune</text>" in svg
    assert not re.search(r"<style|xmlns|xlink|http|<!DOCTYPE|<metadata", svg)


def test_a_file_of_its_own_is_well_formed_xml():
    """The same drawing stands alone as an SVG file for a README."""
    root = ET.fromstring(standalone(drawn()))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_drawings_do_not_depend_on_the_users_settings():
    """A user's matplotlibrc changes nothing, and we change nothing of it."""
    before = drawn()
    with mpl.rc_context({"font.size": 30.0, "axes.facecolor": "black", "svg.fonttype": "path"}):
        assert drawn() == before
        with styled():
            pass
        assert mpl.rcParams["font.size"] == 30.0


def test_ids_of_two_drawings_differ():
    """Two drawings in one page share no id; the ids that are left are all referred to."""
    raw = '<svg width="1" viewBox="0 0 {} 9"><g id="a"><path id="b"/><use xlink:href="#b" clip-path="url(#b)"/></g></svg>'
    first, second = inline(raw.format(1)), inline(raw.format(2))
    ids = [re.findall(r" id=\"([^\"]+)\"", svg) for svg in (first, second)]
    assert [len(found) for found in ids] == [1, 1]
    assert ids[0] != ids[1]
    assert f'href="#{ids[0][0]}" clip-path="url(#{ids[0][0]})"' in first
    with pytest.raises(ValueError, match="viewBox"):
        inline("<svg></svg>")


def test_labels_are_shortened_in_the_middle():
    """Long names keep their beginning and end."""
    assert label("leaf0") == "leaf0"
    assert label("gpu-node-001.cluster.example.com", 13) == "gpu-no\u2026le.com"
    assert len(label("x" * 99, 10)) == 10


def test_units():
    """Values choose the unit that reads well; sizes are binary."""
    assert rate_unit([0.0928, 0.1]) == (1e3, "Mbit/s")
    assert rate_unit([400.0]) == (1.0, "Gbit/s")
    assert rate_unit([1e-6]) == (1e6, "kbit/s")
    assert bytes_unit([7.3e6]) == (1e-6, "MB")
    assert time_unit([0.482, float("nan")]) == (1e3, "ms")
    assert time_unit([]) == (1.0, "s")
    assert [size_name(size) for size in (8, 65536, 2**22, 2**33)] == ["8", "64K", "4M", "8G"]
