"""What a check says: a status, the element, the evidence and what to do about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.schemas import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FINDING_SCHEMA = "nettune.finding/1"

Source_contra = TypeVar("Source_contra", contravariant=True)


class Status(enum.StrEnum):
    """The outcome of a check. UNKNOWN (no tool, no permission, cut output) is never a pass."""

    PASS = "PASS"  # noqa: S105 (a status word)
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


_URGENCY = {Status.PASS: 0, Status.WARN: 2, Status.FAIL: 4}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One statement of a check about one element.

    Attributes:
        check: the check's name, `link-rate`.
        status: PASS, WARN, FAIL or UNKNOWN.
        where: the element.
        what: one sentence with the figures and their units.
        evidence: figures behind it; JSON values only.
        probability: that the element is at fault, 0 to 1; None where a rule decides.
        required: whether an UNKNOWN here keeps the verdict from being a pass.
        fix: what to do, one sentence; empty for PASS.
    """

    check: str
    status: Status
    where: ElementId
    what: str
    evidence: dict[str, Any] = field(default_factory=dict)
    probability: float | None = None
    required: bool = True
    fix: str = ""

    def __post_init__(self) -> None:
        if self.probability is not None and not 0.0 <= self.probability <= 1.0:
            msg = f"probability {self.probability} of {self.check} is outside 0..1"
            raise ValueError(msg)

    @property
    def urgency(self) -> int:
        """0 for PASS, then an UNKNOWN that is not required, WARN, a required UNKNOWN, 4 for FAIL."""
        if self.status is Status.UNKNOWN:
            return 3 if self.required else 1
        return _URGENCY[self.status]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`."""
        return {
            "schema": FINDING_SCHEMA,
            **vars(self),
            "status": str(self.status),
            "where": str(self.where),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, an unknown status or element, missing or unknown keys.
        """
        check_schema(data, FINDING_SCHEMA)
        try:
            values = {key: value for key, value in data.items() if key != "schema"}
            return cls(**values | {"status": Status(values["status"]), "where": ElementId(values["where"])})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a finding: {type(error).__name__}: {error}") from error


def held(check: str, what: str, evidence: dict[str, Any] | None = None) -> Finding:
    """A rule that was applied to the whole fabric and held."""
    return Finding(
        check=check, status=Status.PASS, where=ElementId.fabric(), what=what, evidence=evidence or {}
    )


def unknown(check: str, where: ElementId, what: str, evidence: dict[str, Any] | None = None) -> Finding:
    """A rule that could not be applied; the verdict does without it."""
    return Finding(
        check=check,
        status=Status.UNKNOWN,
        where=where,
        what=what,
        evidence=evidence or {},
        required=False,
    )


class Check(Protocol[Source_contra]):
    """A named rule that reads one source (captures, probe results, ...) and returns findings."""

    name: str

    def run(self, source: Source_contra) -> list[Finding]:
        """Findings in any order; a PASS finding where the rule was applied and held."""
        ...


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The first is the one to act on: by urgency, then by probability, then by name."""
    return sorted(findings, key=lambda f: (-f.urgency, -(f.probability or 0.0), f.check, f.where))


def exit_code(findings: Iterable[Finding]) -> int:
    """0 pass (also with warnings), 1 any FAIL, 2 a required UNKNOWN and no FAIL."""
    found = list(findings)
    if any(f.status is Status.FAIL for f in found):
        return 1
    return 2 if any(f.status is Status.UNKNOWN and f.required for f in found) else 0
