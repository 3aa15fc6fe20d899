"""Findings about the structure of a fabric: each rule says what it found, or that it was applied and held."""

from __future__ import annotations

from collections.abc import Mapping

from nettune.checks import Finding
from topology.discovery.analysis_links import link_mtu, link_speed, link_state
from topology.discovery.analysis_rails import host_rails, rail_cabling
from topology.discovery.analysis_tiers import connected, oversubscription, parallel_links, uplinks
from topology.discovery.forwarding import ecmp_hash, next_hops
from topology.fabric import Fabric
from topology.routing import Routing


def analyse(
    fabric: Fabric, routing: Routing | None = None, reasons: Mapping[str, str] | None = None
) -> list[Finding]:
    """All rules over a fabric, and over its routing where it is known.

    Args:
        fabric: the fabric.
        routing: its forwarding state.
        reasons: element -> how it was learned, as in `Discovery`; quoted in findings.
    """
    pairs = parallel_links(fabric)
    told = {finding.where for finding in pairs}.union(
        *(finding.evidence.get("below", ()) for finding in pairs)
    )
    findings = [
        *rail_cabling(fabric),
        *host_rails(fabric),
        *link_state(fabric, reasons or {}),
        *link_mtu(fabric),
        *link_speed(fabric),
        *pairs,
        *uplinks(fabric, told),
        *connected(fabric),
        *oversubscription(fabric),
    ]
    if routing is not None:
        findings += [*next_hops(routing), *ecmp_hash(routing)]
    return findings
