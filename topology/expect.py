"""What was found against a plan: cables that are missing, extra or swapped, ports of another speed, absent nodes.

The plan is anything that a reader understands. Names are matched as between sources; NICs that the plan calls otherwise
(`rail0` for `mlx5_0`) are matched where most hosts agree on it; where it names both ends of cables otherwise, cables
between the same two nodes are matched in the order of their ports' names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.units import format_rate
from nettune.wording import some
from topology.columns import NodeKind
from topology.matching import match, other_style
from topology.naming import natural_key
from topology.schedulertree import against_cables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from topology.readers.said import End, PortSaid, Said


def expect(found: Said, plan: Said, judged: Sequence[Finding] = ()) -> list[Finding]:
    """Findings about every difference, and one that says what agrees, after those that hold beside the plan.

    Args:
        found: the fabric as it is.
        plan: as it should be; a scheduler's tree is held against the leaves of hosts only.
        judged: findings without the plan. What a majority says of a cable or a switch gives way to what the plan says
            of it: the same fault is told once, and what is meant so is none.
    """
    if plan.logical:
        before = len(found.findings)
        against_cables(found, [plan], Status.FAIL)
        told = found.findings[before:]
        del found.findings[before:]
        return [*judged, *told]
    comparison = _Comparison(found, plan)
    return [*(finding for finding in judged if not comparison.settles(finding)), *comparison.findings()]


@dataclass
class _Planned:
    """The plan under the names of what was found: end -> end at the other side of its cable, and all its ports."""

    cables: dict[End, End]
    ports: dict[End, PortSaid]
    nodes: set[str]


class _Comparison:
    def __init__(self, found: Said, plan: Said) -> None:
        self._found, self._file = found, plan.source
        self._plan = _planned(found, plan)
        self._findings: list[Finding] = []
        self._speeds_unknown = 0
        cabled = {(near[0], far[0]) for near, far in self._plan.cables.items()}
        self._of_hosts = {a for a, b in cabled if self._switch(b)}
        self._of_trunks = {a for a, b in cabled if self._switch(a) and self._switch(b)}

    def settles(self, finding: Finding) -> bool:
        """Whether a finding is a majority's word on something that the plan tells itself."""
        if finding.status is Status.PASS:
            return False
        node, ends = finding.where.node, finding.where.ends
        if finding.check in {"rail-cabling", "host-rails"}:
            hosts = {node} if node is not None else set(finding.evidence.get("hosts", ()))
            return bool(hosts) and hosts <= self._of_hosts
        if finding.check in {"parallel-links", "switch-uplinks"}:
            return node in self._of_trunks
        if finding.check == "link-speed" and ends is not None and self._plan.cables.get(ends[0]) == ends[1]:
            planned, actual = self._speeds(*ends)
            return planned == actual
        return False

    def findings(self) -> list[Finding]:
        absent = self._absent_nodes()
        agreeing = 0
        told: set[End] = set()
        for a, b in self._plan.cables.items():
            if a > b or a[0] in absent or b[0] in absent:
                continue
            if self._found.far(a) == b:
                agreeing += 1
                self._compare_speed(a, b)
            else:
                self._compare_cable(a, b, told)
        self._extra_cables()
        if not self._plan.cables:
            self._say(
                "plan-cables",
                Status.UNKNOWN,
                ElementId.fabric(),
                f"{self._file} has no cables",
                required=False,
            )
        elif not self._findings:
            self._say(
                "plan-cables",
                Status.PASS,
                ElementId.fabric(),
                f"all {agreeing} cables are as {self._file} says"
                + (f"; speeds of {self._speeds_unknown} are not known" if self._speeds_unknown else ""),
            )
        return self._findings

    def _absent_nodes(self) -> set[str]:
        absent = {name for name in self._plan.nodes if name not in self._found.nodes}
        if absent:
            self._say(
                "plan-nodes",
                Status.FAIL,
                ElementId.fabric(),
                f"{len(absent)} nodes of {self._file} were not found: {some(sorted(absent))}",
                evidence={"nodes": sorted(absent)},
                fix="switch them on, capture them, or take them out of the plan",
            )
        return absent

    def _compare_cable(self, a: End, b: End, told: set[End]) -> None:
        """One statement for a cable of the plan that is not there: about the host's end where it has one."""
        near, far = (b, a) if self._is_host(b) and not self._is_host(a) else (a, b)
        if self._found.far(far) is None and self._found.far(near) is not None and not self._is_host(near):
            near, far = far, near
        actual, taken = self._found.far(near), self._found.far(far)
        if actual is None:
            taken_by = f", where {_end(taken)} is" if taken is not None else ""
            self._say(
                "plan-cables",
                Status.FAIL,
                self._element(near),
                f"{_end(near)} has no cable, {self._file} says {_end(far)}{taken_by}",
                evidence={"found": None, "planned": _end(far), "taken_by": _end(taken) if taken else None},
                fix=f"cable {_end(near)} to {_end(far)}, or look why the link is down",
            )
            return
        if near in told:
            return
        what = f"{_end(near)} is on {_end(actual)}, {self._file} says {_end(far)}"
        fix = f"move the cable of {_end(near)} to {_end(far)}"
        other = self._plan.cables.get(actual)
        if other is not None and other != near and self._found.far(other) == far:
            what += f"; swapped with {_end(other)}"
            fix = f"swap the cables of {_end(near)} and {_end(other)}"
            told.add(other)
        told |= {near, actual}
        self._say(
            "plan-cables",
            Status.FAIL,
            self._element(near),
            what,
            evidence={"found": _end(actual), "planned": _end(far), "swapped_with": _end(other) if other in told else None},
            fix=fix,
        )  # fmt: skip

    def _compare_speed(self, a: End, b: End) -> None:
        planned, actual = self._speeds(a, b)
        self._speeds_unknown += bool(planned and not actual)
        if planned and actual and planned != actual:
            self._say(
                "plan-speed",
                Status.FAIL if actual < planned else Status.WARN,
                ElementId.link(*a, *b),
                f"nominal speed {format_rate(actual)}, {self._file} says {format_rate(planned)}",
                evidence={"found_gbps": actual, "planned_gbps": planned},
                fix="check cable, transceiver and configured speed of both ends, or correct the plan",
            )

    def _extra_cables(self) -> None:
        outside = set()
        for a, b in self._found.links:
            if a in self._plan.cables or b in self._plan.cables:
                continue
            if a[0] in self._plan.nodes and b[0] in self._plan.nodes:
                self._say(
                    "plan-cables",
                    Status.WARN,
                    ElementId.link(*a, *b),
                    f"{self._file} has no such cable",
                    fix="take it out, or add it to the plan",
                )
            else:
                outside |= {a[0], b[0]} - self._plan.nodes
        if outside:
            self._say(
                "plan-nodes",
                Status.WARN,
                ElementId.fabric(),
                f"{len(outside)} cabled nodes are not in {self._file}: {some(sorted(outside))}",
                evidence={"nodes": sorted(outside)},
                fix="add them to the plan, or leave them out with its filters",
            )

    def _speeds(self, a: End, b: End) -> tuple[float, float]:
        """(planned, found) speed of a cable in Gbit/s, 0 not known."""
        return (
            max(self._plan.ports[end].speed_gbps for end in (a, b)),
            min(self._found.ports[end].speed_gbps for end in (a, b)),
        )

    def _switch(self, name: str) -> bool:
        return name in self._found.nodes and not _is_host(self._found, name)

    def _is_host(self, end: End) -> bool:
        return self._found.nodes[end[0]].kind is not NodeKind.SWITCH

    def _element(self, end: End) -> ElementId:
        return ElementId.nic(*end) if self._is_host(end) else ElementId.port(*end)

    def _say(self, check: str, status: Status, where: ElementId, what: str, **more: Any) -> None:
        self._findings.append(Finding(check=check, status=status, where=where, what=what, **more))


