"""What the rules of `topology.ecmp.lint` share: how bad a loss is, whether anything is chosen, links of unknown speed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nettune.checks import Status, held, unknown
from nettune.elements import ElementId
from nettune.wording import counted, some
from topology.fabric import LinkState, NodeKind

if TYPE_CHECKING:
    from nettune.checks import Finding
    from topology.routing import Routing


WARN_LOSS, FAIL_LOSS = 0.05, 0.25
"""Own choice: a loss below the first drowns in what port draws change anyhow; the second is a link of four."""
GOOD_EFFICIENCY = 0.8
"""Link use that centrally engineered traffic reaches where ECMP has 40% to 90% (Meta, SIGCOMM 2024, section on TE)."""
_RANK = [Status.PASS, Status.UNKNOWN, Status.WARN, Status.FAIL]


def severity(loss: float, at_least: Status = Status.PASS) -> Status:
    """Status of an expected loss."""
    found = Status.FAIL if loss >= FAIL_LOSS else Status.WARN if loss >= WARN_LOSS else Status.PASS
    return max(found, at_least, key=_RANK.index)


def switches(routing: Routing) -> list[int]:
    """Node rows of all switches."""
    return [int(row) for row in np.flatnonzero(routing.fabric.nodes.kind == NodeKind.SWITCH)]


def choosing(routing: Routing) -> set[int]:
    """Rows of switches with several next hops towards some group."""
    return {node for (node, _), hops in routing.table.items() if len(hops.links) > 1}


def no_choice(routing: Routing) -> Finding:
    """For a fabric in which no switch chooses: PASS where its tables were read, else UNKNOWN."""
    check = "ecmp-choices"
    if routing.source != "shortest paths":
        return held(
            check, f"no switch has several next hops ({routing.source}): every path follows from the tables"
        )
    what = "no switch has several shortest ways to any NIC that is known, so no hash is looked at"
    fix = "discover the whole fabric, with its hosts, if there is more of it"
    return replace(unknown(check, ElementId.fabric(), what), fix=fix)


def with_speeds(routing: Routing) -> tuple[Routing, list[Finding]]:
    """The routing as it is; where a cable's speed is not known all count alike, and a finding says so."""
    fabric = routing.fabric
    up = np.repeat(fabric.links.state == LinkState.UP, 2)
    lacking = np.flatnonzero(up & (fabric.directed_gbps == 0))[::2]
    if not len(lacking):
        return routing, []
    names = [fabric.directed_name(link) for link in lacking.tolist()]
    what = (
        f"the speed of {counted(len(names), 'link')} is not known ({some(names, 2)}): losses are told as if all links were "
        "equally fast"
    )
    fix = "discover with a source that tells speeds"
    alike = replace(fabric.ports, speed_gbps=np.ones_like(fabric.ports.speed_gbps))
    told = replace(unknown("ecmp-speeds", ElementId.fabric(), what), fix=fix)
    return replace(routing, fabric=replace(fabric, ports=alike)), [told]
