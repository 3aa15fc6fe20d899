"""Reading the JSON of `ip` and `tc` without trusting it: every surprise becomes one line that names the host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nettune.errors import InputError
from topology.capture import HostCapture

Row = dict[str, Any]


@contextmanager
def reading(host: str, what: str) -> Iterator[None]:
    """Turn errors of content inside the block into one InputError that names the host and the source."""
    try:
        yield
    except InputError as error:
        text = str(error)
        raise error if text.startswith(f"{host}: ") else InputError(f"{host}: `{what}`: {text}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{host}: `{what}`: unexpected content: {type(error).__name__}: {error}") from error


def rows_of(capture: HostCapture, command: str) -> list[Row]:
    """Objects of the list that a command printed; the empty ones that `ip` prints for what it filters are left out.

    Raises:
        InputError: the command was not read whole, or printed something else.
    """
    with reading(capture.host, command):
        found = capture.json_of(command)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise InputError(f"{capture.host}: `{command}` printed no list of objects; was its output cut?")
        return [row for row in found if row]


def word(row: Row, key: str, default: str | None = None) -> str:
    """A non-empty text without spaces.

    Raises:
        InputError: absent (and no default), or of another kind.
    """
    value = row.get(key, default)
    if not isinstance(value, str) or (value != default and re.fullmatch(r"\S+", value) is None):
        raise InputError(f"{key!r} is {value!r:.60}, not a name")
    return value


def words(row: Row, key: str) -> tuple[str, ...]:
    """A list of texts; absent is empty.

    Raises:
        InputError: of another kind.
    """
    value = row.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{key!r} is {value!r:.60}, not a list of names")
    return tuple(value)


def whole(row: Row, key: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number within bounds.

    Raises:
        InputError: absent (and no default), of another kind, or outside.
    """
    value = row.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"{key!r} is {value!r:.60}, not a whole number from {low} to {high}")
    return value
