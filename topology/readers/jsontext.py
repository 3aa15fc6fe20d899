"""JSON of unknown origin: bounded, and errors name the line."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from topology.readers.source import Source

MAX_VALUES = 6_000_000
"""Commas and brackets of an input: its objects then stay under 1 GB. A dump of 5,000 Kubernetes nodes has 3 million."""

MAX_NESTING = 200

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n\r]*+")
_TEMPLATE = re.compile(r"\{\{|\{%")


def load(source: Source) -> Any:
    """The value that an input holds.

    Raises:
        InputError: no JSON (also a template of it, or cut short), nested too deep, too large, NaN or a number of
            thousands of digits.
    """
    values = load_all(source)
    if len(values) > 1:
        _, end = json.JSONDecoder().raw_decode(source.text, _skip_blanks(source.text, 0))
        line = source.text.count("\n", 0, _skip_blanks(source.text, end)) + 1
        raise source.error("holds a JSON value and then a second one; give each a file of its own", line)
    return values[0]


def load_all(source: Source) -> list[Any]:
    """The values of an input that holds one or several one after the other (pages of an API, appended).

    Raises:
        InputError: as `load`.
    """
    text = source.text
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise source.error(
            f"has more than {MAX_VALUES:,} JSON values; give the part that describes the network"
        )
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    values, position = [], _skip_blanks(text, 0)
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            values.append(value)
            position = _skip_blanks(text, position)
    except json.JSONDecodeError as error:
        _refuse(source, error)
    except RecursionError:
        line = _line_of_nesting(text)
        raise source.error(f"is nested deeper than {MAX_NESTING} levels", line) from None
    except ValueError as error:
        raise source.error(_number(str(error)), _line_of_number(text, position)) from None
    if (half := _half_of_pair(text)) >= 0:
        line = text.count("\n", 0, half) + 1
        raise source.error(
            "has half of a surrogate pair (\\ud800 to \\udfff alone), which is no character", line
        )
    return values


def looks_like(source: Source, keys: re.Pattern[str]) -> bool:
    """Whether an input begins as JSON and its beginning has one of the keys."""
    return source.head.lstrip()[:1] in {"{", "["} and keys.search(source.head) is not None


def line_of(source: Source, path: list[str | int]) -> int | None:
    """The line on which the element at a path begins: `[0, "Instances", 3]` of the first value of the input.

    Looks again at the text, so it is for errors only; None where the path is not there.
    """
    text = source.text
    try:
        position = _skip_blanks(text, 0)
        for _ in range(int(path[0])):
            _, after = json.JSONDecoder().raw_decode(text, position)
            position = _skip_blanks(text, after)
        position = _seek(text, position, path[1:])
    except (ValueError, IndexError, RecursionError):
        return None
    return text.count("\n", 0, position) + 1


def _seek(text: str, position: int, path: list[str | int]) -> int:
    decode = json.JSONDecoder().raw_decode
    for step in path:
        inside = _skip_blanks(text, position + 1)
        if text[position] != ("{" if isinstance(step, str) else "["):
            raise ValueError(step)
        index = 0
        while True:
            key: Any = index
            if isinstance(step, str):
                key, colon = decode(text, inside)
                inside = _skip_blanks(text, _skip_blanks(text, colon) + 1)
            if key == step:
                position = inside
                break
            _, after = decode(text, inside)
            inside = _skip_blanks(text, _skip_blanks(text, after) + 1)
            index += 1
    return position


def _half_of_pair(text: str) -> int:
    """Where an escape stands that is half a character, which no file or terminal takes; -1 nowhere."""
    if _SURROGATE.search(text) is None:
        return -1
    halves = (match for match in _ESCAPE.finditer(text) if match[1])
    return next((match.start() for match in halves), -1)


def _skip_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return position if match is None else match.end()


def _refuse(source: Source, error: json.JSONDecodeError) -> NoReturn:
    if _TEMPLATE.search(source.text):
        raise source.error("is a template ({{ or {%): render it first, then give the result", error.lineno)
    if not source.text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        raise source.error("the JSON is cut short: its end is missing", error.lineno)
    raise source.error(f"is no JSON: {error.msg} at column {error.colno}", error.lineno)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _number(message: str) -> str:
    if message in {"NaN", "Infinity", "-Infinity"}:
        return f"{message} is no JSON number"
    return f"has a number of more than {sys.get_int_max_str_digits()} digits"


def _line_of_number(text: str, position: int) -> int | None:
    limit = max(sys.get_int_max_str_digits(), 1)
    match = re.compile(rf"[0-9]{{{limit},}}+|NaN|Infinity").search(text, position)
    return None if match is None else text.count("\n", 0, match.start()) + 1


def _line_of_nesting(text: str) -> int | None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth > MAX_NESTING:
            return text.count("\n", 0, match.start()) + 1
    return None
