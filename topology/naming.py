"""Order of names with numbers in them: node2 before node10."""

from __future__ import annotations

import re


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that compares runs of digits as numbers; total, also between digits and letters."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(
        (0, int(part)) if part.isdecimal() and part.isascii() else (1, part) for part in parts if part
    )
