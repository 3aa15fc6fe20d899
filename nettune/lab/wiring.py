"""Which port is cabled to which, and with which addresses: a LabSpec spelled out link by link.

Addresses: leaf L owns 10.0.L.0/24; its port dN takes 10.0.L.2N and the host's NIC 10.0.L.2N+1 (a /31 each).
Links between switches take /31s out of 10.128.0.0/9, the leaf's end first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address
from typing import Literal

from nettune.lab.spec import MAX_HOST_LINKS_PER_LEAF, LabSpec

_LEAVES_BASE = int(IPv4Address("10.0.0.0"))
_FABRIC_BASE = int(IPv4Address("10.128.0.0"))


@dataclass(frozen=True)
class End:
    """One end of a link: an interface of a node and its address (of a /31)."""

    node: str
    iface: str
    address: str


@dataclass(frozen=True)
class Link:
    """A cable. `lower` is the host of a host link and the leaf of an uplink; rates are equal both ways."""

    kind: Literal["host", "uplink"]
    lower: End
    upper: End
    rate_gbps: float

    @property
    def ends(self) -> tuple[End, End]:
        """(lower, upper)."""
        return self.lower, self.upper

    @property
    def key(self) -> str:
        """Its name in states and messages, `leaf0:u0--spine0:d0`: ends sorted as in an ElementId."""
        return "--".join(sorted(f"{end.node}:{end.iface}" for end in self.ends))


@dataclass(frozen=True)
class Move:
    """A host's NIC cabled elsewhere than the specification says: to port `port` of leaf `leaf`."""

    leaf: str
    port: int


@dataclass(frozen=True)
class Wiring:
    """All nodes and links of a lab; `moves` maps (host, NIC) to where it is cabled instead."""

    spec: LabSpec
    moves: Mapping[tuple[str, str], Move]

    @cached_property
    def leaves(self) -> list[str]:
        """Names of the leaves."""
        return [f"leaf{i}" for i in range(self.spec.leaves)]

    @cached_property
    def spines(self) -> list[str]:
        """Names of the spines."""
        return [f"spine{i}" for i in range(self.spec.spines)]

    @cached_property
    def hosts(self) -> list[str]:
        """Names of the hosts in fabric (depth-first) order."""
        return self.spec.hosts

    @cached_property
    def nodes(self) -> list[str]:
        """Hosts, leaves, spines."""
        return [*self.hosts, *self.leaves, *self.spines]

    @cached_property
    def links(self) -> list[Link]:
        """Host links host by host and rail by rail, then uplinks leaf by leaf and spine by spine."""
        return [*self._host_links(), *self._uplinks()]

    @cached_property
    def links_of(self) -> dict[str, list[tuple[Link, End, End]]]:
        """Node -> (link, own end, far end), in the order of `links`."""
        found: dict[str, list[tuple[Link, End, End]]] = {node: [] for node in self.nodes}
        for link in self.links:
            found[link.lower.node].append((link, link.lower, link.upper))
            found[link.upper.node].append((link, link.upper, link.lower))
        return found

    def home(self, host: int, rail: int) -> Move:
        """Leaf and port number that the specification gives to NIC `rail` of the host numbered `host`."""
        spec = self.spec
        group, place = divmod(host, spec.hosts_per_leaf)
        if spec.rail_wiring == "per-rail":
            return Move(f"leaf{group * spec.rails + rail}", place)
        return Move(f"leaf{group}", place * spec.rails + rail)

    def free_port(self, leaf: str) -> int | None:
        """The lowest unused host port number of a leaf above its own ones; None when its prefix is full."""
        used = {int(own.iface[1:]) for link, own, _ in self.links_of[leaf] if link.kind == "host"}
        first = self.spec.hosts_per_leaf * (self.spec.rails if self.spec.rail_wiring == "same-leaf" else 1)
        return next((port for port in range(first, MAX_HOST_LINKS_PER_LEAF) if port not in used), None)

    def prefix(self, leaf: str) -> str:
        """The prefix of all hosts below a leaf."""
        return f"{IPv4Address(_LEAVES_BASE + 256 * int(leaf.removeprefix('leaf')))}/24"

    def _host_links(self) -> Iterator[Link]:
        for number, host in enumerate(self.hosts):
            for rail in range(self.spec.rails):
                nic = f"eth{rail}"
                at = self.moves.get((host, nic)) or self.home(number, rail)
                base = _LEAVES_BASE + 256 * int(at.leaf.removeprefix("leaf")) + 2 * at.port
                yield Link(
                    kind="host",
                    lower=End(host, nic, str(IPv4Address(base + 1))),
                    upper=End(at.leaf, f"d{at.port}", str(IPv4Address(base))),
                    rate_gbps=self.spec.host_rate_gbps,
                )

    def _uplinks(self) -> Iterator[Link]:
        number = 0
        per_spine = self.spec.parallel_uplinks
        for leaf_number, leaf in enumerate(self.leaves):
            for spine_number, spine in enumerate(self.spines):
                for parallel in range(per_spine):
                    base = _FABRIC_BASE + 2 * number
                    number += 1
                    yield Link(
                        kind="uplink",
                        lower=End(leaf, f"u{spine_number * per_spine + parallel}", str(IPv4Address(base))),
                        upper=End(
                            spine, f"d{leaf_number * per_spine + parallel}", str(IPv4Address(base + 1))
                        ),
                        rate_gbps=self.spec.uplink_rate_gbps,
                    )
