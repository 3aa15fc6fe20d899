"""The shared XML helper: lines, bounds, refusals."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.readers import Source, xml


def test_elements_know_their_lines_and_those_above() -> None:
    """The tree keeps order, attributes and the line of each start tag; `walk` gives ancestors outermost first."""
    top = xml.document(Source("x", '<a>\n <b k="1"/>\n <c>\n  <d/>\n </c>\n</a>\n'))
    assert [(element.tag, element.line, [above.tag for above in path]) for element, path in top.walk()] == [
        ("b", 2, ["a"]),
        ("c", 3, ["a"]),
        ("d", 4, ["a", "c"]),
    ]
    assert top.children[0].get("k") == "1"
    assert top.children[0].get("none", "other") == "other"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<system>", "system"),
        (
            "\n <!-- <no> --> \n<?xml version='1.0'?><!DOCTYPE topology SYSTEM 'x.dtd'><topology v='2'>",
            "topology",
        ),
        ("<!-- never closed <system>", ""),
        ("<?xml ", ""),
        ("words <system>", ""),
        ("", ""),
    ],
)
def test_the_first_tag_stands_behind_prolog_and_comments(text: str, tag: str) -> None:
    """Recognition looks at the first element only, and at nothing in a comment."""
    assert xml.first_tag(text) == tag


BOMB = '<!DOCTYPE a [<!ENTITY x "yyyyyyyyyy"><!ENTITY z "&x;&x;&x;">]>\n<a b="&z;"/>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "x:1: has a DOCTYPE with declarations"),
        ('<!DOCTYPE a SYSTEM "http://example.org/a.dtd"><a/>', "x:1: has a DOCTYPE, which this format"),
        ("<a>\n&unknown;</a>", "x:2: is no well-formed XML: undefined entity"),
        ("<a>\n <b>\n", "x:3: ends too early inside <b> of line 2"),
        ("<a>\n <b x='1'", "x:2: ends too early inside <a> of line 1"),
        ("<a/>\n<b/>", "x:2: has something behind the top element"),
        ("<a>\n</b>", "x:2: is no well-formed XML: mismatched tag"),
        ("<a b='1' b='2'/>", "x:1: is no well-formed XML: duplicate attribute"),
        ("{{ range }}<a/>", "x:1: is no well-formed XML"),
        ("<!-- nothing -->\n", "x:2: ends too early: cut short"),
        ("<a>" * 1000, f"x:1: is nested deeper than {xml.MAX_DEPTH}"),
        ("<a>\n\x01</a>", "x:2: is no well-formed XML"),
        ("<a>\ud800</a>", "x:1: has characters that are no text"),
    ],
)
def test_what_is_no_plain_whole_document_is_refused_with_its_line(text: str, reason: str) -> None:
    """Entities, cut documents, fragments, deep nesting: one error that names file and line."""
    with pytest.raises(InputError) as caught:
        xml.document(Source("x", text))
    assert str(caught.value).startswith(reason)


def test_a_doctype_without_declarations_is_allowed_where_the_format_has_one() -> None:
    """`lstopo` names a DTD, which is not fetched; an entity that only it could define is still an error."""
    text = '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology>%s</topology>'
    assert xml.document(Source("x", text % ""), doctype=True).tag == "topology"
    with pytest.raises(InputError, match=r"^x:3: uses an entity"):
        xml.document(Source("x", text % "&core;"), doctype=True)
    with pytest.raises(InputError, match=r"^x:1: has a DOCTYPE with declarations"):
        xml.document(Source("x", BOMB), doctype=True)


def test_the_number_of_elements_is_bounded() -> None:
    """A document of a million elements is refused before they fill the memory."""
    with pytest.raises(InputError, match=f"has more than {xml.MAX_ELEMENTS} elements"):
        xml.document(Source("x", "<a>" + "<b/>" * (xml.MAX_ELEMENTS + 10) + "</a>"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", (1 << 63) - 1),
        ("12", 12),
        ("0x1F", 31),
        ("-1", -1),
        ("007", 7),
        ("-08", -8),
        (" 5 ", 5),
    ],
)
def test_whole_numbers_are_read_as_written(text: str, value: int) -> None:
    """Decimal with or without leading zeros, hexadecimal with 0x."""
    element = xml.Element("net", {"speed": text}, 4)
    assert xml.number(Source("x", ""), element, "speed", -1) == value
    assert xml.number(Source("x", ""), element, "port", -1) == -1


@pytest.mark.parametrize("text", ["", "x", "1.5", "9" * 5000, "9223372036854775808", "0x", "1 2", "0" * 41])
def test_what_is_no_whole_number_is_an_error(text: str) -> None:
    """The error names the attribute, the element and its line."""
    with pytest.raises(InputError, match=r"^x:4: speed='.*' of <net> is no whole number$"):
        xml.number(Source("x", ""), xml.Element("net", {"speed": text}, 4), "speed", -1)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-inf", "1e999"])
def test_what_is_no_finite_number_is_an_error(text: str) -> None:
    """Not a number and infinity are words that a computation would carry along."""
    with pytest.raises(InputError, match=r"^x:4: bw='.*' of <c2c> is no number$"):
        xml.decimal(Source("x", ""), xml.Element("c2c", {"bw": text}, 4), "bw", 0.0)


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_a_document_or_an_input_error(text: str, doctype: bool) -> None:
    """No other exception leaves the helper."""
    with suppress(InputError):
        xml.document(Source("x", text), doctype=doctype)
