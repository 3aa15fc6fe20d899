"""`Cluster`: hosts that can be reached, with the fabric that was discovered between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from nettune.errors import InputError
from nettune.lab import Lab
from nettune.launch import Agents, Launcher, run
from topology.discovery.collect import collect
from topology.discovery.counters import counters_of
from topology.discovery.l3 import Discovery
from topology.discovery.live import discover

Counters = Callable[[], Mapping[tuple[str, str], Sequence[int]]]


@dataclass(frozen=True)
class Cluster:
    """What the verbs work on.

    Attributes:
        name: for titles.
        launcher: how to reach hosts and, where it can, switches.
        nodes: all nodes that were asked, hosts and switches.
        discovery: fabric, routing, findings of the structure, and what was dropped on the way.
        iface: network interface of the ranks' traffic: the first rail's.
        counters: reads (node, port) -> (rx bytes, tx bytes, ...) of all ports.
    """

    name: str
    launcher: Launcher
    nodes: tuple[str, ...]
    discovery: Discovery
    iface: str
    counters: Counters

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in the fabric's order; agent i lives on host i."""
        return self.discovery.fabric.hosts

    @property
    def link_rate_gbps(self) -> float:
        """Nominal speed of the slowest NIC on the ranks' rail: what busbw is held against."""
        fabric = self.discovery.fabric
        return min(float(fabric.ports.speed_gbps[fabric.port_row(host, self.iface)]) for host in self.hosts)

    def carrier_changes(self) -> dict[tuple[str, str], int]:
        """(node, port) -> times that its carrier came or went since it was made."""
        captures = collect(partial(run, self.launcher), self.nodes)
        return {
            (capture.host, port): counters.carrier_changes
            for capture in captures
            for port, counters in counters_of(capture).items()
            if counters.carrier_changes is not None
        }

    def agents(self, preload: Sequence[str] = ()) -> Agents:
        """One persistent agent per host, in the order of `hosts`."""
        return Agents(self.launcher, self.hosts, preload=preload)


def discover_lab(lab: Lab) -> Cluster:
    """Discover a lab from its nodes' own state; the file that it was built from is not looked at.

    Raises:
        CollectError: a node did not answer.
        InputError: no host was found.
    """
    launcher = lab.launcher()
    nodes = tuple(lab.nodes)
    discovery = discover(partial(run, launcher), nodes)
    fabric = discovery.fabric
    if not any(fabric.nics(host) for host in fabric.hosts):
        raise InputError(f"lab {lab.name!r} has no host with a NIC on its fabric")
    iface = fabric.ports.name[fabric.nics(fabric.hosts[0])[0]]
    return Cluster(lab.name, launcher, nodes, discovery, iface, lab.counters)
