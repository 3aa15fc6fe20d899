"""Findings of one run in few words."""

from __future__ import annotations

from typing import Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError


def finding(
    check: str,
    status: Status,
    what: str,
    fix: str = "",
    where: ElementId | None = None,
    *,
    required: bool = True,
    **evidence: Any,
) -> Finding:
    """A finding about the whole fabric where no element is named."""
    return Finding(
        check=check,
        status=status,
        where=where or ElementId.fabric(),
        what=what,
        evidence=evidence,
        required=required,
        fix=fix,
    )


def unknown(check: str, what: str, fix: str, where: ElementId | None = None, **evidence: Any) -> Finding:
    """What keeps the verdict from being a pass, because it cannot be judged."""
    return finding(check, Status.UNKNOWN, what, fix, where, **evidence)


def host_element(host: str) -> ElementId:
    """The host, or the fabric where the output's name for it is none."""
    try:
        return ElementId.host(host) if host else ElementId.fabric()
    except InputError:
        return ElementId.fabric()
