"""The HTML file: whole, alone, accessible, and deaf to hostile names."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.records import write_atomic
from nettune.stats import Interval
from reports import html
from reports.charts.orders_bar import OrderBar, orders_bar
from reports.document import Column, Figure, Findings, KeyFigure, Part, Report, Section, Table, Text, Verdict

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\x00"
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Parses a page and complains about tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.tags if attribute in attrs]


@pytest.fixture(scope="module")
def page_text(sample_report):
    return html.render(sample_report)


@pytest.fixture(scope="module")
def page(page_text):
    return Page(page_text)


def test_the_file_stands_alone(page_text, page):
    """Nothing is fetched from anywhere: no address, no script, no style sheet, no import."""
    assert not re.search(r"https?://|//cdn|@import|url\((?!#)", page_text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "iframe", "object", "base"}
    assert all(
        value.startswith(("#", "data:image/png;base64,"))
        for value in page.values("href") + page.values("src")
    )
    assert len(page_text.encode()) < 1_500_000


def test_ids_are_unique_and_references_meet_them(page_text, page):
    """Drawings side by side do not share ids, and every reference inside the page finds its target."""
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    targets = {value[1:] for value in page.values("href") if value.startswith("#")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", page_text)) | set(page.values("aria-labelledby"))
    assert targets
    assert targets <= set(ids)


def test_the_first_screen_is_the_verdict_and_the_key_figures(page_text, sample_report):
    """Title, verdict and key figures come before the first section."""
    places = [
        page_text.index(text)
        for text in ("<h1>", sample_report.verdict.sentence.split("'")[0], 'key-figures"')
    ]
    assert places == sorted(places)
    assert places[-1] < page_text.index("<section")


def test_everything_has_a_name_for_those_who_do_not_see_it(page, sample_report):
    """Figures have alternative texts and captions, tables have captions and column heads, one heading each section."""
    tags = [tag for tag, _ in page.tags]
    alts = [attrs["aria-label"] for _, attrs in page.tags if attrs.get("role") == "img"]
    assert alts == [figure.alt for figure in sample_report.figures]
    assert all(alts)
    assert tags.count("figcaption") == len(sample_report.figures)
    assert tags.count("caption") == tags.count("table") > 0
    assert all(attrs.get("scope") == "col" for tag, attrs in page.tags if tag == "th")
    assert tags.count("h1") == 1
    assert tags.count("h2") == len(sample_report.sections) + 1
    assert ("html", {"lang": "en"}) in page.tags


def test_findings_stand_with_the_worst_first_and_passes_folded(page_text):
    """What failed is open at the top of its table; what passed is counted in one line."""
    assert (
        page_text.index("host/h5/nic/eth0")
        < page_text.index("link/leaf0:u1--spine1:d0")
        < page_text.index("7 passed")
    )
    assert page_text.index("7 passed") < page_text.index("<code>host/h7</code>")


def test_the_same_report_gives_the_same_bytes(sample, page_text):
    """Two runs over the same results differ in nothing, so that reports can be compared."""
    assert html.render(sample.sample_report()) == page_text


def hostile_report() -> Report:
    finding = Finding(
        check=HOSTILE,
        status=Status.FAIL,
        where=ElementId.host("<script>x"),
        what=HOSTILE,
        fix=HOSTILE,
        probability=0.5,
    )
    drawn = orders_bar([OrderBar(HOSTILE, Interval(1, 1, 1))], quantity=HOSTILE, caption=HOSTILE)
    parts: list[Part] = [
        dataclasses.replace(drawn, alt=HOSTILE),
        Table(HOSTILE, [Column(HOSTILE, HOSTILE)], [(HOSTILE,)]),
        Text(HOSTILE, [HOSTILE], HOSTILE),
        Findings([finding], HOSTILE),
    ]
    return Report(
        HOSTILE, HOSTILE, [KeyFigure(HOSTILE, HOSTILE, HOSTILE)], [Section(HOSTILE, HOSTILE, parts)] * 2,
        {HOSTILE: HOSTILE}, Verdict(Status.FAIL, HOSTILE),
    )  # fmt: skip


def test_hostile_names_stay_text():
    """A name with markup, quotes and control characters cannot open a tag, close an attribute or move a cursor."""
    text = html.render(hostile_report())
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\x00" not in text
    page = Page(text)
    assert "<script>alert(1)</script>\"'&?[31m?" in page.values("aria-label")
    assert any("<script>alert(1)</script>" in said for said in page.said)
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_names_that_are_no_unicode_can_be_written(tmp_path):
    """A name decoded from odd bytes (a lone surrogate) does not stop the file from being written."""
    write_atomic(tmp_path / "report.html", html.render(Report("host \udcff")))
    assert "host ?" in (tmp_path / "report.html").read_text()


def test_an_empty_report_is_a_page():
    """A report that has only a title renders, without empty frames around nothing."""
    text = html.render(Report("nothing yet"))
    Page(text)
    assert 'key-figures"' not in text
    assert "<footer" not in text


def test_empty_parts_are_pages():
    """A table without rows, findings without a finding and an empty text do not break the page."""
    parts: list[Part] = [
        Table("none", [Column("a")], []),
        Findings([]),
        Text(),
        Figure("<svg></svg>", "c", "a", wide=False),
    ]
    text = html.render(Report("t", sections=[Section("s", "", parts)]))
    Page(text)
    assert "No check was run." in text


def test_marks_are_explained_under_their_table():
    """Only the marks that a table has are explained."""
    column = Column("rate", best="max")
    for values, own, wanted in (
        ((1.0, 2.0), None, (1, 0)),
        ((1.0, 1.0), 0, (0, 1)),
        ((1.0, 2.0), 1, (1, 1)),
        ((1.0, 1.0), None, (0, 0)),
    ):
        table = Table("t", [column], [(value,) for value in values], own=own)
        text = html.render(Report("t", sections=[Section("s", "", [table])]))
        Page(text)
        assert (text.count("best of its column"), text.count("nettune's own order")) == wanted
        assert text.count('class="legend"') == max(wanted)


def test_findings_alone_are_a_fragment():
    """Any verb can render its findings alone."""
    finding = Finding(
        check="mtu", status=Status.WARN, where=ElementId.host("h1"), what="1500 < 9000", probability=0.25
    )
    fragment = html.render_findings([finding])
    Page(fragment)
    assert "1500 &lt; 9000" in fragment
    assert "0.25" in fragment
    assert "<html" not in fragment
    assert "not required" not in fragment
    unread = dataclasses.replace(finding, status=Status.UNKNOWN, required=False)
    assert "not required" in html.render_findings([unread])
