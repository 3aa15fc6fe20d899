"""Small networks, flows on their shortest paths, and a function that simulates them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace

import pytest

from collectives.congestion.parameters import CongestionControl, FixedRate
from collectives.fabric_sim.flows import Flow, ShortestPaths
from collectives.fabric_sim.network import Cable, Network, SwitchSettings, Transport
from collectives.fabric_sim.options import Options
from collectives.fabric_sim.result import Result
from collectives.fabric_sim.simulate import Simulation


def chain(gbps: Sequence[float], delay_ns: float, settings: SwitchSettings | None = None) -> Network:
    """host0 - switch - ... - switch - host1 with these rates, one a link."""
    nodes = [0, *range(2, 1 + len(gbps)), 1]
    cables = [Cable(a, b, rate, delay_ns) for (a, b), rate in zip(pairwise(nodes), gbps, strict=True)]
    names = ["host0", "host1", *(f"switch{i}" for i in range(len(gbps) - 1))]
    return Network(names, 2, cables, settings or SwitchSettings())


def star(hosts: int, gbps: float, delay_ns: float, settings: SwitchSettings | None = None) -> Network:
    """All hosts on one switch."""
    cables = [Cable(host, hosts, gbps, delay_ns) for host in range(hosts)]
    names = [f"host{i}" for i in range(hosts)] + ["switch"]
    return Network(names, hosts, cables, settings or SwitchSettings())


def leaf_spine(
    leaves: int, spines: int, hosts_per_leaf: int, settings: SwitchSettings | None = None
) -> Network:
    """100 Gb/s and 1 us a link; cables of hosts come first, then those of leaf 0 to each spine."""
    hosts = leaves * hosts_per_leaf
    cables = [Cable(host, hosts + host // hosts_per_leaf, 100, 1000) for host in range(hosts)]
    cables += [
        Cable(hosts + leaf, hosts + leaves + spine, 100, 1000)
        for leaf in range(leaves)
        for spine in range(spines)
    ]
    names = [f"host{i}" for i in range(hosts)]
    names += [f"leaf{i}" for i in range(leaves)] + [f"spine{i}" for i in range(spines)]
    return Network(names, hosts, cables, settings or SwitchSettings())


def ring(switches: int, settings: SwitchSettings | None = None) -> Network:
    """A circle of switches with one host each."""
    cables = [Cable(i, switches + i, 100, 1000) for i in range(switches)]
    cables += [Cable(switches + i, switches + (i + 1) % switches, 100, 1000) for i in range(switches)]
    names = [f"host{i}" for i in range(switches)] + [f"switch{i}" for i in range(switches)]
    return Network(names, switches, cables, settings or SwitchSettings())


def path(network: Network, *nodes: int) -> list[int]:
    """Directed links through these nodes."""
    return [network.links_between[pair][0] for pair in pairwise(nodes)]


def flows(network: Network, pairs: Iterable[tuple[int, int, int]], **more: object) -> list[Flow]:
    """A flow for each (source, target, bytes), on a shortest path."""
    paths = ShortestPaths(network)
    return [
        Flow(src, dst, size, (paths.drawn(src, dst, 0),), paths.drawn(dst, src, 0), **more)  # type: ignore[arg-type]
        for src, dst, size in pairs
    ]


def run(
    network: Network,
    what: Sequence[Flow],
    control: CongestionControl | None = None,
    transport: Transport | None = None,
    seed: int = 1,
    **options: object,
) -> Result:
    """Simulate with one congestion control, by default none."""
    simulation = Simulation(
        network,
        what,
        [control or FixedRate()],
        transport=transport,
        options=Options(**options),  # type: ignore[arg-type]
    )
    return simulation.run(seed)


@pytest.fixture(scope="session")
def fab() -> SimpleNamespace:
    """The builders and `run`."""
    return SimpleNamespace(
        chain=chain, star=star, leaf_spine=leaf_spine, ring=ring, path=path, flows=flows, run=run
    )
