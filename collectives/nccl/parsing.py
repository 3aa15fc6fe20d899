"""What NCCL makes of a value: numbers are read by `strtoll(text, NULL, 0)`, and hardly anything is ever reported.

NVIDIA/nccl src/misc/param.cc, ncclLoadParam (2.30.7): an empty value is the default; only a number beyond 64 bits is
reported (`Invalid value .. using default ..`); what follows the digits is ignored, and where there are none the value is
0. So `NCCL_IB_TIMEOUT=abc` is 0, `022` is 18 (octal), `4M` is 4. NCCL_ALGO and NCCL_PROTO have a grammar of their own
(docs/userguide/source/env.rst), from 2.24 on with an error for what is not known.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collectives.nccl.tables.algorithms import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from collectives.nccl.variables import Variable, Version

# isspace of the C locale; ASCII digits only: strtoll knows no others.
_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX](?=[0-9a-fA-F]))?", re.ASCII)
_DIGITS = {8: re.compile(r"[0-7]+"), 10: re.compile(r"[0-9]+"), 16: re.compile(r"[0-9a-fA-F]+")}
_MOST_DIGITS = 64
"""Longer runs of digits are beyond 64 bits in any base, or lead with that many zeros."""


@dataclass(frozen=True, slots=True)
class Number:
    """What strtoll with base 0 gives.

    Attributes:
        value: 0 where there are no digits; the nearest 64-bit number where it is out of range.
        rest: what follows the digits; the whole text where there are none.
        base: 8, 10 or 16.
        out_of_range: errno is ERANGE.
    """

    value: int
    rest: str
    base: int
    out_of_range: bool = False


def strtoll(text: str) -> Number:
    """What C's function of that name gives with base 0."""
    head = _NUMBER.match(text)
    if head is None:  # pragma: no cover (it matches the empty text)
        return Number(0, text, 10)
    at = head.end()
    base = 16 if head[2] else 8 if text[at : at + 1] == "0" else 10
    digits = _DIGITS[base].match(text, at)
    if digits is None:
        return Number(0, text, 10)
    significant = digits[0].lstrip("0")
    magnitude = int(significant[:_MOST_DIGITS] or "0", base)
    value = -magnitude if head[1] == "-" else magnitude
    limited = max(-(2**63), min(2**63 - 1, value))
    return Number(limited, text[digits.end() :], base, limited != value)


class Trap(enum.StrEnum):
    """In which way a value is not what it looks like."""

    NONE = "none"
    EMPTY = "empty"  # the default
    NO_NUMBER = "no number"  # 0
    QUOTES = "quotes"  # part of the value, so 0
    TRUTH = "word of truth"  # `true` and `false` are both 0
    UNIT = "unit"  # 4M is 4
    FRACTION = "fraction or exponent"  # 1e3 is 1
    REST = "rest"  # 22 # comment
    OCTAL = "octal"  # 022 is 18
    TOO_LONG = "beyond 64 bits"  # the default, and reported


@dataclass(frozen=True, slots=True)
class Reading:
    """A number as NCCL takes it.

    Attributes:
        value: the number; None for the default.
        trap: why it is not what it looks like.
        meant: the number that a person would read, where one can be told.
    """

    value: int | None
    trap: Trap
    meant: int | None = None


_TRUTHS = {"true": 1, "yes": 1, "on": 1, "y": 1, "t": 1, "enable": 1, "enabled": 1}
_TRUTHS |= {"false": 0, "no": 0, "off": 0, "n": 0, "f": 0, "disable": 0, "disabled": 0}
_UNIT = re.compile(r"\s*([kKmMgG])(?:i?[bB])?\s*")
_SCALE = {"k": 2**10, "m": 2**20, "g": 2**30}


def read_number(text: str) -> Reading:
    """How NCCL takes the value of a numeric variable."""
    if not text:
        return Reading(None, Trap.EMPTY)
    number = strtoll(text)
    if number.out_of_range:
        return Reading(None, Trap.TOO_LONG)
    plain = text.strip()
    if number.rest == text:
        if plain.lower() in _TRUTHS:
            return Reading(0, Trap.TRUTH, _TRUTHS[plain.lower()])
        if plain[:1] in {"'", '"'}:
            inner = strtoll(plain.strip("'\""))
            return Reading(0, Trap.QUOTES, inner.value if inner.rest == "" else None)
        return Reading(0, Trap.NO_NUMBER)
    rest = number.rest.strip()
    if rest:
        if unit := _UNIT.fullmatch(number.rest):
            return Reading(number.value, Trap.UNIT, number.value * _SCALE[unit[1].lower()])
        if re.match(r"[eE.][0-9]", rest):
            return Reading(number.value, Trap.FRACTION, _whole(plain))
        if number.base == 8 and re.match(r"[89]", rest):  # 09: octal digits end before the 9
            return Reading(number.value, Trap.OCTAL, _decimal(plain))
        return Reading(number.value, Trap.REST, number.value)
    if number.base == 8 and number.value:
        return Reading(number.value, Trap.OCTAL, _decimal(plain))
    return Reading(number.value, Trap.NONE, number.value)


def _whole(text: str) -> int | None:
    if len(text) > 20:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if abs(value) < 2**63 and value == int(value) else None


def _decimal(text: str) -> int | None:
    digits = text.lstrip("+-0")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None


# Fields that are narrower than the number, by width in bits (ibv_qp_attr's uint8 first): nccl.md and verbs.h.
_FIELD_BITS = {"NCCL_IB_TIMEOUT": 5, "NCCL_IB_RETRY_CNT": 3}


def in_hardware(variable: Variable, value: int) -> int:
    """What is left of a number in the field of the queue pair that it is copied to: 276 as a timeout is 20."""
    bits = _FIELD_BITS.get(variable.name)
    return value if bits is None else value & ((1 << bits) - 1)


def used_value(variable: Variable, text: str, version: Version) -> int | None:
    """The number that NCCL goes by, also where the variable is not set (`text` empty); None where it has no number."""
    reading = read_number(text)
    if reading.value is not None:
        return reading.value
    default = variable.default_in(version)
    return strtoll(default).value if default else None


@dataclass(frozen=True, slots=True)
class Selection:
    """NCCL_ALGO or NCCL_PROTO as NCCL 2.24 and later take it.

    Attributes:
        chosen: (function or empty for all, names, whether they are excluded), in order.
        unknown: tokens that are neither a name nor a function, or a list without function that is not the first.
    """

    chosen: tuple[tuple[str, tuple[str, ...], bool], ...]
    unknown: tuple[str, ...]


def read_selection(text: str, names: Iterable[str]) -> Selection:
    """`[list][;function:list]*`, a list `a,b` or `^a,b`, in any case."""
    known = {name.lower(): name for name in names}
    functions = {name.lower(): name for name in FUNCTIONS}
    chosen, unknown = [], []
    for number, part in enumerate(text.split(";")):
        head, colon, rest = part.partition(":")
        function = functions.get(head.lower(), "") if colon else ""
        if (colon and not function) or (not colon and number):
            unknown.append(head if colon else part)
            continue
        listed = rest if colon else part
        tokens = [token for token in listed.removeprefix("^").split(",") if token]
        unknown += [token for token in tokens if token.lower() not in known]
        found = tuple(known[token.lower()] for token in tokens if token.lower() in known)
        chosen.append((function, found, listed.startswith("^")))
    return Selection(tuple(chosen), tuple(unknown))
