"""Names: their natural order (node2 before node10), and the one that free text becomes."""

from __future__ import annotations

import re

from nettune.errors import InputError
from nettune.wording import UNPRINTABLE


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that compares runs of digits as numbers; total, also between digits and letters."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(
        (0, int(part)) if part.isdecimal() and part.isascii() else (1, part) for part in parts if part
    )


def element_name(text: str) -> str:
    """A tool's free text as a node's name: what `ElementId` keeps for itself (blanks, `/`, `:`, `--`) becomes `_`.

    Raises:
        InputError: nothing is left.
    """
    name = re.sub(rf"[\s/:{UNPRINTABLE}]+|-{{2,}}", "_", text.strip()).strip("_")
    if not name:
        raise InputError(f"{text[:40]!r} cannot be a name")
    return name
