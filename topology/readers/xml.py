"""XML of unknown origin into elements with line numbers: bounded in depth and number, entities refused.

The parser is expat of the standard library, fed in pieces. It never fetches anything: an external identifier in a
DOCTYPE (`lstopo` writes one) is not followed, and what could define an entity is an error, so that no text expands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from topology.readers.source import Source

MAX_DEPTH = 200
"""Deepest nesting: PCI trees have about 20 levels."""

MAX_ELEMENTS = 200_000
"""Most elements of a document: a DGX has about 100, an NVL72's fused NCCL topology a few thousand."""

_PIECE = 1 << 20
_SKIPPED = re.compile(r"\s+|<\?|<!--|<!DOCTYPE", re.IGNORECASE)
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")
_TAG = re.compile(r"<([A-Za-z_][\w.-]*)")


@dataclass(slots=True)
class Element:
    """An element: tag, attributes, the line it starts on (from 1), its children in order."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        """An attribute's value."""
        return self.attributes.get(name, default)

    def walk(self) -> Iterator[tuple[Element, tuple[Element, ...]]]:
        """Every element below with those above it, outermost first; in the order of the document."""
        stack: list[tuple[Element, tuple[Element, ...]]] = [(self, ())]
        while stack:
            element, above = stack.pop()
            if element is not self:
                yield element, above
            below = (*above, element)
            stack.extend((child, below) for child in reversed(element.children))


def first_tag(text: str) -> str:
    """The tag of the first element behind prolog, comments and DOCTYPE; empty when there is none."""
    position = 0
    while True:
        skipped = _SKIPPED.match(text, position)
        if skipped is None:
            tag = _TAG.match(text, position)
            return tag[1] if tag else ""
        opening = skipped[0]
        end = {"<?": "?>", "<!--": "-->"}.get(opening, "" if opening.isspace() else ">")
        if not end:
            position = skipped.end()
            continue
        found = text.find(end, skipped.end())
        if found < 0:
            return ""
        position = found + len(end)


def document(source: Source, *, doctype: bool = False) -> Element:
    """The top element of an XML document. Text between tags is left out: the formats read here have none.

    Args:
        source: the input.
        doctype: whether a DOCTYPE that defines nothing is allowed.

    Raises:
        InputError: not well-formed, cut short, several top elements, too deep, too many elements, a DOCTYPE that
            is not allowed or has declarations, an entity.
    """
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    open_: list[Element] = []
    top: list[Element] = []
    count = 0

    def refuse(what: str) -> NoReturn:
        raise source.error(what, parser.CurrentLineNumber)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS:
            refuse(f"has more than {MAX_ELEMENTS} elements: no such topology is that large")
        if len(open_) >= MAX_DEPTH:
            refuse(f"is nested deeper than {MAX_DEPTH} elements: no such topology is that deep")
        element = Element(tag, attributes, parser.CurrentLineNumber)
        (open_[-1].children if open_ else top).append(element)
        open_.append(element)

    def end(_tag: str) -> None:
        open_.pop()

    def start_doctype(_name: str, _system: str | None, _public: str | None, has_subset: int) -> None:
        if has_subset:
            refuse("has a DOCTYPE with declarations, which could expand without end; remove it")
        if not doctype:
            refuse("has a DOCTYPE, which this format does not know; remove it")

    def entity(*_: object) -> None:
        refuse("uses an entity that is not of XML itself; write the character instead")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = start_doctype
    parser.EntityDeclHandler = entity
    parser.SkippedEntityHandler = entity
    try:
        for begin in range(0, len(source.text), _PIECE):
            parser.Parse(source.text[begin : begin + _PIECE], False)
        parser.Parse("", True)
    except expat.ExpatError as error:
        raise source.error(_reason(error, open_), error.lineno) from error
    except UnicodeEncodeError as error:
        raise source.error("has characters that are no text", parser.CurrentLineNumber) from error
    return top[0]


def _reason(error: expat.ExpatError, open_: list[Element]) -> str:
    if error.code == expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]:
        return "has something behind the top element: a fragment? give the whole document alone"
    cut = {expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN}
    if error.code in {expat.errors.codes[reason] for reason in cut}:
        inside = f" inside <{open_[-1].tag}> of line {open_[-1].line}" if open_ else ""
        return f"ends too early{inside}: cut short? give the whole document"
    return f"is no well-formed XML: {expat.ErrorString(error.code)}"


def number(source: Source, element: Element, name: str, default: int, base: int = 0) -> int:
    """An attribute as an integer of 64 bits, signed, or unsigned where it is written in base 16; `default` without it.

    Base 0 takes decimal (also with leading zeros) and 0x.

    Raises:
        InputError: no such integer.
    """
    text = element.attributes.get(name)
    if text is None:
        return default
    digits = text.strip() if len(text) <= 40 else "x"
    if base == 0 and _LEADING_ZERO.fullmatch(digits):
        base = 10
    try:
        value = int(digits, base)
    except ValueError:
        value = 1 << 64
    if not -(1 << 63) <= value < 1 << (64 if base == 16 else 63):
        raise source.error(f"{name}={text[:40]!r} of <{element.tag}> is no whole number", element.line)
    return value


def decimal(source: Source, element: Element, name: str, default: float) -> float:
    """An attribute as a finite number; `default` when it is not there.

    Raises:
        InputError: no number.
    """
    text = element.attributes.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise source.error(f"{name}={text[:40]!r} of <{element.tag}> is no number", element.line)
    return value
