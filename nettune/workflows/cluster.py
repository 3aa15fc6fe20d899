"""`Cluster`: hosts that can be reached, with the fabric that was discovered between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from nettune.errors import InputError
from nettune.checks import Finding
from nettune.lab import Lab
from nettune.launch import Agents, Launcher, run
from topology.capture import HostCapture
from topology.discovery.analysis import analyse
from topology.discovery.collect import collect
from topology.discovery.l3 import Discovery, build

Counters = Callable[[], Mapping[tuple[str, str], Sequence[int]]]
_FIRST_PORT = 29500


@dataclass(frozen=True)
class Cluster:
    """What the verbs work on.

    Attributes:
        name: for titles.
        launcher: how to reach hosts and, where it can, switches.
        captures: what each node said of itself.
        discovery: fabric, routing and what was dropped on the way.
        findings: of discovery and of the structure.
        iface: network interface of the ranks' traffic, rail 0.
        counters: reads (node, port) -> (rx bytes, tx bytes, ...) of all ports; None where that cannot be done.
        fresh_port: gives TCP ports that no run of this process has used yet.
    """

    name: str
    launcher: Launcher
    captures: tuple[HostCapture, ...]
    discovery: Discovery
    findings: tuple[Finding, ...]
    iface: str
    counters: Counters | None = None
    fresh_port: Callable[[], int] = field(default_factory=lambda: partial(next, count(_FIRST_PORT)))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in the fabric's order; agent i lives on host i."""
        return self.discovery.fabric.hosts

    def address(self, host: str) -> str:
        """IP address of a host's first NIC."""
        fabric = self.discovery.fabric
        return fabric.ports.address[fabric.nics(host)[0]]

    def agents(self, preload: Sequence[str] = ("torch",)) -> Agents:
        """One persistent agent per host, in the order of `hosts`."""
        return Agents(self.launcher, self.hosts, preload=preload)

    def rediscovered(self) -> Cluster:
        """The same hosts, asked again: routes and links may have changed."""
        return replace(self, **_look(self.launcher, [capture.host for capture in self.captures]))


def _look(launcher: Launcher, nodes: Sequence[str]) -> dict[str, object]:
    captures = collect(lambda commands, timeout_s: run(launcher, commands, timeout_s=timeout_s), nodes)
    discovery = build(captures)
    return {
        "captures": tuple(captures),
        "discovery": discovery,
        "findings": (*discovery.findings, *analyse(discovery)),
    }


def discover_lab(lab: Lab) -> Cluster:
    """Discover a lab from its nodes' own state; the file that it was built from is not looked at.

    Raises:
        CollectError: a node did not answer.
        InputError: no host was found.
    """
    launcher = lab.launcher()
    cluster = Cluster(name=lab.name, launcher=launcher, iface="", counters=lab.counters, **_look(launcher, lab.nodes))  # type: ignore[arg-type]
    fabric = cluster.discovery.fabric
    if not fabric.hosts:
        raise InputError(f"lab {lab.name!r} has no host with a NIC on its fabric")
    return replace(cluster, iface=fabric.ports.name[fabric.nics(fabric.hosts[0])[0]])
