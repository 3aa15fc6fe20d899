"""The `schema` string that every JSON form carries."""

from __future__ import annotations

from collections.abc import Mapping

from nettune.errors import InputError


def check_schema(data: object, schema: str) -> None:
    """Refuse a JSON form of another kind or version.

    Raises:
        InputError: `data` does not carry this `schema`.
    """
    found = data.get("schema") if isinstance(data, Mapping) else None
    if found != schema:
        raise InputError(f"schema {found!r:.60} is not {schema}; made by another version?")
