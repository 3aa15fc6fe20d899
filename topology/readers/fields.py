"""Checked access to parsed JSON or YAML: what is of the wrong type is an error that names the line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError
from topology.naming import element_name
from topology.readers import jsontext
from topology.readers.yamltext import Mapping, is_null

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.readers.source import Source

Path = tuple[str | int, ...]
"""Where a value is: the number of the document, then keys and indices."""

_NO_PORT = re.compile(r"\s|--|[\x00-\x1f\x7f]")


class Fields:
    """Reads fields of the documents of one input; give them when they are YAML: mappings know their lines."""

    def __init__(self, source: Source, documents: Sequence[Any] = ()) -> None:
        self._source = source
        self._documents = documents

    def error(self, what: str, path: Path, item: Any = None) -> InputError:
        """An error about the value at a path, to raise."""
        if isinstance(item, Mapping):
            line: int | None = item.line
        elif self._documents:
            line = self._line(path)
        else:
            # a key may be spelt otherwise in the text (OCI), then the line of what it is in
            ways = (list(path[:length]) for length in range(len(path), 0, -1))
            line = next((found for way in ways if (found := jsontext.line_of(self._source, way))), None)
        return self._source.error(what, line)

    def _line(self, path: Path) -> int:
        """Of the innermost mapping on the way to a path."""
        line = 1
        value: Any = self._documents
        for step in path:
            try:
                value = value[step]
            except (LookupError, TypeError):
                break
            line = value.line if isinstance(value, Mapping) else line
        return line

    def entries(self, value: Any, path: Path) -> list[tuple[Path, dict[str, Any]]]:
        """The mappings of a list (none where the list is null), each with its path."""
        return [(at, self.mapping(item, at)) for at, item in self.items(value, path)]

    def items(self, value: Any, path: Path) -> list[tuple[Path, Any]]:
        """The values of a list (none where the list is null), each with its path."""
        if is_null(value):
            return []
        if not isinstance(value, list):
            raise self.error(f"{_name(path)} must be a list", path)
        return [((*path, index), item) for index, item in enumerate(value)]

    def mapping(self, value: Any, path: Path) -> dict[str, Any]:
        """A mapping; an empty one where the value is null."""
        if is_null(value):
            return {}
        if not isinstance(value, dict):
            raise self.error(f"{_name(path)} must be a mapping", path)
        return value

    def text(self, item: dict[str, Any], key: str, path: Path) -> str:
        """A text; empty where the key is missing or null."""
        value = item.get(key)
        if is_null(value):
            return ""
        if not isinstance(value, str):
            raise self.error(f"{key} must be a text", (*path, key), item)
        return value

    def texts(self, item: dict[str, Any], key: str, path: Path) -> list[str]:
        """A list of texts; empty where the key is missing or null. Null entries become empty texts."""
        found = []
        for at, value in self.items(item.get(key), (*path, key)):
            if not isinstance(value, str) and not is_null(value):
                raise self.error(f"{key} must be a list of texts", at, item)
            found.append("" if is_null(value) else value)
        return found

    def element(self, name: str, path: Path, item: Any = None) -> str:
        """A name as that of a node."""
        try:
            return element_name(name)
        except InputError as error:
            raise self.error(str(error), path, item) from None

    def port(self, name: str, path: Path, item: Any = None) -> str:
        """A name as that of a port; it stays as it is."""
        if not name or _NO_PORT.search(name):
            raise self.error(f"{name[:60]!r} cannot be the name of a port", path, item)
        return name


def _name(path: Path) -> str:
    keys = [str(step) for step in path[1:] if isinstance(step, str)]
    return keys[-1][:60] if keys else "the document"
