"""Which hosts to take out of service for what was found, and when not to: a fault of many is no fault of each."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nettune.checks import Finding, Status, worst_first
from nettune.elements import ElementId
from nettune.qualify.checks.neighbours import heard_by, leaf_of
from nettune.qualify.checks.view import HostView
from nettune.wording import UNPRINTABLE, counted
from topology.capture import HostCapture
from topology.fabric import Fabric

MAX_DRAIN = 0.05
"""Share of the hosts; one host may always be drained, unless the share is 0."""

_LONGEST = 200
_SWITCH = re.compile(rf"[^/:\s{UNPRINTABLE}]{{1,253}}")

Leaves = Mapping[str, Mapping[str, str]]
"""Host -> its NIC -> the switch that the cable ends on."""


@dataclass(frozen=True)
class Drain:
    """One host to be taken out.

    Attributes:
        host: its name.
        check: the check that failed first.
        element: the part of the host.
        what: what the check found.
    """

    host: str
    check: str
    element: str
    what: str


@dataclass(frozen=True)
class Drains:
    """What is to be done about the hosts.

    Attributes:
        hosts: those with a fault, by name.
        judged: how many hosts there are.
        withheld: why none of them is drained; empty where they are.
        common: what they have in common, where they are withheld.
    """

    hosts: tuple[Drain, ...]
    judged: int
    withheld: str = ""
    common: str = ""

    @property
    def names(self) -> list[str]:
        """Hosts that are drained: none where that is withheld."""
        return [] if self.withheld else [drain.host for drain in self.hosts]

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def decide(
    findings: Iterable[Finding], hosts: Sequence[str], leaves: Leaves, max_share: float = MAX_DRAIN
) -> Drains:
    """The drains that findings amount to.

    A host is drained for a FAIL of its own or of its cable, never for an UNKNOWN. All drains are withheld when they
    are more than one host and more than `max_share` of all, or all hosts (at least two) of one leaf.

    Args:
        findings: of all checks.
        hosts: every host that was judged.
        leaves: where the hosts' cables end.
        max_share: 0 to 1.
    """
    known = set(hosts)
    faults: dict[str, list[Finding]] = defaultdict(list)
    for finding in worst_first(findings):
        if finding.status is Status.FAIL:
            for host in hosts_of(finding.where) & known:
                faults[host].append(finding)
    drains = tuple(
        Drain(host, faults[host][0].check, str(faults[host][0].where), faults[host][0].what)
        for host in sorted(faults)
    )
    share = len(drains) / max(len(known), 1)
    below = _below(leaves)
    # Where one switch has all hosts below it, the share decides.
    whole = sorted(leaf for leaf, there in below.items() if len(there) > 1 and there <= faults.keys())
    few = share <= max_share or (len(drains) == 1 and max_share > 0)
    if not drains or (few and not whole):
        return Drains(drains, len(known))
    why = f"{len(drains)} of {counted(len(known), 'host')} ({share:.0%}) would be drained"
    why += f", all of {whole[0]}" if few else f", more than {max_share:.0%}"
    element, words = _common(faults, leaves, below)
    return Drains(drains, len(known), f"{why}; {words}", element)


def withheld_finding(drains: Drains) -> Finding:
    """The FAIL that names what the hosts have in common."""
    return Finding(
        check="max-drain",
        status=Status.FAIL,
        where=ElementId(drains.common),
        what=f"no host is drained: {drains.withheld}",
        evidence={"hosts": [drain.host for drain in drains.hosts], "judged": drains.judged},
        fix="look for one cause (a switch, a setting, the check's limit) before draining; --max-drain allows more",
    )


def hosts_of(where: ElementId) -> set[str]:
    """The host of an element; both ends of a link."""
    if where.ends is not None:
        return {node for node, _ in where.ends}
    return {where.node} if where.node else set()


def _below(leaves: Leaves) -> dict[str, set[str]]:
    """Switch -> hosts that are cabled to it."""
    below: dict[str, set[str]] = defaultdict(set)
    for host, cables in leaves.items():
        for leaf in cables.values():
            below[leaf].add(host)
    return below


def _common(
    faults: Mapping[str, list[Finding]], leaves: Leaves, below: Mapping[str, set[str]]
) -> tuple[str, str]:
    """(element, words) of what most of the faulty hosts have in common: the check, and the switch if there is one."""
    checks = Counter(check for found in faults.values() for check in {one.check for one in found})
    check, failing = checks.most_common(1)[0]
    if failing == 1 and len(faults) > 1:
        return str(ElementId.fabric()), f"each for another check: {', '.join(sorted(checks))[:_LONGEST]}"
    words = f"{failing} of them fail {check}"
    on: Counter[str] = Counter()
    for host, found in faults.items():
        on.update(_leaves_of([one for one in found if one.check == check], leaves.get(host, {})))
    most = max(on, key=lambda leaf: (on[leaf], on[leaf] / len(below[leaf]), leaf), default=None)
    if most is not None and 2 * on[most] > failing and 2 * on[most] > len(below[most]):
        return str(ElementId.switch(most)), f"{words}, {on[most]} of those on {most}"
    return str(ElementId.fabric()), words


def _leaves_of(found: Sequence[Finding], cables: Mapping[str, str]) -> set[str]:
    """Switches that a host's faulty parts are cabled to; for a fault of the whole host, all of its."""
    parts = {str(one.where).partition("/nic/")[2] for one in found}
    own = {cables[part] for part in parts if part in cables}
    return own if own or not found else set(cables.values())


def leaves_heard(captures: Iterable[HostCapture]) -> dict[str, dict[str, str]]:
    """What LLDP heard at the hosts, by network interface and by RDMA device."""
    found: dict[str, dict[str, str]] = {}
    for capture in captures:
        view = HostView(capture)
        heard = {port: leaf_of(one) for port, one in heard_by(view).items()}
        ports = [(device.name, port) for device in view.rdma.values() for port in device.ports.values()]
        heard |= {device: heard[port.netdev] for device, port in ports if port.netdev in heard}
        found[capture.host] = {port: leaf for port, leaf in heard.items() if _SWITCH.fullmatch(leaf)}
    return found


def leaves_cabled(fabric: Fabric) -> dict[str, dict[str, str]]:
    """The switches that a fabric's hosts are cabled to."""
    return {
        host: {
            fabric.ports.name[port]: fabric.nodes.name[leaf]
            for port in fabric.nics(host)
            if (leaf := fabric.leaf_of(port)) is not None
        }
        for host in fabric.hosts
    }
