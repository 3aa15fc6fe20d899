"""Live discovery in one call: collect, build, analyse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nettune.checks import worst_first
from topology.discovery.analysis import analyse
from topology.discovery.collect import TIMEOUT_S, Run, collect
from topology.discovery.l3 import Discovery, build


def discover(
    run: Run, nodes: Sequence[str], *, roles: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Discovery:
    """Fabric, routing and all findings (worst first) of live nodes; arguments and errors as in `collect` and `build`."""
    found = build(collect(run, nodes, roles=roles, timeout_s=timeout_s))
    findings = worst_first([*found.findings, *analyse(found.fabric, found.routing, found.reasons)])
    return replace(found, findings=tuple(findings))
