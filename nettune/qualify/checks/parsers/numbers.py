"""Numbers as tools print them."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_MAX_DIGITS = 40


def whole(text: str) -> int | None:
    """A whole number, decimal (thousands separators allowed) or 0x hexadecimal; None where it is none (`N/A`)."""
    word = text.strip().replace(",", "")[: _MAX_DIGITS + 1]
    if len(word) > _MAX_DIGITS:
        return None
    try:
        return int(word, 16) if word.lower().startswith("0x") else int(word)
    except ValueError:
        return None


def real(text: str) -> float | None:
    """The first number in a text, `54 [-5..75]` is 54; None where there is none.

    `15E-255` is what mlxlink prints for an error rate of zero.
    """
    match = _NUMBER.search(text[:200])
    if match is None:
        return None
    value = float(match[0].replace(",", ""))
    return value if abs(value) < float("inf") else None


def reals(text: str) -> list[float]:
    """All numbers of a list with commas between, `1.88,1.98`; not for thousands separators."""
    return [value for part in text[:2000].split(",") if (value := real(part)) is not None]


def rate_gbps(text: str) -> float:
    """`400 Gb/sec (4X NDR)`, `200G`, `400` -> Gbit/s; 0 where not told."""
    match = re.match(r"\s*(\d{1,6}(?:\.\d{1,3})?)", text)
    return float(match[1]) if match else 0.0
