"""Findings in groups: what needs a reader first, what passed as one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nettune.checks import Finding, Status, worst_first


@dataclass(frozen=True)
class GroupedFindings:
    """Findings that are not PASS, worst first, and those that are."""

    open: list[Finding]
    passed: list[Finding]

    @property
    def passed_line(self) -> str:
        """`24 passed: link-rate 16, mtu 8`."""
        checks = Counter(finding.check for finding in self.passed)
        return f"{len(self.passed)} passed: " + ", ".join(
            f"{check} {count}" for check, count in sorted(checks.items())
        )


def notes(finding: Finding) -> list[str]:
    """What stands in brackets behind the element: `p 0.97`, `not required` of an UNKNOWN that decides nothing."""
    sure = [] if finding.probability is None else [f"p {finding.probability:.2f}"]
    return [*sure, "not required"] if is_optional(finding) else sure


def is_optional(finding: Finding) -> bool:
    """Whether the verdict does without this finding: an UNKNOWN that nothing requires."""
    return finding.status is Status.UNKNOWN and not finding.required


def group_findings(findings: Sequence[Finding]) -> GroupedFindings:
    """Split by whether a reader has to do something."""
    ordered = worst_first(findings)
    return GroupedFindings(
        open=[finding for finding in ordered if finding.status is not Status.PASS],
        passed=[finding for finding in ordered if finding.status is Status.PASS],
    )
