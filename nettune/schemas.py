"""The `schema` string that every JSON form carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_schema(data: Mapping[str, Any], schema: str) -> None:
    """Refuse a JSON form of another kind or version.

    Raises:
        InputError: `data` does not carry this `schema`.
    """
    if data.get("schema") != schema:
        raise InputError(f"schema {data.get('schema')!r} is not {schema}; made by another version?")
