"""From probes to paths: what will be sent, what the answers say about each source port, and what a hash makes of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from topology.ecmp.choices import ipv4_number
from topology.fabric import Fabric
from topology.probing.prober import AT_ONCE
from topology.routing import FlowKey, Routing, UnknownPathError

PATHS_SCHEMA = "nettune.paths/1"
PROTOCOLS = {"tcp": 6, "udp": 17}
ROCE_PORT = 4791
MAX_PACKETS = 1_000_000
# IPv4 and UDP headers with the payload; IPv4 and TCP headers with the options of a connection request.
_BYTES = {6: 60, 17: 37}


@dataclass(frozen=True)
class ProbePlan:
    """What will be sent between which ports.

    Attributes:
        pairs: (source, destination) port rows of the fabric.
        sports: source ports, for every pair.
        proto: 6 or 17.
        dport, dscp: as the flows in question have them.
        hops: routers on the shortest way of each pair.
        longest: and on the longest.
        packets_per_s: pace of each sending host.
        wait_s: for an answer.
        tries: how often a probe without answer is sent at most.

    Raises:
        InputError: ports or numbers outside their range, or more packets than MAX_PACKETS.
    """

    pairs: tuple[tuple[int, int], ...]
    sports: tuple[int, ...]
    proto: int
    dport: int
    dscp: int
    hops: tuple[int, ...]
    longest: tuple[int, ...]
    packets_per_s: float = 1000.0
    wait_s: float = 0.5
    tries: int = 3

    def __post_init__(self) -> None:
        if self.proto not in _BYTES:
            raise InputError(f"protocol {self.proto} cannot be probed; tcp (6) and udp (17) can")
        if not all(1 <= port <= 65535 for port in (*self.sports, self.dport)) or not self.sports:
            raise InputError("probing needs source ports and a destination port from 1 to 65535")
        if not 0 <= self.dscp <= 63:
            raise InputError(f"DSCP {self.dscp} is not from 0 to 63")
        if not (self.packets_per_s > 0 and self.wait_s > 0 and self.tries >= 1):
            raise InputError("probing needs a pace and a waiting time above 0, and at least one try")
        if self.packets > MAX_PACKETS:
            raise InputError(
                f"probing would send {self.packets:,} packets, more than {MAX_PACKETS:,}: ask for fewer ports or pairs"
            )

    @property
    def packets(self) -> int:
        """Packets at most: nothing answers, and every probe is sent `tries` times."""
        return len(self.sports) * sum(self.longest) * self.tries

    def seconds(self, fabric: Fabric) -> float:
        """Time at most: of the host that sends most, if nothing answers and every probe is sent `tries` times."""
        hops: Counter[int] = Counter()
        for (src, _), own in zip(self.pairs, self.longest, strict=True):
            hops[int(fabric.ports.node[src])] += own
        batches = -(-len(self.sports) // AT_ONCE)
        each_s = len(self.sports) / self.packets_per_s + batches * self.wait_s
        return max(hops.values(), default=0) * self.tries * each_s

    def describe(self, fabric: Fabric) -> str:
        """One line for the person who is asked before anything is sent."""
        senders = {int(fabric.ports.node[src]) for src, _ in self.pairs}
        hosts = "one host" if len(senders) == 1 else f"each of {len(senders)} hosts"
        once = len(self.sports) * sum(self.hops)
        return (
            f"{once:,} {self.what} (at most {self.packets:,} if answers fail), {self.aim(fabric)}, "
            f"at most {self.packets_per_s:g} packets/s from {hosts}, at most {self.seconds(fabric):.0f} s"
        )

    @property
    def what(self) -> str:
        """Kind and size of its packets."""
        name = {6: "TCP connection requests that never arrive", 17: "UDP packets"}[self.proto]
        return f"{name} of {_BYTES[self.proto]} bytes"

    def aim(self, fabric: Fabric) -> str:
        """Where they go."""
        first, last = (fabric.port_element(row) for row in self.pairs[0])
        more = len(self.pairs) - 1
        others = f" and {more} more pair{'s' * (more > 1)}" if more else ""
        return f"port {self.dport}, DSCP {self.dscp}, from {first} to {last}{others}"


def plan(
    routing: Routing,
    pairs: Sequence[tuple[int, int]],
    sports: Iterable[int],
    *,
    proto: int = 17,
    dport: int = ROCE_PORT,
    dscp: int = 0,
    packets_per_s: float = 1000.0,
) -> ProbePlan:
    """A plan whose probes die on the way, at every router of it; a pair that is given twice is probed once.

    Raises:
        UnknownPathError: no route between a pair.
        InputError: a pair on one host, a NIC without address, and what `ProbePlan` refuses.
    """
    fabric = routing.fabric
    hops, longest = [], []
    different = tuple(dict.fromkeys(pairs))
    for src, dst in different:
        for row in (src, dst):
            if ipv4_number(fabric.ports.address[row]) < 0:
                given = fabric.ports.address[row] or "none"
                raise InputError(
                    f"{fabric.port_element(row)} has no IPv4 address ({given}): it cannot be probed"
                )
        lengths = {len(links) - 1 for _, links in routing.alternatives(src, dst)}
        if lengths == {-1}:
            raise InputError(f"{fabric.port_element(src)} and {fabric.port_element(dst)} are of one host")
        hops.append(min(lengths))
        longest.append(max(lengths))
    return ProbePlan(different, tuple(sports), proto, dport, dscp, tuple(hops), tuple(longest), packets_per_s)


@dataclass(frozen=True)
class ProbedPath:
    """What probing saw of one flow.

    Attributes:
        flow: the flow.
        links: directed links in order, the first and the last from the cabling; -1 where no router answered.
        unknown: time to live -> address that belongs to no port of the fabric.
    """

    flow: FlowKey
    links: tuple[int, ...]
    unknown: Mapping[int, str]

    @property
    def complete(self) -> bool:
        """Every link is known."""
        return -1 not in self.links


def tasks(probe_plan: ProbePlan, fabric: Fabric) -> dict[str, list[dict[str, Any]]]:
    """Sending host -> the arguments of each `topology.probing.prober.trace` there, in the order of the pairs."""
    of_host: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (src, dst), hops, most in zip(probe_plan.pairs, probe_plan.hops, probe_plan.longest, strict=True):
        address, target = fabric.ports.address[src], fabric.ports.address[dst]
        last = int(fabric.ports.node[fabric.directed_ports[int(fabric.out_of_port[dst]), 1]])
        of_host[fabric.nodes.name[int(fabric.ports.node[src])]].append(
            {
                "flows": [[address, sport, target, probe_plan.dport] for sport in probe_plan.sports],
                "hops": hops,
                "most": most,
                "ends": [
                    fabric.ports.address[row] for row in np.flatnonzero(fabric.ports.node == last).tolist()
                ],
                "proto": probe_plan.proto,
                "dscp": probe_plan.dscp,
                "packets_per_s": probe_plan.packets_per_s,
                "wait_s": probe_plan.wait_s,
                "tries": probe_plan.tries,
            }
        )
    return dict(of_host)


def read_answers(
    probe_plan: ProbePlan, pair: tuple[int, int], result: Mapping[str, Any], fabric: Fabric
) -> list[ProbedPath]:
    """Paths of one pair's flows in the order of the plan's source ports, those left out that could not be had.

    Args:
        probe_plan: what was sent.
        pair: one of the plan's pairs.
        result: what `topology.probing.prober.trace` returned for it.
        fabric: whose addresses the routers answer with.
    """
    src, dst = pair
    number = probe_plan.pairs.index(pair)
    hops, most = probe_plan.hops[number], probe_plan.longest[number]
    by_flow: dict[int, dict[int, str]] = defaultdict(dict)
    for index, ttl, address in result["answers"]:
        by_flow[int(index)][int(ttl)] = str(address)
    out, into = int(fabric.out_of_port[src]), int(fabric.out_of_port[dst]) ^ 1
    last = int(fabric.ports.node[fabric.directed_ports[into, 0]])
    found = []
    for index, sport in enumerate(probe_plan.sports):
        if str(index) in result["refused"]:
            continue
        links, unknown = [out], {}
        node = _far(fabric, out)
        for ttl in range(2, most + 1):
            if ttl > hops and (node == last or not by_flow[index].get(ttl - 1)):
                break
            address = by_flow[index].get(ttl, "")
            link, node = _link_into(fabric, address, node)
            if address and fabric.port_of_address(address) is None:
                unknown[ttl] = address
            links.append(link)
        silent_end = node < 0 and hops == most
        links.append(into if node == last or silent_end else -1)
        flow = FlowKey(src, dst, probe_plan.proto, sport, probe_plan.dport)
        found.append(ProbedPath(flow, tuple(links), unknown))
    return found


def _link_into(fabric: Fabric, address: str, previous: int) -> tuple[int, int]:
    """(directed link over which a packet came to the router that answered, or -1; the router's node, or -1).

    A router answers from the interface at which the packet came in (RFC 1812, 4.3.2.4, allows others): then the
    link is told by the address. Where it answers from another one, the only cable from the previous router counts.
    """
    row = fabric.port_of_address(address) if address else None
    if row is None:
        return -1, -1
    node = int(fabric.ports.node[row])
    link = int(fabric.out_of_port[row])
    if link >= 0 and (previous < 0 or _far(fabric, link) == previous):
        return link ^ 1, node
    ends = fabric.ports.node[fabric.directed_ports]
    between = np.flatnonzero((ends[:, 0] == previous) & (ends[:, 1] == node))
    return (int(between[0]) if len(between) == 1 else -1), node


def _far(fabric: Fabric, directed: int) -> int:
    return int(fabric.ports.node[fabric.directed_ports[directed, 1]])


def observations(paths: Iterable[ProbedPath], routing: Routing) -> dict[int, list[tuple[FlowKey, int, int]]]:
    """Switch row -> (flow, destination group, index of the next hop it took), where there was a choice.

    This is what a hash preset is fitted to. A link that the routing does not have among its next hops is left out.
    """
    fabric = routing.fabric
    seen: dict[int, list[tuple[FlowKey, int, int]]] = defaultdict(list)
    for path in paths:
        group = int(routing.group[path.flow.dst_port])
        for link in path.links[1:]:
            if link < 0:
                continue
            switch = int(fabric.ports.node[fabric.directed_ports[link, 0]])
            hops = routing.table.get((switch, group))
            if hops is not None and len(hops.links) > 1 and link in hops.links:
                seen[switch].append((path.flow, group, hops.links.index(link)))
    return dict(seen)


@dataclass(frozen=True)
class Agreement:
    """Probed paths beside those that the routing's hashes predict: flows compared, equal, and not predictable."""

    compared: int
    equal: int
    unpredictable: int

    def findings(self) -> list[Finding]:
        """WARN where the routing's hashes or routes are not what was seen."""
        if self.equal == self.compared:
            return []
        return [
            Finding(
                check="path-prediction",
                status=Status.WARN,
                where=ElementId.fabric(),
                what=f"{self.compared - self.equal} of {self.compared} probed paths are not those that the fabric's known "
                "hashes and routes predict",
                evidence={"compared": self.compared, "as_predicted": self.equal},
                fix="discover again, for routes or hashes may have changed; with parallel cables let routers answer from the "
                "interface the packet came in by (Linux: icmp_errors_use_inbound_ifaddr=1)",
            )
        ]


def agreement(paths: Sequence[ProbedPath], routing: Routing) -> Agreement:
    """How many complete probed paths are those that `routing` predicts."""
    complete = [path for path in paths if path.complete]
    compared = equal = 0
    for path in complete:
        try:
            predicted = routing.path(path.flow)
        except UnknownPathError:
            continue
        compared += 1
        equal += predicted == path.links
    return Agreement(compared, equal, len(complete) - compared)


def to_json(probe_plan: ProbePlan, paths: Sequence[ProbedPath], fabric: Fabric) -> dict[str, Any]:
    """The table source port -> path of each pair, with names instead of rows."""
    by_pair: dict[tuple[int, int], list[ProbedPath]] = defaultdict(list)
    for path in paths:
        by_pair[path.flow.src_port, path.flow.dst_port].append(path)
    return {
        "schema": PATHS_SCHEMA,
        "proto": probe_plan.proto,
        "dport": probe_plan.dport,
        "dscp": probe_plan.dscp,
        "pairs": [
            {
                "src": str(fabric.port_element(src)),
                "dst": str(fabric.port_element(dst)),
                "ports": {
                    str(path.flow.sport): [
                        None if link < 0 else fabric.directed_name(link) for link in path.links
                    ]
                    for path in of_pair
                },
            }
            for (src, dst), of_pair in by_pair.items()
        ],
    }
