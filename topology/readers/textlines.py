"""The lines of a text, one after the other: a list of them takes many times the memory of a text of short lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def lines_of(text: str) -> Iterator[str]:
    """The lines without their ends; what stands behind the last line end only if it is not empty."""
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin)
        if end < 0:
            end = len(text)
        yield text[begin:end]
        begin = end + 1
