"""The terminal summary: lines that fit, plain unless a terminal asks for more."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from reports import text
from reports.document import Column, Findings, KeyFigure, Part, Report, Section, Table, Verdict

WORDS = st.text(max_size=120)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def findings(count):
    return [
        Finding(
            check="link-rate",
            status=Status.FAIL,
            where=ElementId.host(f"h{i}"),
            what="slow " * 30,
            fix="drain it",
        )
        for i in range(count)
    ]


def test_the_summary_fits_a_terminal(sample_report):
    """The summary of a whole demo is about twenty to thirty lines of at most 80 columns, all plain ASCII."""
    lines = text.render(sample_report, footer=["report  runs/x/report.html"]).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 32
    assert "".join(lines).isascii()
    assert lines[-1] == "report  runs/x/report.html"


def test_the_summary_says_what_counts_in_order(sample_report):
    """Verdict, key figures, the brief table with its marks, then the worst finding before the others."""
    summary = text.render(sample_report)
    wanted = [
        "PASS    Nettune's order",
        "All-reduce busbw",
        "> nettune",
        "FAIL    host/h5/nic/eth0",
        "UNKNOWN",
        "7 passed",
    ]
    places = [summary.index(word) for word in wanted]
    assert places == sorted(places)
    assert "92.8 (91.0 to 93.4)*" in summary


def test_one_line_explains_the_marks_of_all_tables():
    """However many tables have marks, their meaning is said once; marks that do not occur are not explained."""
    column = Column("rate", "Gbit/s", "max")
    marked = Table("a", [Column("order"), column], [("x", 2.0), ("y", 1.0)], own=0, brief=True)
    ties = Table("b", [Column("order"), column], [("x", 1.0), ("y", 1.0)], brief=True)
    summary = text.render(Report("t", sections=[Section("s", "", [marked, marked, ties])]))
    assert summary.count("> nettune's own order   * best") == 1
    assert "*" in text.render_table(marked).splitlines()[-1]
    assert "*" not in text.render_table(ties)
    assert ">" not in text.render_table(ties)


def test_the_verdict_is_not_said_twice():
    """Where the verdict is the first finding's sentence, the list keeps its element, its probability and the fix."""
    finding = Finding(
        check="mtu",
        status=Status.FAIL,
        where=ElementId.host("h1"),
        what="MTU 1500",
        probability=0.9,
        fix="set 9000",
    )
    sections = [Section("s", "", [Findings([finding])])]
    same = text.render(Report("t", sections=sections, verdict=Verdict(Status.FAIL, "host/h1: MTU 1500")))
    assert same.count("MTU 1500") == 1
    assert "FAIL    host/h1 (p 0.90)\n        fix: set 9000\n" in same
    other = text.render(Report("t", sections=sections, verdict=Verdict(Status.FAIL, "unfit")))
    assert "FAIL    host/h1 (p 0.90): MTU 1500\n" in other


def test_many_findings_are_counted_not_listed():
    """Five findings are told, the rest is a number."""
    summary = text.render(Report("t", sections=[Section("s", "", [Findings(findings(9))])]))
    assert summary.count("FAIL ") == 5
    assert "and 4 more that did not pass" in summary


@given(
    title=WORDS,
    sentence=WORDS,
    figures=st.lists(st.builds(KeyFigure, WORDS, WORDS, WORDS, st.sampled_from([None, *Status])), max_size=4),
    heads=st.lists(WORDS, min_size=1, max_size=8),
    data=st.data(),
)
def test_no_line_is_longer_than_the_terminal(title, sentence, figures, heads, data):
    """Whatever the words, no line passes 80 characters and none holds a control character."""
    rows = data.draw(st.lists(st.tuples(*[WORDS | st.floats() | st.none()] * len(heads)), max_size=4))
    table = Table("caption", [Column(head, "s", "max") for head in heads], rows, brief=True)
    parts: list[Part] = [table, Findings(findings(2))]
    report = Report(title, "", figures, [Section("s", "", parts)], verdict=Verdict(Status.WARN, sentence))
    lines = text.render(report).split("\n")
    assert max(map(len, lines)) <= 80
    assert all(char.isprintable() for line in lines for char in line)


