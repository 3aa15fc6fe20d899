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
