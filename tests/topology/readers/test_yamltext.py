"""YAML of unknown origin: bounded, names stay as they are written."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from topology.readers import Source
from topology.readers.yamltext import MAX_VALUES, load_all


def test_names_stay_as_written() -> None:
    """Octal, sexagesimal, boolean and date look-alikes are names, and stay text."""
    text = "- 0123\n- 12:30:45\n- on\n- 2026-01-01\n- 1e3\n- null\n- 0x10\n"
    assert load_all(Source("f", text)) == [["0123", "12:30:45", "on", "2026-01-01", "1e3", "null", "0x10"]]


def test_mappings_know_their_line() -> None:
    """Each mapping has the line on which it begins."""
    (document,) = load_all(Source("f", "# comment\na:\n  - b: 1\n\n  - c: 2\n"))
    assert [document.line, *(item.line for item in document["a"])] == [2, 3, 5]


def test_empty_documents_are_skipped() -> None:
    """A file of several documents may have empty ones."""
    assert load_all(Source("f", "---\n---\na: 1\n---\n~\n")) == [{"a": "1"}]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [\n", 2, "no YAML"),
        ("a: 1\na: 2\n", 2, "twice"),
        ("x: 1\n? [a]\n: b\n", 2, "no plain text"),
        ("x: 1\na\x07: b\n", 2, "not allowed"),
        ("x: 1\na: *b\n", 2, "undefined alias"),
        ("a: &a [*a]\n", 1, "recursive"),
        ("x: 1\na: {{ .Values.a }}\n", 2, "template"),
        ("x: 1\n{% for i in n %}\n", 2, "template"),
        ("[" * 200_000, 1, "nesting"),
        ("- " * 200_000, 1, "nesting"),
        ('a: 1\nb: "c', 2, "no YAML"),
    ],
)
def test_bad_yaml_names_its_line(text: str, line: int, words: str) -> None:
    """What cannot be read is one error that says why, with the line."""
    with pytest.raises(InputError, match=words) as caught:
        load_all(Source("f.yaml", text))
    assert (caught.value.file, caught.value.line) == ("f.yaml", line)


def test_objects_are_never_made() -> None:
    """Tags that make Python objects are only text."""
    assert load_all(Source("f", "!!python/object/apply:os.system [ls]\n")) == [["ls"]]


def test_aliases_that_multiply_are_refused() -> None:
    """A billion laughs: a few lines that stand for 10^9 values; merge keys do not multiply either."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{after}: &{after} [{','.join([f'*{name}'] * 10)}]"
        for name, after in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    with pytest.raises(InputError, match="multiply"):
        load_all(Source("f", "\n".join(lines)))
    assert load_all(Source("f", "a: &a {k: v}\nb:\n  <<: *a\n")) == [
        {"a": {"k": "v"}, "b": {"<<": {"k": "v"}}}
    ]


def test_large_yaml_is_refused() -> None:
    """YAML of more values than can be parsed in seconds is asked for as JSON."""
    with pytest.raises(InputError, match="give it as JSON"):
        load_all(Source("f", "- x\n" * (MAX_VALUES + 1)))


def test_braces_in_values_of_kubernetes_objects() -> None:
    """Where values may hold templates (annotations), they are no reason to refuse the file."""
    source = Source("f", "a: '{{ kept }}'\n")
    assert load_all(source, templates=True) == [{"a": "{{ kept }}"}]
