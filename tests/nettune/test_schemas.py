"""JSON forms of another kind or version are refused by name."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from nettune.schemas import check_schema


@pytest.mark.parametrize("data", [{}, {"schema": "nettune.finding/2"}, {"schema": None}])
def test_another_schema_is_one_line_that_names_both(data):
    """What is there and what was wanted stand in the line."""
    with pytest.raises(InputError, match=r"is not nettune\.finding/1; made by another version\?$") as caught:
        check_schema(data, "nettune.finding/1")
    assert str(caught.value).startswith(f"schema {data.get('schema')!r} ")


def test_the_right_schema_passes():
    """Nothing is said of what else the form holds."""
    check_schema({"schema": "nettune.finding/1", "other": 1}, "nettune.finding/1")
