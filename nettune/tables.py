"""Files that people write: TOML tables, with the line of whatever is wrong in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def read_toml(path: Path | str) -> tuple[dict[str, Any], str]:
    """(table, its text) of a TOML file.

    Raises:
        InputError: `FILE:LINE: what is wrong` (the line where it can be found).
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text), text
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise InputError("is no UTF-8 text; write it as TOML", path) from None
    except RecursionError:
        raise InputError("is nested too deeply; write a flat list of keys", path) from None
    except ValueError as error:
        # tomllib ends its message with "(at line 3, column 7)" or "(at end of document)".
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1 if found else None
        what = str(error)[: found.start()] if found else str(error)
        raise InputError(f"is no TOML: {what}", path, line) from None


def line_of(key: str, text: str) -> int | None:
    """Line on which a key is set; None when it is not found."""
    pattern = re.compile(rf"""\s*(?:\[+\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)


def line_named(message: str, keys: Iterable[str], text: str) -> int | None:
    """Line of the first of these keys that the message names as a whole word and the text sets."""
    named = (line_of(key, text) for key in keys if re.search(rf"\b{re.escape(key)}\b", message))
    return next((line for line in named if line is not None), None)


_WANTED: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: 'words in quotes, like "ring" or "100mbit"',
    str | int: 'a size like "4M", or a whole number of bytes',
    str | tuple[str, ...]: "words in quotes, or a list of them",
    list[str]: 'a list of words, like ["dp"]',
    list[float]: "a list of numbers, like [3, 1]",
}


def explain(error: ErrorDetails, known: Mapping[str, Any]) -> str:
    """One line out of a pydantic error about a flat table.

    Args:
        error: one of `ValidationError.errors`.
        known: the table's keys; its values are pydantic's fields, or None where a key's type is not told.
    """
    key = ".".join(str(part) for part in error["loc"][:1])
    given = f"not {error['input']!r:.60}"
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}; known keys: {', '.join(known)}"
    if error["type"] == "missing":
        return f"{key}: is missing"
    if error["type"] == "greater_than_equal":
        return f"{key}: must be at least {error['ctx']['ge']}, {given}"
    if error["type"].endswith("_type") or error["type"] == "int_from_float":
        asked = getattr(known.get(key), "annotation", None)
        wanted = next((words for kind, words in _WANTED.items() if asked in (kind, kind | None)), "")
        if wanted:
            return f"{key}: must be {wanted}, {given}"
    return f"{key}: {error['msg'][:1].lower()}{error['msg'][1:]}, {given}"
