"""Short words that findings, errors and reports share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""What no name has, inside a class of a regular expression: controls that a terminal obeys, marks that turn the
direction of writing, halves of surrogate pairs, which cannot be written."""


def some(names: Iterable[str], most: int = 5) -> str:
    """The first few of a list of names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def counted(number: int, what: str, plural: str = "") -> str:
    """`1 host`, `2 hosts`, `3 switches`, `1,024 leaves`."""
    many = plural or f"{what}{'es' if what.endswith('ch') else 's'}"
    return f"{number:,} {what if number == 1 else many}"
