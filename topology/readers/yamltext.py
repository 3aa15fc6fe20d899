"""YAML of unknown origin: bounded, every scalar a string as it is written, mappings know their line.

YAML's own types would damage names: `0123` is 83, `12:30` is 750, `on` is true, and a date becomes a date. So nothing
is converted here, which also leaves merge keys (`<<`) as plain keys.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topology.readers.source import Source

MAX_VALUES = 300_000
"""Lines, commas and brackets of an input: PyYAML needs 5 us and 400 bytes for each value, ten times as much as JSON."""

MAX_EXPANDED = 2_000_000
"""Values after each alias is written out."""

_TEMPLATE = re.compile(r"\{\{|\{%")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Mapping(dict[str, Any]):
    """A mapping that knows the line on which it begins."""

    __slots__ = ("line",)

    line: int


def load_all(source: Source, *, templates: bool = False) -> list[Any]:
    """The documents of an input: `Mapping`, list and str.

    Args:
        source: the input.
        templates: whether `{{` may stand in values (annotations of Kubernetes objects).

    Raises:
        InputError: no YAML (also a template of it), too large, a key twice, aliases that multiply.
    """
    import yaml  # type: ignore[import-untyped]

    text = source.text
    if not templates:
        refuse_template(source)
    if sum(map(text.count, "\n,[{")) > MAX_VALUES:
        raise source.error(f"has more than {MAX_VALUES:,} lines and values of YAML; give it as JSON")
    try:
        documents = list(yaml.load_all(text, Loader=_loader()))
    except yaml.MarkedYAMLError as error:
        refuse_template(source)
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise source.error(f"is no YAML: {error.problem or error.context}", line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise source.error(f"is no YAML: character {error.character!r} is not allowed", line) from None
    except yaml.YAMLError as error:
        raise source.error(f"is no YAML: {' '.join(str(error).split())[:100]}") from None
    except RecursionError:
        raise source.error("is nested too deep") from None
    if "&" in text and "*" in text and _expanded(documents) > MAX_EXPANDED:
        raise source.error(f"its aliases (*name) multiply to more than {MAX_EXPANDED:,} values")
    return [document for document in documents if not is_null(document)]


def is_null(value: Any) -> bool:
    """Whether a value stands for none: `null`, `~` or nothing at all."""
    return value is None or (isinstance(value, str) and value in _NULLS)


def refuse_template(source: Source) -> None:
    """Refuse a file that still has to be rendered.

    Raises:
        InputError: it holds `{{` or `{%`.
    """
    match = _TEMPLATE.search(source.text)
    if match is not None:
        line = source.text.count("\n", 0, match.start()) + 1
        raise source.error(f"is a template ({match[0]}): render it first, then give the result", line)


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Mapping:  # noqa: ARG002 (PyYAML's signature)
            mapping = Mapping()
            mapping.line = node.start_mark.line + 1
            for key_node, value_node in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is no plain text", key_node.start_mark
                    )
                key = str(key_node.value)
                if key in mapping:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key[:40]!r} appears twice", key_node.start_mark
                    )
                mapping[key] = self.construct_object(value_node, deep=True)
            return mapping

    return Loader


def _expanded(documents: list[Any]) -> int:
    """Number of values when aliases are written out; each object is visited once."""
    sizes: dict[int, int] = {}
    stack: list[tuple[Any, bool]] = [(documents, False)]
    while stack:
        value, done = stack.pop()
        if not isinstance(value, (dict, list)) or id(value) in sizes:
            continue
        children = list(value.values()) if isinstance(value, dict) else value
        if done:
            sizes[id(value)] = 1 + sum(sizes.get(id(child), 1) for child in children)
        else:
            stack.append((value, True))
            stack.extend((child, False) for child in children)
    return sizes[id(documents)]
