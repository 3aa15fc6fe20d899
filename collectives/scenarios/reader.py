"""`scenario.toml`, with values set on the command line, as a `ScenarioFile`; the line of what is wrong is named."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectives.congestion.presets import near
from nettune.errors import InputError
from nettune.tables import explain, line_of, read_toml

if TYPE_CHECKING:
    from collectives.scenarios.spec import ScenarioFile

_LISTS = ("job", "cable")
_BITS = 63
"""What TOML promises for a whole number; Python reads longer ones too."""


class _RefusedError(InputError):
    """What is wrong, and where: table, its number where there are several, key."""

    def __init__(self, what: str, table: str = "", number: int = 0, key: str = "") -> None:
        where = f"[[{table}]] {number}: " if table in _LISTS else f"[{table}] " if table else ""
        super().__init__(where + what)
        self.place = table, number, key


def load_scenario(path: Path | str, settings: Sequence[str] = ()) -> ScenarioFile:
    """Read a scenario.

    Args:
        path: the file.
        settings: `key=value` words that stand in place of what the file says: `congestion.preset=barre`,
            `run.seeds=10`, `job.0.size=4M` (by the job's place or name).

    Raises:
        InputError: no such file, no TOML, an unknown key, a value of a wrong type or outside of its range; with the line
            where the file has it.
    """
    values, text = read_toml(path)
    for setting in settings:
        _set(values, setting)
    try:
        return make_scenario(values)
    except _RefusedError as error:
        raise InputError(str(error), path, None if settings else _line(text, *error.place)) from None


def make_scenario(values: Mapping[str, Any]) -> ScenarioFile:
    """A scenario from plain values, as TOML gives them.

    Raises:
        InputError: as `load_scenario`, without file and line.
    """
    from pydantic import ValidationError

    from collectives.scenarios.spec import CableTable, JobTable, ScenarioFile

    _refuse_long(values, "")
    try:
        return ScenarioFile.model_validate(values)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    # A misspelt key explains what is missing.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    first["msg"] = first["msg"].removeprefix("Value error, ")
    place = [part for part in first["loc"] if isinstance(part, str)]
    number = next((part for part in first["loc"] if isinstance(part, int)), 0)
    if place == ["job"] and first["type"] in ("missing", "too_short"):
        raise _RefusedError('job: a scenario needs at least one [[job]], like kind = "collective"')
    known: Mapping[str, Any] = ScenarioFile.model_fields
    table = ""
    if len(place) > 1:
        table = place.pop(0)
        inner: Any = {"job": JobTable, "cable": CableTable}.get(table, known[table].annotation)
        known = inner.model_fields
    if first["type"] == "extra_forbidden":
        raise _RefusedError(f"unknown key {place[0]!r}{near(place[0], known)}", table, number, place[0])
    first["loc"] = tuple(place)
    raise _RefusedError(explain(first, known), table, number, place[0])


def _line(text: str, table: str, number: int, key: str) -> int | None:
    """Line of a key in its table; the table's own where the key is not set."""
    if not table:
        return line_of(key, text)
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    heads = [row for row, line in enumerate(lines) if line in (f"[{table}]", f"[[{table}]]")]
    if number >= len(heads):
        return line_of(table, text)
    start = heads[number] + 1
    stop = next((row for row in range(start, len(lines)) if lines[row].startswith("[")), len(lines))
    return start + (line_of(key, "\n".join(lines[start:stop])) or 0)


def _refuse_long(value: Any, where: str) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_long(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _refuse_long(inner, f"{where}.{number}")
    elif isinstance(value, int) and value.bit_length() > _BITS:
        raise _RefusedError(f"{where}: is a whole number of more than {_BITS} bits")


def _set(values: dict[str, Any], setting: str) -> None:
    """Put `a.b=value` into nested tables; what is no TOML value is taken as words."""
    name, equals, given = setting.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not equals or not all(keys):
        raise InputError(f"--set {setting!r:.80}: write it like congestion.preset=barre or job.0.size=4M")
    try:
        value = tomllib.loads(f"value = {given}")["value"]
    except (ValueError, RecursionError):
        value = given
    at: Any = values
    for key in keys[:-1]:
        at = _inner(at, key, setting)
    if not isinstance(at, dict):
        raise InputError(f"--set {setting!r:.80}: {'.'.join(keys[:-1])} is no table")
    at[keys[-1]] = value


def _inner(at: Any, key: str, setting: str) -> Any:
    if isinstance(at, list):
        named = [one for one in at if isinstance(one, dict) and one.get("name") == key]
        if named:
            return named[0]
        if key.isdecimal() and len(key) < 6 and int(key) < len(at):
            return at[int(key)]
        raise InputError(f"--set {setting!r:.80}: there is no job {key!r}; count from 0, or give its name")
    if isinstance(at, dict):
        return at.setdefault(key, {})
    raise InputError(f"--set {setting!r:.80}: {key!r} is inside a value, not a table")
