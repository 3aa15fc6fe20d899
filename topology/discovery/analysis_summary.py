"""`Summary`: a fabric at a glance: tiers, leaves, rails, planes, speeds, oversubscription, accelerator domains."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from topology.discovery.analysis_common import link_nodes
from topology.discovery.analysis_tiers import capacity, parts, spread
from topology.fabric import Fabric, LinkState, NodeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.discovery.analysis_common import Bools, Ints


@dataclass(frozen=True)
class Tier:
    """The switches of one tier.

    Attributes:
        tier: 1 leaves, 2 spines, ...; -1 switches that no host reaches.
        switches: how many.
        oversubscription: min, median and max over them of capacity down over up; None for a top tier.
        down_cables: least and most cables of one of them towards the tier below (hosts, for leaves).
    """

    tier: int
    switches: int
    oversubscription: Mapping[str, float] | None
    down_cables: tuple[int, int]


@dataclass(frozen=True)
class Summary:
    """Counts and figures.

    Attributes:
        hosts, switches, links, gpus: how many; `links` counts cables, parallel ones each.
        links_down: cables that are down.
        hosts_without_cable: names.
        tiers: from the leaves up.
        leaves: switches with hosts: those of tier 1.
        rails, planes: how many different ones hosts' NICs have; 0 where none is told.
        parts: connected parts that have hosts.
        nic_speeds, trunk_speeds: Gbit/s (0 not known) -> cables of hosts, cables between switches.
        nvl_domains: accelerator domains: count, and the least and most hosts of one.
    """

    hosts: int
    switches: int
    links: int
    gpus: int
    links_down: int
    hosts_without_cable: tuple[str, ...]
    tiers: tuple[Tier, ...]
    leaves: int
    rails: int
    planes: int
    parts: int
    nic_speeds: Mapping[float, int] = field(default_factory=dict)
    trunk_speeds: Mapping[float, int] = field(default_factory=dict)
    nvl_domains: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        data = asdict(self)
        for key in ("nic_speeds", "trunk_speeds"):
            data[key] = [{"gbps": gbps, "links": count} for gbps, count in sorted(getattr(self, key).items())]
        return data


def summarise(fabric: Fabric) -> Summary:
    """The summary of a fabric."""
    node_a, node_b = link_nodes(fabric)
    hosts = fabric.nodes.kind == NodeKind.HOST
    cabled = np.zeros(len(fabric.nodes.name), dtype=bool)
    cabled[node_a] = cabled[node_b] = True
    of_host = hosts[node_a] | hosts[node_b]
    nics = hosts[fabric.ports.node]
    rails, planes = fabric.ports.rail[nics], fabric.ports.plane[nics]
    tiers = _tiers(fabric, node_a, node_b)
    part = parts(fabric)[hosts]
    return Summary(
        hosts=int(np.count_nonzero(hosts)),
        switches=int(np.count_nonzero(~hosts)),
        links=len(node_a),
        gpus=len(fabric.gpus.host),
        links_down=int(np.count_nonzero(fabric.links.state == LinkState.DOWN)),
        hosts_without_cable=tuple(fabric.nodes.name[row] for row in np.flatnonzero(hosts & ~cabled).tolist()),
        tiers=tiers,
        leaves=next((tier.switches for tier in tiers if tier.tier == 1), 0),
        rails=len(np.unique(rails[rails >= 0])),
        planes=len(np.unique(planes[planes >= 0])),
        parts=len(np.unique(part[part >= 0])),
        nic_speeds=_speeds(fabric, of_host),
        trunk_speeds=_speeds(fabric, ~of_host),
        nvl_domains=_domains(fabric, hosts),
    )


def _tiers(fabric: Fabric, node_a: Ints, node_b: Ints) -> tuple[Tier, ...]:
    switches, tier = fabric.nodes.kind == NodeKind.SWITCH, fabric.nodes.tier
    ratio = capacity(fabric).ratio
    sender, receiver = np.concatenate([node_a, node_b]), np.concatenate([node_b, node_a])
    down = (tier[receiver] >= 0) & (tier[receiver] < tier[sender])
    cables = np.bincount(sender[down], minlength=len(tier))
    found = []
    numbers = sorted(set(tier[switches].tolist()))
    for number in [*(n for n in numbers if n >= 0), *(n for n in numbers if n < 0)]:
        own = switches & (tier == number)
        ratios = ratio[own & np.isfinite(ratio)]
        span = int(cables[own].min()), int(cables[own].max())
        found.append(Tier(number, int(np.count_nonzero(own)), spread(ratios) if len(ratios) else None, span))
    return tuple(found)


def _speeds(fabric: Fabric, chosen: Bools) -> dict[float, int]:
    speeds = fabric.ports.speed_gbps
    slower = np.minimum(speeds[fabric.links.port_a], speeds[fabric.links.port_b])[chosen]
    values, counts = np.unique(slower, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _domains(fabric: Fabric, hosts: Bools) -> dict[str, int]:
    domains = fabric.nodes.nvl_domain[hosts]
    sizes = Counter(domains[domains >= 0].tolist())
    if not sizes:
        return {}
    return {"count": len(sizes), "least_hosts": min(sizes.values()), "most_hosts": max(sizes.values())}
