"""Links that are down, as the fabric says."""

from __future__ import annotations

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.fabric import Fabric, LinkState


def state_findings(fabric: Fabric) -> list[Finding]:
    """Links that are down, as the fabric says; a switch without any link that is up is named instead of its links."""
    down = [int(row) for row in np.flatnonzero(fabric.links.state == LinkState.DOWN)]
    ends = np.concatenate([fabric.links.port_a, fabric.links.port_b])
    states = np.tile(fabric.links.state, 2)
    findings = []
    named: set[int] = set()
    for node in np.unique(fabric.ports.node[ends[states == LinkState.DOWN]]):
        own = states[fabric.ports.node[ends] == node]
        links = [row for row in down if node in _nodes(fabric, row)]
        if len(own) > 1 and not np.any(own == LinkState.UP):
            named.update(links)
            what = f"all its {len(links)} links are down"
            findings.append(
                _down(fabric.node_element(int(node)), what, [str(fabric.link_element(row)) for row in links])
            )
    findings += [
        _down(fabric.link_element(row), "is down", [str(fabric.link_element(row))])
        for row in down
        if row not in named
    ]
    if findings:
        return findings
    what = f"all {len(fabric.links.state)} links are up"
    return [Finding(check="link-state", status=Status.PASS, where=ElementId.fabric(), what=what)]


def _nodes(fabric: Fabric, link: int) -> tuple[int, int]:
    return int(fabric.ports.node[fabric.links.port_a[link]]), int(
        fabric.ports.node[fabric.links.port_b[link]]
    )


def _down(where: ElementId, what: str, links: list[str]) -> Finding:
    return Finding(
        check="link-state",
        status=Status.FAIL,
        where=where,
        what=what,
        evidence={"links": links},
        probability=1.0,
        fix="bring it up, or take it out of the fabric's plan",
    )
