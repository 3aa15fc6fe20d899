"""Findings of a fleet as few: what is the same on many hosts is said once, with the hosts as one hostlist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nettune.checks import Finding
from nettune.elements import ElementId
from nettune.hosts import fold_hosts
from nettune.wording import counted

_LONGEST = 120


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each thing that is said of hosts, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        node = finding.where.node
        part = str(finding.where).removeprefix(f"host/{node}") if node else str(finding.where)
        key = (finding.check, finding.status, finding.required, finding.what, part, finding.probability)
        groups.setdefault(key, []).append(finding)
    return [same[0] if len(same) == 1 else _one(same, str(key[4])) for key, same in groups.items()]


def _one(same: list[Finding], part: str) -> Finding:
    nodes = list(dict.fromkeys(one.where.node for one in same if one.where.node))
    names = fold_hosts(nodes)
    names = names if len(names) <= _LONGEST else f"{names[:_LONGEST]}..."
    of = f"{part.lstrip('/')} of " if part else ""
    return replace(
        same[0],
        where=ElementId.fabric(),
        what=f"{of}{counted(len(nodes), 'host')} ({names}): {same[0].what}",
        evidence={**same[0].evidence, "hosts": nodes},
    )
