"""Shell text into commands of words, as far as settings of variables need it: quotes, comments, expansions.

No shell is run and no file is read. What is not known is taken the way that sets more: both branches of an `if`, the
bodies of loops, functions and subshells. A here-document is a text of its own: its quotes end with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

_NAME = re.compile(r"\{?([A-Za-z_][A-Za-z0-9_]*)(\}?)")
_DEFAULT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*):?([-=])([^${}`'\"\\]*)\}")
"""`${NAME:-default}`, `${NAME:=default}` whose default is plain."""
_HEREDOC = re.compile(r"<<(-?)[ \t]*\\?(['\"]?)([A-Za-z0-9_.!+-]+)\2")
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "E": "\x1b",
}
_BLANKS = set(" \t")  # a carriage return is part of a word, as in bash
_ASSIGNS = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SPLIT = "\0"
"""Where an expansion without quotes is split into words."""
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
    """Words between separators; a comment is a command of one word that begins with `#`.

    Attributes:
        document: the here-document that it reads; its line is that of its first line.
    """

    words: tuple[Word, ...]
    document: Word | None = None


def commands(text: str, variables: MutableMapping[str, str], first_line: int = 1) -> Iterator[Command]:
    """The commands of a script, in order.

    Args:
        text: the script; quotes that do not end are closed by its end.
        variables: shell variables whose value is known when the scan comes to them; `${NAME:=default}` adds to them.
        first_line: number of the first line.
    """
    words: list[Word] = []
    reader: tuple[Word, ...] = ()  # the command of a here-document, where another one follows on its line
    waiting: re.Match[str] | None = None  # a here-document that begins on the next line
    ends = {line.lstrip("\t") for line in text.split("\n")} if "<<" in text else set[str]()
    at, line = 0, first_line
    while at < len(text):
        char = text[at]
        if char in _SEPARATORS:
            line += char == "\n"
            at += 1
            document = None
            if waiting is not None and char == "\n":
                document, at, line = _document(text, at, line, waiting)
                if reader:
                    yield Command(reader, document)
                    reader, document = (), None
                waiting = None
            elif waiting is not None and not reader:
                reader, words = tuple(words), []
            if words:
                yield Command(tuple(words), document)
                words = []
        elif char in _BLANKS:
            at += 1
        elif text.startswith("\\\n", at):
            at, line = at + 2, line + 1
        elif char == "#":
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield Command((Word(text[at:end], line),))
            at = end
        elif text.startswith("<<<", at):
            _, at, line = _word(text, at + 3 + (text[at + 3 : at + 4] == " "), line, variables)
        elif text.startswith("<<", at) and (match := _HEREDOC.match(text, at)) and match[3] in ends:
            waiting, at = match, match.end()
        else:
            found, at, line = _word(text, at, line, variables)
            words += found
    if words:
        yield Command(tuple(words))


def _document(text: str, at: int, line: int, head: re.Match[str]) -> tuple[Word, int, int]:
    """The body of a here-document up to the line that is its word; to the text's end where none is."""
    begin, first = at, line
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        last = text[at:end].lstrip("\t") if head[1] else text[at:end]
        if last == head[3]:
            return Word(text[begin:at], first), min(end + 1, len(text)), line + 1
        at, line = end + 1, line + 1
    return Word(text[begin:], first), len(text), line


def _word(text: str, at: int, line: int, variables: MutableMapping[str, str]) -> tuple[list[Word], int, int]:
    """The word at a place: several where an expansion is split, none where it is empty."""
    parts: list[str] = []
    begun, expands, begin = line, False, at
    quote = ""
    while at < len(text):
        char = text[at]
        if not quote and (
            char in _BLANKS or char in _SEPARATORS or (at > begin and text.startswith("<<", at))
        ):
            break
        line += char == "\n"
        if quote == "'":
            quote = "" if char == "'" else quote
            if char != "'":
                parts.append(char)
            at += 1
        elif not quote and text.startswith("$'", at):
            decoded, end = _ansi(text, at + 2)
            line += text.count("\n", at + 1, end)
            parts.append(decoded)
            at = end
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
        elif char == "$" and (given := _DEFAULT.match(text, at + 1)):
            value = variables.get(given[1]) or given[3]
            if given[2] == "=":
                variables[given[1]] = value
            parts.append(_split(value, quote))
            at = given.end()
        elif char == "$" and (name := _NAME.match(text, at + 1)) and text[at + 1 : at + 2] != "}":
            whole = (name[0][0] == "{") == (name[2] == "}")
            known = variables.get(name[1]) if whole else None
            expands = expands or known is None
            parts.append(text[at : name.end()] if known is None else _split(known, quote))
            at = name.end()
        else:
            expands = expands or (char == "$" and text[at + 1 : at + 2] in set("{1234567890@*#?!"))
            parts.append(char)
            at += 1
    joined = "".join(parts)
    if _ASSIGNS.match(joined.partition(_SPLIT)[0]) and not text.startswith("$", begin):
        return [Word(joined.replace(_SPLIT, " "), begun, expands)], at, line
    return [Word(one, begun, expands) for one in joined.split(_SPLIT)], at, line


def _split(value: str, quote: str) -> str:
    """The value of an expansion; without quotes around it, blanks end words."""
    return value if quote else _SPLIT.join(value.split())


def _ansi(text: str, at: int) -> tuple[str, int]:
    """What `$'...'` stands for, and where it ends; `at` is behind its first quote."""
    end = at
    while end < len(text) and text[end] != "'":
        end += 1 + (text[end] == "\\")

    def one(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1] or match[2], 16 if match[1] else 8) & 0xFF)
        return _ANSI_LETTERS.get(match[3], match[3])

    return _ANSI.sub(one, text[at:end]), min(end + 1, len(text))


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
