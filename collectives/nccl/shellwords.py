"""Shell text into commands of words, as far as settings of variables need it: quotes, comments, expansions.

No shell is run and no file is read. Here-documents are read like the script around them: they mostly are scripts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAME = re.compile(r"\{?([A-Za-z_][A-Za-z0-9_]*)(\}?)")
_SEPARATORS = set(";&|()\n")
_ESCAPED_IN_QUOTES = set('"\\$`')


@dataclass(frozen=True, slots=True)
class Word:
    """One word without its quotes; `expands` where something in it could not be followed."""

    text: str
    line: int
    expands: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """Words between separators; a comment is a command of one word that begins with `#`."""

    words: tuple[Word, ...]


def commands(text: str, value_of: Callable[[str], str | None], first_line: int = 1) -> Iterator[Command]:
    """The commands of a script, in order.

    Args:
        text: the script; quotes that do not end are closed by its end.
        value_of: value of a shell variable when the scan comes to it; None where it is not known.
        first_line: number of the first line.
    """
    words: list[Word] = []
    at, line = 0, first_line
    while at < len(text):
        char = text[at]
        if char in _SEPARATORS:
            if words:
                yield Command(tuple(words))
                words = []
            line += char == "\n"
            at += 1
        elif char.isspace():
            at += 1
        elif text.startswith("\\\n", at):
            at, line = at + 2, line + 1
        elif char == "#":
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            if words:
                yield Command(tuple(words))
                words = []
            yield Command((Word(text[at:end], line),))
            at = end
        else:
            word, at, line = _word(text, at, line, value_of)
            words.append(word)
    if words:
        yield Command(tuple(words))


def _word(text: str, at: int, line: int, value_of: Callable[[str], str | None]) -> tuple[Word, int, int]:
    parts: list[str] = []
    begun, expands = line, False
    quote = ""
    while at < len(text):
        char = text[at]
        if not quote and (char.isspace() or char in _SEPARATORS):
            break
        line += char == "\n"
        if quote == "'":
            quote = "" if char == "'" else quote
            if char != "'":
                parts.append(char)
            at += 1
        elif char == quote:
            quote, at = "", at + 1
        elif not quote and char in "'\"":
            quote, at = char, at + 1
        elif char == "\\" and at + 1 < len(text):
            follows = text[at + 1]
            if quote and follows not in _ESCAPED_IN_QUOTES and follows != "\n":
                parts.append(char)
            if follows != "\n":
                parts.append(follows)
            line += follows == "\n"
            at += 2
        elif char == "`" or text.startswith("$(", at):
            end = _end_of_substitution(text, at)
            line += text.count("\n", at + 1, end)
            parts.append(text[at:end])
            expands, at = True, end
        elif char == "$" and (name := _NAME.match(text, at + 1)) and text[at + 1 : at + 2] != "}":
            whole = (name[0][0] == "{") == (name[2] == "}")
            value = value_of(name[1]) if whole else None
            expands = expands or value is None
            parts.append(text[at : name.end()] if value is None else value)
            at = name.end()
        else:
            expands = expands or (char == "$" and text[at + 1 : at + 2] in set("{1234567890@*#?!"))
            parts.append(char)
            at += 1
    return Word("".join(parts), begun, expands), at, line


def _end_of_substitution(text: str, at: int) -> int:
    """Where a command substitution ends; the text's end where it does not."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        return len(text) if end < 0 else end + 1
    depth = 0
    for position in range(at + 1, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)
