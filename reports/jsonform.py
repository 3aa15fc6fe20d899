"""The one envelope of `--output json`: schema, verb, status, exit code, then the verb's own keys beside them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from nettune.checks import Status
from nettune.records import json_text

ENVELOPE_KEYS = ("schema", "verb", "status", "exit_code")
ERROR_STATUS = "ERROR"
_STATUS_OF_EXIT = {0: Status.PASS, 1: Status.FAIL, 2: Status.UNKNOWN}


def plain(value: Any) -> Any:
    """A value of JSON's own types: NaN and infinity become null, arrays lists, named tuples and dataclasses objects.

    An object with `to_json` speaks for itself. Keys of mappings become strings.

    Raises:
        TypeError: a value that has no JSON form; it is named by its type.
    """
    if value is None or isinstance(value, bool):
        return value
    # A fabric's columns and a map's link loads have a million entries: those that need nothing are taken as a whole.
    if type(value) in (list, tuple) and _needs_nothing(value):
        return list(value)
    if type(value) is dict and set(map(type, value)) == {str} and _needs_nothing(value.values()):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if hasattr(value, "tolist"):  # numpy arrays and scalars, without importing numpy
        return plain(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(entry) for entry in value]
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _needs_nothing(values: Collection[Any]) -> bool:
    """Whether all are text, integers or finite numbers of Python's own types."""
    kinds = set(map(type, values))
    return kinds <= {str, int, bool} or (kinds == {float} and all(map(math.isfinite, values)))


def envelope(verb: str, exit_code: int, data: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a verb.

    The status follows the exit code: 0 PASS (WARN when a finding under `findings` warns), 1 FAIL, 2 UNKNOWN.

    Args:
        verb: `demo`.
        exit_code: 0, 1 or 2, as the process ends.
        data: the verb's own keys; they stand at the top level.

    Raises:
        ValueError: another exit code, or a key of `data` that belongs to the envelope.
    """
    if exit_code not in _STATUS_OF_EXIT:
        raise ValueError(f"exit code {exit_code} is not 0, 1 or 2")
    if taken := [key for key in ENVELOPE_KEYS if key in data]:
        raise ValueError(f"keys {', '.join(taken)} belong to the envelope")
    body = plain(data)
    status = _STATUS_OF_EXIT[exit_code]
    if exit_code == 0 and any(_status(finding) == Status.WARN for finding in body.get("findings") or ()):
        status = Status.WARN
    return {
        "schema": f"nettune.{verb}/1",
        "verb": verb,
        "status": str(status),
        "exit_code": exit_code,
        **body,
    }


def error_envelope(verb: str, error: BaseException | str, exit_code: int = 2) -> dict[str, Any]:
    """What a verb prints with `--output json` when it could not run: `error` is one line."""
    return {
        "schema": f"nettune.{verb}/1",
        "verb": verb,
        "status": ERROR_STATUS,
        "exit_code": exit_code,
        "error": " ".join(str(error).split()) or type(error).__name__,
    }


def dumps(result: Mapping[str, Any]) -> str:
    """The envelope as text, ending in a newline; refuses NaN."""
    return json_text(plain(result))


def _status(finding: Any) -> Any:
    return finding.get("status") if isinstance(finding, Mapping) else None