def _planned(found: Said, plan: Said) -> _Planned:
    matching = match([found, plan])
    nodes, ports = matching.nodes[1], dict(matching.ports[1])
    ports |= _other_names(found, plan, nodes, ports)
    ports |= _both_ends_otherwise(found, plan, ports)
    cables: dict[End, End] = {}
    for a, b in plan.links:
        cables[ports[a]], cables[ports[b]] = ports[b], ports[a]
    return _Planned(cables, {ports[end]: port for end, port in plan.ports.items()}, set(nodes.values()))


def _other_names(
    found: Said, plan: Said, nodes: Mapping[str, str], ports: Mapping[End, End]
) -> dict[End, End]:
    """Ports of hosts that the plan calls otherwise: by what most hosts' cables say about that name."""
    used = {ports[end] for end in plan.ports}
    unknown = [
        end
        for end in plan.ports
        if ports[end] not in found.ports and nodes[end[0]] in found.nodes and _is_host(found, nodes[end[0]])
    ]
    votes: dict[str, Counter[str]] = {}
    for end in unknown:
        far = plan.far(end)
        actual = found.far(ports[far]) if far is not None else None
        alike = actual is not None and actual[0] == nodes[end[0]] and other_style(actual[1], end[1])
        if actual is not None and alike and actual not in used:
            votes.setdefault(end[1], Counter())[actual[1]] += 1
    names = {
        name: counts.most_common(1)[0][0]
        for name, counts in votes.items()
        if 2 * counts.most_common(1)[0][1] > sum(counts.values())
    }
    return {
        end: (nodes[end[0]], names[end[1]])
        for end in unknown
        if end[1] in names and (nodes[end[0]], names[end[1]]) in found.ports
    }


def _both_ends_otherwise(found: Said, plan: Said, ports: Mapping[End, End]) -> dict[End, End]:
    """Cables of the plan of which no end has a port that was found: by the nodes that they join."""
    used = set(ports.values())
    planned: dict[tuple[str, str], list[tuple[End, End]]] = {}
    for link in plan.links:
        a, b = sorted(link, key=lambda end: ports[end])
        if ports[a] not in found.ports and ports[b] not in found.ports:
            planned.setdefault((ports[a][0], ports[b][0]), []).append((a, b))
    free: dict[tuple[str, str], list[tuple[End, End]]] = {}
    for a, b in found.links:
        if (a[0], b[0]) in planned and a not in used and b not in used:
            free.setdefault((a[0], b[0]), []).append((a, b))
    names: dict[End, End] = {}
    for nodes, links in free.items():
        for own, other in zip(
            sorted(planned[nodes], key=_by_ports), sorted(links, key=_by_ports), strict=False
        ):
            if all(other_style(a[1], b[1]) for a, b in zip(own, other, strict=True)):
                names |= zip(own, other, strict=True)
    return names


def _by_ports(link: tuple[End, End]) -> tuple[object, ...]:
    return tuple(natural_key(port) for _, port in link)


def _is_host(said: Said, name: str) -> bool:
    return said.nodes[name].kind is not NodeKind.SWITCH


def _end(end: End) -> str:
    return f"{end[0]}:{end[1]}"
