"""Which port is cabled to which: two addresses in one subnet of two, confirmed by the hardware addresses seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from topology.discovery.interfaces import Interface, NodeView

End = tuple[str, str]


@dataclass(frozen=True)
class Cable:
    """A cable between two (node, interface), the address of each end, and why each end is down (empty: up)."""

    a: End
    b: End
    address_a: IPv4Address
    address_b: IPv4Address
    down_a: str
    down_b: str


@dataclass(frozen=True)
class Conflict:
    """Two sources that disagree about a port: its element-to-be, what they say, and figures."""

    end: End
    what: str
    evidence: Mapping[str, str]


@dataclass
class Cabling:
    """All cables, conflicts between the sources, and ports without a known partner: (node, interface) -> why."""

    cables: list[Cable] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    alone: dict[End, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Candidate:
    end: End
    address: IPv4Address
    interface: Interface


def cabling(views: Sequence[NodeView]) -> Cabling:
    """Pair the interfaces of all nodes; a port gets one cable at most."""
    by_subnet: dict[IPv4Network, list[_Candidate]] = {}
    owner: dict[str, list[End]] = {}
    neighbours: dict[End, dict[IPv4Address, str]] = {}
    for node in views:
        for (device, address), mac in node.neighbours.items():
            neighbours.setdefault((node.host, device), {})[address] = mac
        for interface in node.interfaces:
            end = (node.host, interface.name)
            owner.setdefault(interface.mac, []).append(end)
            for address in interface.addresses:
                by_subnet.setdefault(address.network, []).append(_Candidate(end, address.ip, interface))
    result = Cabling()
    taken: set[End] = set()
    for subnet, candidates in by_subnet.items():
        free = [one for one in candidates if one.end not in taken]
        for first, second in _pairs(subnet, free, neighbours, result):
            taken |= {first.end, second.end}
            result.cables.append(
                Cable(
                    first.end,
                    second.end,
                    first.address,
                    second.address,
                    first.interface.down,
                    second.interface.down,
                )
            )
            for own, far in ((first, second), (second, first)):
                _confirm(own, far, neighbours, owner, result)
    for candidates in by_subnet.values():
        for one in candidates:
            if one.end not in taken and one.end not in result.alone:
                result.alone[one.end] = _why_alone(one, neighbours.get(one.end, {}))
    return result


def _pairs(
    subnet: IPv4Network,
    candidates: list[_Candidate],
    neighbours: Mapping[End, Mapping[IPv4Address, str]],
    result: Cabling,
) -> list[tuple[_Candidate, _Candidate]]:
    if len(candidates) == 2 and candidates[0].address != candidates[1].address:
        return [(candidates[0], candidates[1])]
    if len(candidates) < 2:
        return []
    # The subnet is used more than once: only hardware addresses tell who sees whom.
    pairs: list[tuple[_Candidate, _Candidate]] = []
    used: set[End] = set()
    for first, second in combinations(candidates, 2):
        sees = neighbours.get(first.end, {}).get(second.address) == second.interface.mac
        seen = neighbours.get(second.end, {}).get(first.address) == first.interface.mac
        if (sees or seen) and first.address != second.address and not {first.end, second.end} & used:
            used |= {first.end, second.end}
            pairs.append((first, second))
    ports = ", ".join(":".join(one.end) for one in candidates)
    result.conflicts.append(
        Conflict(
            candidates[0].end,
            f"subnet {subnet} is used by {len(candidates)} ports ({ports}); "
            f"{len(pairs)} cables could be told by hardware addresses",
            {"subnet": str(subnet), "ports": ports},
        )
    )
    return pairs


def _confirm(
    own: _Candidate,
    far: _Candidate,
    neighbours: Mapping[End, Mapping[IPv4Address, str]],
    owner: Mapping[str, list[End]],
    result: Cabling,
) -> None:
    seen = neighbours.get(own.end, {}).get(far.address)
    if seen is None or seen == far.interface.mac:
        return
    holder = ", ".join(":".join(end) for end in owner.get(seen, [])) or "a port that was not captured"
    result.conflicts.append(
        Conflict(
            own.end,
            f"addresses say that it is cabled to {':'.join(far.end)}, but {far.address} answers there with hardware "
            f"address {seen} of {holder}",
            {"by_subnet": ":".join(far.end), "by_neighbour": holder, "hardware_address": seen},
        )
    )


def _why_alone(one: _Candidate, seen: Mapping[IPv4Address, str]) -> str:
    network = next(address.network for address in one.interface.addresses if address.ip == one.address)
    for address, mac in seen.items():
        if address in network:
            return f"its neighbour {address} ({mac}) was not captured"
    return f"no captured port shares its subnet {network}"
