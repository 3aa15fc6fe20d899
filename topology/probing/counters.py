"""Paths by port counters, for switches that are silent when a packet's time to live ends, as most of RoCE fabrics are.

Packets of one source port are sent, and the transmit counters of switches are read before and after: the ports that sent
as many are its path. Four source ports go between two readings, with 1, 2, 4 and 8 times as many packets, so the binary
digits of a counter's difference say which of them crossed its link. Packets die at the last router and never arrive.

Live, counters are those of the switch's own network devices (/proc/net/dev: Linux routers, Cumulus). Where these do not
count what the chip forwards (SONiC), or nobody may log in, `topology.probing.capturefile` reads counters from a file.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError, NettuneError
from nettune.launch.base import Command
from nettune.wording import counted, some
from topology.probing.paths import MAX_PACKETS, ProbedPath
from topology.probing.run import open_paths, printed, prober_command, refusals
from topology.routing import FlowKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from topology.discovery.collect import Run
    from topology.fabric import Fabric
    from topology.probing.paths import ProbePlan
    from topology.routing import Routing

AT_ONCE = 4
"""Source ports between two readings: one more doubles the packets of all."""
BURST = 32
_IDLE_S = 5.0
_SETTLE_S, _LOOKS = 1.0, 5
_TIMEOUT_S = 30.0
_QUIET = (
    "probe while the fabric is quiet, or with larger bursts (--burst); packets that are lost, or that a switch sprays, show no "
    "path"
)
_TX_PACKETS = 9
"""Column of /proc/net/dev behind the name."""


@dataclass(frozen=True)
class CounterPlan:
    """What will be sent, and how often counters are read.

    Attributes:
        probes: pairs, source ports, protocol, pace.
        burst: packets of the first of `AT_ONCE` source ports; the next has twice as many, and so on.

    Raises:
        InputError: a burst below 8, which other packets would hide, or more packets than MAX_PACKETS.
    """

    probes: ProbePlan
    burst: int = BURST

    def __post_init__(self) -> None:
        if self.burst < 8:
            raise InputError(f"a burst of {self.burst} packets is lost among others; 8 at least")
        if self.packets > MAX_PACKETS:
            raise InputError(
                f"probing would send {self.packets:,} packets, more than {MAX_PACKETS:,}: ask for fewer ports or pairs, or "
                "smaller bursts"
            )

    def groups(self) -> list[tuple[int, ...]]:
        """Source ports that are sent between two readings."""
        sports = self.probes.sports
        return [sports[begin : begin + AT_ONCE] for begin in range(0, len(sports), AT_ONCE)]

    @property
    def packets(self) -> int:
        """Packets in all."""
        of_pair = sum(self.burst * ((1 << len(group)) - 1) for group in self.groups())
        return of_pair * len(self.probes.pairs)

    @property
    def seconds(self) -> float:
        """Time at most, if every counter is late."""
        of_pair = self.idle_s + len(self.groups()) * _LOOKS * _SETTLE_S
        return self.packets / self.probes.packets_per_s + len(self.probes.pairs) * of_pair

    @property
    def idle_s(self) -> float:
        """As long as packets between two readings take: what is sent meanwhile is other traffic."""
        return min(_IDLE_S, self.burst * (1 << AT_ONCE) / self.probes.packets_per_s)

    def describe(self, routing: Routing) -> str:
        """One line for the person who is asked before anything is sent."""
        fabric, probes = routing.fabric, self.probes
        nodes = counted(len(self.switches(routing)), "switch", "switches")
        return (
            f"{self.packets:,} {probes.what}, {probes.aim(fabric)}, at most {probes.packets_per_s:g} packets/s from one host at "
            f"a time, and read the counters of {nodes} before and after each {AT_ONCE} source ports, at most {self.seconds:.0f} s"
        )

    def switches(self, routing: Routing) -> list[str]:
        """Switches that send on links that a pair may take: those whose counters decide."""
        links = sorted({link for pair in self.probes.pairs for link in between(routing, pair)})
        senders = routing.fabric.directed_ports[links, 0]
        return [
            routing.fabric.nodes.name[row] for row in sorted(set(routing.fabric.ports.node[senders].tolist()))
        ]


def probe_by_counters(
    run: Run, plan: CounterPlan, routing: Routing
) -> tuple[list[ProbedPath], list[Finding]]:
    """Paths of all flows of a plan, and findings: links with other traffic, source ports that could not be had.

    Args:
        run: how commands are run, on hosts and on switches.
        plan: what to send.
        routing: whose next hops are the ways among which the counters decide.

    Raises:
        NettuneError: of every pair a switch's counters could not be read, or the host could not send; why of the first.
    """
    paths: list[ProbedPath] = []
    findings: list[Finding] = []
    failed: list[NettuneError] = []
    for pair, hops in zip(plan.probes.pairs, plan.probes.hops, strict=True):
        try:
            found, told = _probe_pair(run, plan, routing, pair, hops)
        except NettuneError as error:
            failed.append(error)
            where, fix = (
                routing.fabric.port_element(pair[0]),
                "see that it is reached, or name other pairs (--pair)",
            )
            told = [Finding(check="path-probe", status=Status.UNKNOWN, where=where, what=str(error), fix=fix)]
            found = []
        paths += found
        findings += told
    if failed and not paths:
        raise failed[0]
    return paths, findings


def _probe_pair(
    run: Run, plan: CounterPlan, routing: Routing, pair: tuple[int, int], hops: int
) -> tuple[list[ProbedPath], list[Finding]]:
    fabric, probes, ways = routing.fabric, plan.probes, routing.alternatives(*pair)
    reader = _Reader(run, between(routing, pair), fabric)
    time.sleep(plan.idle_s)
    noisy = {link for link, packets in reader.grown().items() if packets > plan.burst // 4}
    paths: list[ProbedPath] = []
    refused: list[str] = []
    for group in plan.groups():
        counts = [plan.burst << place for place in range(len(group))]
        sent = _send(run, plan, fabric, pair, hops, group, counts)
        # Each packet is counted by all routers but the last.
        grown = reader.settled(sent["sent"] * (hops - 1), plan.burst // 2)
        times = {link: _bursts(packets, plan.burst) for link, packets in grown.items() if link not in noisy}
        for place, sport in enumerate(group):
            if str(place) in sent["refused"]:
                refused.append(sent["refused"][str(place)])
                continue
            crossed = {link: bool(many >> place & 1) for link, many in times.items() if many >= 0}
            flow = FlowKey(*pair, probes.proto, sport, probes.dport)
            paths.append(ProbedPath(flow, path_by_counters(ways, crossed, hops), {}))
    where, target = (fabric.port_element(row) for row in pair)
    names = [fabric.directed_name(link) for link in sorted(noisy)]
    busy = f"{counted(len(names), 'link')} on the way to {target} carry other traffic, so they are not counted: {some(names, 4)}"
    told = [*refusals(refused), *([(busy, _QUIET)] if names else [])]
    return paths, [*open_paths(where, told), *unclear(paths, where, f"source ports to {target}")]


def unclear(paths: Sequence[ProbedPath], where: ElementId, what: str) -> list[Finding]:
    """UNKNOWN where counters leave paths open."""
    count = sum(not path.complete for path in paths)
    told = [(f"counters do not tell the path of {count} of {len(paths)} {what}", _QUIET)] if count else []
    return open_paths(where, told)


def path_by_counters(
    ways: Sequence[tuple[float, tuple[int, ...]]], crossed: Mapping[int, bool], hops: int
) -> tuple[int, ...]:
    """The path of a flow among the ways that it may take; -1 for links that the counters leave open.

    Args:
        ways: `Routing.alternatives`.
        crossed: link -> whether its counter has the packets; links without a counter are left out.
        hops: the last router that the packets came to: it and those behind it sent nothing.
    """
    fitting = [
        links
        for _, links in ways
        if all((link in links[1:hops]) == packets for link, packets in crossed.items())
    ]
    # A path is seen at least once, not only told by where the packets were not.
    seen = len(ways) == 1 or any(crossed.values())
    if seen and len({len(links) for links in fitting}) == 1:
        return tuple(at[0] if len(set(at)) == 1 else -1 for at in zip(*fitting, strict=True))
    shortest = min((links for _, links in ways), key=len)
    return (shortest[0], *[-1] * (len(shortest) - 2), shortest[-1])


def between(routing: Routing, pair: tuple[int, int]) -> set[int]:
    """Directed links between switches that a pair may take."""
    return {link for _, links in routing.alternatives(*pair) for link in links[1:-1]}


def _bursts(packets: int, burst: int) -> int:
    """How many times the smallest burst a counter grew by; -1 where that is no whole number, or too many."""
    times, rest = divmod(packets + burst // 2, burst)
    return times if abs(rest - burst // 2) <= burst // 4 and times < 2**AT_ONCE else -1


class _Reader:
    """Reads the transmit counters of some directed links at the switches that send on them."""

    def __init__(self, run: Run, links: Iterable[int], fabric: Fabric) -> None:
        self._run = run
        self._ports: dict[str, dict[str, int]] = defaultdict(dict)  # switch -> device -> link
        for link in links:
            port = int(fabric.directed_ports[link, 0])
            node = fabric.nodes.name[int(fabric.ports.node[port])]
            self._ports[node][fabric.ports.name[port]] = link
        self._before = self._read()

    def settled(self, expected: int, tolerance: int) -> dict[int, int]:
        """Packets on each link since the last answer; empty where they are not so many as expected in all.

        Packets too many or too few could look like those of other source ports.
        """
        for look in range(_LOOKS):
            if look:
                # Chips tell their counters late.
                time.sleep(_SETTLE_S)
            now = self._read()
            grown = {link: count - self._before[link] for link, count in now.items()}
            if sum(grown.values()) >= expected - tolerance:
                break
        self._before = now
        return grown if abs(sum(grown.values()) - expected) <= tolerance else {}

    def grown(self) -> dict[int, int]:
        """Packets on each link since the last answer."""
        now = self._read()
        grown = {link: count - self._before[link] for link, count in now.items()}
        self._before = now
        return grown

    def _read(self) -> dict[int, int]:
        """Packets that were sent on each link.

        Raises:
            NettuneError: a switch did not answer, or has no such device.
        """
        asked = [Command(node, ["cat", "/proc/net/dev"]) for node in self._ports]
        found = {}
        for outcome in self._run(asked, _TIMEOUT_S):
            if not outcome.ok:
                last = outcome.stderr.strip().splitlines()[-1:] or ["it did not answer in time"]
                raise NettuneError(f"{outcome.host}: its counters cannot be read: {last[0][:300]}")
            sent = dict(_devices(outcome.stdout))
            for device, link in self._ports[outcome.host].items():
                if device not in sent:
                    raise NettuneError(
                        f"{outcome.host} has no network device {device}: read its counters into a file (--captures)"
                    )
                found[link] = sent[device]
        return found


def _devices(text: str) -> Iterator[tuple[str, int]]:
    """Name and transmitted packets of each device in /proc/net/dev."""
    for line in text.splitlines():
        name, colon, numbers = line.rpartition(":")
        columns = numbers.split()
        if colon and len(columns) > _TX_PACKETS:
            yield name.strip(), int(columns[_TX_PACKETS])


def _send(
    run: Run,
    plan: CounterPlan,
    fabric: Fabric,
    pair: tuple[int, int],
    hops: int,
    group: Sequence[int],
    counts: Sequence[int],
) -> dict[str, Any]:
    """What `topology.probing.prober.burst` returns."""
    probes = plan.probes
    source, target = (fabric.ports.address[row] for row in pair)
    task = {
        "flows": [[source, sport, target, probes.dport] for sport in group],
        "counts": counts,
        "ttl": hops,
        "proto": probes.proto,
        "dscp": probes.dscp,
        "packets_per_s": probes.packets_per_s,
    }
    host = fabric.nodes.name[int(fabric.ports.node[pair[0]])]
    limit_s = _TIMEOUT_S + 2 * sum(counts) / probes.packets_per_s
    (outcome,) = run([prober_command(host, [task])], limit_s)
    (result,) = printed(outcome)
    return result