@given(
    st.lists(st.text(st.characters(codec="ascii"), max_size=12), min_size=1, max_size=30),
    st.integers(20, 120),
)
def test_a_table_keeps_its_rows_whole(cells, width):
    """A table of any number of columns has one line a row and never more characters than asked, if it can."""
    table = Table("", [Column(f"c{index}") for index in range(len(cells))], [cells, cells])
    lines = text.render_table(table, width).splitlines()
    assert len(lines) <= 3
    assert max(map(len, lines)) <= max(width, 3 * len(cells))


def test_hostile_names_do_not_reach_the_terminal():
    """Escape sequences in a name, a footer or a cell are made visible instead of being obeyed."""
    table = Table("t\x1b[2J", [Column("a\x07")], [("\x1b]0;x\x07",)], brief=True)
    summary = text.render(Report("\x1b[31mred", sections=[Section("s", "", [table])]), footer=["x\x1b[2J"])
    assert "\x1b" not in summary
    assert "\x07" not in summary
    assert "?[31mred" in summary


@pytest.mark.parametrize(
    ("variables", "terminal", "wanted"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"FORCE_COLOR": "1"}, False, True),
     ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False), ({"NO_COLOR": ""}, True, True), ({"TERM": "dumb"}, True, False)],
)  # fmt: skip
def test_colour_is_for_terminals_that_want_it(variables, terminal, wanted):
    """NO_COLOR wins over FORCE_COLOR, both over what the stream is; a pipe gets plain text."""
    stream = Terminal() if terminal else io.StringIO()
    text.write("demo\nPASS    fine\n", stream, variables)
    assert ("\x1b[" in stream.getvalue()) is wanted
    assert "PASS" in stream.getvalue()


def test_styles_change_no_character(sample_report):
    """Without its escape sequences the styled text is the plain one: same words, same line breaks."""
    plain = text.render(sample_report)
    stream = Terminal()
    text.write(plain, stream, {})
    assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()) == plain


def test_a_narrow_encoding_is_no_error():
    """A terminal that knows only ASCII gets question marks, not a traceback."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    text.write("caf\u00e9\n", stream, {})
    stream.seek(0)
    assert stream.read() == "caf?\n"


def test_findings_alone_say_what_to_do():
    """Any verb can print its findings: status first, probability, what, and the fix."""
    finding = Finding(
        check="mtu",
        status=Status.FAIL,
        where=ElementId.nic("h1", "eth0"),
        what="MTU 1500",
        fix="set 9000",
        probability=0.9,
    )
    passed = Finding(check="mtu", status=Status.PASS, where=ElementId.host("h2"), what="fine")
    lines = text.render_findings([passed, finding]).splitlines()
    assert lines == [
        "FAIL    host/h1/nic/eth0 (p 0.90): MTU 1500",
        "        fix: set 9000",
        "PASS    1 passed: mtu 1",
    ]
    assert text.render_findings([]) == "no check was run\n"


@pytest.mark.parametrize(
    ("status", "required", "wanted"),
    [(Status.UNKNOWN, False, "UNKNOWN host/h1 (not required): no tool"),
     (Status.UNKNOWN, True, "UNKNOWN host/h1: no tool"), (Status.FAIL, False, "FAIL    host/h1: no tool")],
)  # fmt: skip
def test_an_unknown_that_decides_nothing_says_so(status, required, wanted):
    """A reader sees which UNKNOWN keeps the verdict from being a pass and which does not."""
    finding = Finding(
        check="mtu", status=status, where=ElementId.host("h1"), what="no tool", required=required
    )
    assert text.render_findings([finding]).splitlines() == [wanted]
