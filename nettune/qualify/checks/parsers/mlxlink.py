"""`mlxlink -d DEV -m -c`, as text or --json: keys differ between releases of MFT, so they are compared without case."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from nettune.qualify.checks.parsers.ethernet import Reading
from nettune.qualify.checks.parsers.numbers import real, reals

_RANGE = re.compile(r"\[\s*(-?[\d.]+?)\s*\.\.\s*(-?[\d.]+)\s*\]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ZERO = 1e-200
"""`15E-255` stands for an error rate of zero."""


@dataclass(frozen=True)
class LinkReport:
    """One port.

    Attributes:
        values: key in lower case -> text.
        error: what the tool said instead of a report.
    """

    values: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def ber(self, key: str) -> float | None:
        """A bit error rate; zero as 0.0."""
        value = real(self.values.get(key, ""))
        return None if value is None else 0.0 if value < ZERO else value

    @property
    def complains_of_signal(self) -> bool:
        """`Bad signal integrity` as its recommendation."""
        return "signal integrity" in self.values.get("recommendation", "").lower()

    def lanes(self, key: str) -> list[float]:
        """Numbers of all lanes."""
        return reals(re.sub(r"\[.*", "", self.values.get(key, "")))

    def readings(self) -> list[Reading]:
        """Measured values with the module's own range: `54 [-5..75]`, one for each lane."""
        found = []
        for key, text in self.values.items():
            match = _RANGE.search(text)
            if match:
                low, high = real(match[1]), real(match[2])
                found += [Reading(key, value, low, high) for value in reals(text[: match.start()])]
        return found


def mlxlink(text: str) -> LinkReport:
    """The report; one with `error` set when the tool printed none, or one that was cut."""
    body = text.strip()
    if body.startswith("{"):
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            return LinkReport(error="its JSON is cut short or broken")
        values: dict[str, str] = {}
        _flatten(data, values)
        return LinkReport(values) if values else LinkReport(error="its JSON has no values")
    values = {}
    for line in body.splitlines():
        key, colon, value = line.partition(" : ")
        if colon:
            values.setdefault(_COLOUR.sub("", key).strip().lower(), value.strip())
    if values:
        return LinkReport(values)
    match = re.search(r"(?:-E-|Error)\b:?\s*(.{1,200})", body)
    return LinkReport(error=match[1].strip() if match else "it printed no report")


def _flatten(data: Any, into: dict[str, str]) -> None:
    waiting = [data]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            if isinstance(value, dict):
                waiting.append(value)
            elif isinstance(value, list):
                into.setdefault(str(key).lower(), ",".join(str(item) for item in value[:64]))
            else:
                into.setdefault(str(key).lower(), str(value))
