"""`HostCapture`: what one host or router says of itself, verbatim; live collection and offline bundles give the same.

Absence, refused permission and errors are kept apart, because a check that reads them must not take any for a pass.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError
from nettune.schemas import check_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

CAPTURE_SCHEMA = "nettune.capture/1"


class CaptureState(enum.StrEnum):
    """How reading one source went."""

    OK = "ok"
    ABSENT = "absent"
    DENIED = "denied"
    ERROR = "error"


@dataclass(frozen=True)
class Captured:
    """One file or one command's output.

    Attributes:
        state: OK, ABSENT (no such file or program), DENIED (no permission), ERROR (non-zero exit, time-out).
        text: content or standard output; may be partial in state ERROR.
        note: standard error or the reason.
    """

    state: CaptureState
    text: str = ""
    note: str = ""


@dataclass(frozen=True)
class HostCapture:
    """All sources of one node.

    Attributes:
        host: its name.
        role: `host` or `switch`.
        files: path -> `Captured`.
        commands: command line -> `Captured`.
    """

    host: str
    role: str
    files: Mapping[str, Captured] = field(default_factory=dict)
    commands: Mapping[str, Captured] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.role not in ("host", "switch"):
            raise InputError(f"capture of {self.host}: role {self.role!r} is neither host nor switch")

    def text(self, source: str) -> str | None:
        """Text of a file or a command that was read whole, else None."""
        captured = self.commands.get(source) or self.files.get(source)
        return captured.text if captured is not None and captured.state is CaptureState.OK else None

    def json_of(self, command: str) -> Any:
        """Parsed JSON output of a command.

        Raises:
            InputError: it was not read whole, or is no JSON; says which host and why.
        """
        captured = self.commands.get(command, Captured(CaptureState.ABSENT, note="not collected"))
        if captured.state is not CaptureState.OK:
            raise InputError(
                f"{self.host}: `{command}`: {captured.state}: {captured.note or 'no reason given'}"
            )
        try:
            return json.loads(captured.text or "[]")
        except ValueError as error:
            raise InputError(f"{self.host}: `{command}` printed no JSON: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`."""

        def plain(table: Mapping[str, Captured]) -> dict[str, dict[str, str]]:
            return {key: {"state": str(c.state), "text": c.text, "note": c.note} for key, c in table.items()}

        return {
            "schema": CAPTURE_SCHEMA,
            "host": self.host,
            "role": self.role,
            "files": plain(self.files),
            "commands": plain(self.commands),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HostCapture:
        """The inverse of `to_json`; what the collector prints.

        Raises:
            InputError: another schema, missing keys, an unknown state.
        """
        check_schema(data, CAPTURE_SCHEMA)
        try:
            tables = {
                table: {
                    str(key): Captured(CaptureState(entry["state"]), str(entry["text"]), str(entry["note"]))
                    for key, entry in data[table].items()
                }
                for table in ("files", "commands")
            }
            return cls(str(data["host"]), str(data["role"]), **tables)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a capture: {type(error).__name__}: {error}") from error
