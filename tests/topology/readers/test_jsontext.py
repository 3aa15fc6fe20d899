"""JSON of unknown origin: bounded, and errors name the line."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from topology.readers import Source
from topology.readers.jsontext import MAX_VALUES, line_of, load, load_all


def test_values_one_after_the_other() -> None:
    """Pages of an API that were appended to one file are several values."""
    assert load_all(Source("f", '{"a": 1}\n[2]\n')) == [{"a": 1}, [2]]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"a": [1,\n2', 2, "cut short"),
        ('{"a":\n"b', 2, "cut short"),
        ("[\n1,]", 2, "no JSON"),
        ('{"a": 1}\n{"b": 2}', 2, "second one"),
        ('{\n"a": {{ .Values.a }}}', 2, "template"),
        ('{"a":\n{% if x %}1{% endif %}}', 2, "template"),
        ("[\n\n" + "[" * 100_000, 3, "nested deeper"),
        ('{"a":' * 100_000, 1, "nested deeper"),
        ("[1,\n" + "7" * 5000 + "]", 2, "digits"),
        ("[\nNaN]", 2, "no JSON number"),
        ("[\n-Infinity]", 2, "no JSON number"),
        ('["a", "' + "\\" * 1_000_001, 1, "cut short"),
    ],
)
def test_bad_json_names_its_line(text: str, line: int, words: str) -> None:
    """What cannot be read is one error that says why, with the line."""
    with pytest.raises(InputError, match=words) as caught:
        load(Source("f.json", text))
    assert (caught.value.file, caught.value.line) == ("f.json", line)


def test_strings_with_brackets_do_not_nest() -> None:
    """Brackets inside strings are no nesting."""
    text = '["' + "[" * 5000 + '\\"", 1]'
    assert load(Source("f", text)) == ["[" * 5000 + '"', 1]


def test_too_many_values_are_refused_before_they_are_made() -> None:
    """An input whose objects would need gigabytes is refused."""
    with pytest.raises(InputError, match="more than"):
        load(Source("f", "[" + "[]," * (MAX_VALUES // 2 + 1) + "1]"))


def test_line_of_a_path() -> None:
    """A path leads to the line on which its element begins, in the right one of several values; else None."""
    source = Source("f", '{"x": 0}\n{\n "a": [1,\n 2,\n {"b, [": 3,\n "c": 4}]}')
    assert line_of(source, [1, "a", 2, "c"]) == 6
    assert line_of(source, [1, "a", 1]) == 4
    assert line_of(source, [0]) == 1
    assert line_of(source, [1, "a", 7]) is None
    assert line_of(source, [1, "nothing"]) is None
