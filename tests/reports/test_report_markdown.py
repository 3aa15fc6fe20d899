"""The Markdown form: tables that stay tables, text that stays text."""

from __future__ import annotations

import dataclasses
import re

from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from reports import markdown
from reports.document import Cell, Column, Report, Section, Table, Text


def cells(line):
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_the_whole_report_is_there(sample_report):
    """Title, verdict, key figures, every section, figure, finding and the origin appear."""
    said = markdown.render(sample_report)
    assert said.startswith("# nettune demo: ")
    assert "**PASS**: Nettune's order" in said
    assert "**92.8 Mbit/s**" in said
    assert said.count("\n## ") == len(sample_report.sections) + 1
    assert "| FAIL | host/h5/nic/eth0 | 0.97 |" in said
    assert "`` nettune demo --seed 0 ``" in said or "` nettune demo --seed 0 `" in said
    assert said.count("\n*") >= len(sample_report.figures)


def test_figures_link_to_the_images_that_are_given(sample_report):
    """The first figures become images in order, the others are told in words."""
    said = markdown.render(sample_report, ["map.svg", "bytes.svg"])
    assert re.search(r"!\[Fabric of 8 hosts[^\n]*\]\(map\.svg\)", said)
    assert "](bytes.svg)" in said
    assert said.count("![") == 2


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=5))
def test_no_cell_breaks_its_table(rows):
    """Whatever the cells hold, each row stays one line with the same number of cells."""
    table = Table("", [Column("a|b"), Column("c")], rows)
    lines = markdown.render_table(table).split("\n")
    assert len(lines) == 2 + len(rows)
    assert {cells(line) for line in lines} == {2}


def test_marks_are_explained():
    """The best cells have a star, our row is bold, and a line under the table says so; without marks there is none."""
    rows: list[tuple[Cell, ...]] = [("x", 2.0), ("y", 3.0)]
    columns = [Column("order"), Column("rate", best="max")]
    lines = markdown.render_table(Table("", columns, rows, own=0)).split("\n")
    assert lines[2:4] == ["| **x** | **2.00** |", r"| y | 3.00 \* |"]
    assert lines[4:] == ["", r"\* best, with all that cannot be told from it; **bold**: nettune's own order"]
    assert markdown.render_table(Table("", columns[:1], [("x",)])).endswith("| x |")


def test_markup_in_names_is_inert():
    """HTML, links and emphasis in a name are shown, not obeyed; code cannot leave its fence."""
    report = Report("<img src=x>", sections=[Section("[a](b)", "*x*", [Text("", ["- # `y`"], "```\n<b>")])])
    said = markdown.render(report)
    assert "<img" not in said
    assert r"\[a\](b)" in said
    assert r"\*x\*" in said
    assert "````\n```\n<b>\n````" in said


def test_findings_alone():
    """Any verb can write its findings; none at all is said."""
    finding = Finding(
        check="mtu", status=Status.UNKNOWN, where=ElementId.host("h1"), what="no tool", fix="install ip"
    )
    assert "| UNKNOWN | host/h1 | no tool install ip |" in markdown.render_findings([finding])
    optional = dataclasses.replace(finding, required=False)
    assert "| UNKNOWN (not required) | host/h1 |" in markdown.render_findings([optional])
    assert markdown.render_findings([]) == "No check was run."
