"""What is no part of the compute fabric is left out, each element with the reason; `keep` names what shall stay.

Compute NICs are those that most hosts have most of: their speed, link layer and switches are the measure. A NIC that
deviates from its namesakes on other hosts, or that shares a leaf with compute NICs, is a fault to be found, not another
network: it stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.units import format_rate
from topology.columns import LinkState, NodeKind
from topology.discovery.voting import MIN_VOTERS

if TYPE_CHECKING:
    from topology.readers.said import End, Said

Value = TypeVar("Value")

_AGGREGATION = re.compile(r"aggregation.?node|\bsharp\b", re.IGNORECASE)
_STORAGE = {
    "storage",
    "stor",
    "nfs",
    "nas",
    "lustre",
    "oss",
    "mds",
    "ost",
    "gpfs",
    "weka",
    "vast",
    "ddn",
    "ceph",
    "beegfs",
    "minio",
    "netapp",
    "isilon",
    "flashblade",
}
_MANAGEMENT = {"mgmt", "management", "bmc", "ipmi", "idrac", "ilo", "oob", "ufm", "opensm"}
_VIRTUAL = re.compile(r"(?:lo|docker\d*|virbr\d+\S*|veth\S*|br-\S+|cni\d*|flannel\S*|cali\S*|tunl\d+|usb\d+)")
_SWITCH_MANAGEMENT = re.compile(r"(?:mgmt|management|oob|me|fxp)-?\d*(?:[/.]\d+)*", re.IGNORECASE)
_FAR_SLOWER = 8.0
"""A NIC that is slower by this factor and shares no leaf with fast ones is no degraded link: 25 beside 200 Gbit/s."""
_FEW = 4
"""A separate network that a quarter of the hosts of the largest one reach is no rail and no plane of it."""


def apply_filters(said: Said, keep: Collection[str] = ()) -> Said:
    """Leave out what is no part of the compute fabric; reasons go to `said.dropped`.

    Args:
        said: it is changed.
        keep: names of `FILTERS` that are not applied; `all` for none at all.

    Raises:
        InputError: a name that is no filter.
    """
    unknown = [name for name in keep if name not in FILTERS and name != "all"]
    if unknown:
        raise InputError(f"--keep {unknown[0]!r} is not known; known: {', '.join(FILTERS)}, all")
    if "all" in keep:
        return said
    before: Counter[str] = Counter()
    for name, rule in FILTERS.items():
        if name == "storage":  # the first that looks at networks
            before = _nics_of_switches(said)
        if name not in keep:
            rule(said)
    _idle_switches(said, before)
    return said


def _is_nic(said: Said, end: End) -> bool:
    return said.nodes[end[0]].kind is not NodeKind.SWITCH


def _nics(said: Said) -> list[End]:
    hosts = {name for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH}
    return [end for end in said.ports if end[0] in hosts]


def _drop_ports(said: Said, ends: dict[End, str]) -> None:
    for (node, port), why in ends.items():
        said.drop(node, why, port)


@lru_cache(maxsize=1 << 16)
def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", name.lower()))


def _majority(values: Iterable[Value]) -> Value | None:
    counts = Counter(values)
    if not counts:
        return None
    value, votes = counts.most_common(1)[0]
    return value if 2 * votes > sum(counts.values()) else None


def _namesakes(said: Said, value: Callable[[End], Value | None]) -> dict[str, Value]:
    """Name of a NIC -> what most NICs of that name have, where at least three hosts tell."""
    told: dict[str, list[Value]] = {}
    for end in _nics(said):
        one = value(end)
        if one:
            told.setdefault(end[1], []).append(one)
    usual = {name: _majority(values) for name, values in told.items() if len(values) >= MIN_VOTERS}
    return {name: one for name, one in usual.items() if one is not None}


def _sharp(said: Said) -> None:
    """SHARP aggregation nodes: each switch shows one as a channel adapter, which makes every switch look like a leaf."""
    why = "SHARP aggregation node inside a switch"
    names = [name for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH]
    said.drop_nodes({name: why for name in names if _AGGREGATION.search(name)})


def _down(said: Said) -> None:
    down = (end for end, port in said.ports.items() if port.state is LinkState.DOWN and said.far(end) is None)
    _drop_ports(said, dict.fromkeys(down, "down, without a cable"))


def _by_name(said: Said, words: Collection[str], what: str) -> None:
    with_gpus = {host for host, _ in said.gpus}
    named = {name for name in said.nodes if name not in with_gpus and not _words(name).isdisjoint(words)}
    hosts = {name for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH}
    if 2 * len(named & hosts) > len(hosts):  # a site's own word: r-ufm101, r-ufm102, ...
        named -= hosts
    dropped = {}
    for end in _nics(said):
        far = said.far(end)
        if not _words(end[1]).isdisjoint(words):
            dropped[end] = f"{what} NIC, by its name"
        elif far is not None and far[0] in named and end[0] not in named and not _is_nic(said, far):
            dropped[end] = f"NIC on a {what} switch"
    _drop_ports(said, dropped)
    said.drop_nodes(dict.fromkeys(named, f"{what} node, by its name"))


def _storage(said: Said) -> None:
    _by_name(said, _STORAGE, "storage")


def _management(said: Said) -> None:
    _by_name(said, _MANAGEMENT, "management")
    _drop_ports(said, {end: "virtual interface" for end in _nics(said) if _VIRTUAL.fullmatch(end[1])})
    names: dict[str, set[str]] = {}
    for node, port in said.ports:
        names.setdefault(node, set()).add(port)
    for node, ports in names.items():
        if said.nodes[node].kind is not NodeKind.SWITCH:
            continue
        own = {port for port in ports if _SWITCH_MANAGEMENT.fullmatch(port)}
        # eth0 is the management port beside swp1 or Ethernet0; a Linux router's eth0 is a port like the others.
        if "eth0" in ports and any(port.startswith(("swp", "Ethernet")) for port in ports):
            own.add("eth0")
        _drop_ports(said, {(node, port): "management port of a switch" for port in own})


def _link_layer(said: Said) -> None:
    layer = {end: said.ports[end].link_layer for end in _nics(said) if said.ports[end].link_layer}
    usual = _majority(layer.values())
    if usual is None:
        return
    namesakes = _namesakes(said, lambda end: said.ports[end].link_layer)
    most = "InfiniBand" if usual == "IB" else usual
    dropped = {}
    for end, own in layer.items():
        if own == usual:
            continue
        if namesakes.get(end[1]) == usual:
            said.findings.append(
                Finding(
                    check="link-layer",
                    status=Status.FAIL,
                    where=ElementId.nic(*end),
                    what=f"its link layer is {own}, most NICs called {end[1]} have {usual}",
                    evidence={"link_layer": own, "usual": usual},
                    fix="set the port's link type (mlxconfig LINK_TYPE_P1) as on the other hosts",
                )
            )
        else:
            dropped[end] = f"link layer {own}, most NICs are {most}"
    _drop_ports(said, dropped)


def _subnet(said: Said) -> None:
    """NICs of an InfiniBand subnet that few hosts reach; subnets of most hosts are rails or planes."""
    hosts: dict[str, set[str]] = {}
    subnet = {
        end: said.ports[end].subnet
        for end in _nics(said)
        if said.ports[end].subnet and said.ports[end].link_layer == "IB"
    }
    for (host, _), own in subnet.items():
        hosts.setdefault(own, set()).add(host)
    most = max(map(len, hosts.values()), default=0)
    few = {own for own, reached in hosts.items() if _FEW * len(reached) <= most}
    _drop_ports(
        said, {end: f"subnet {own}, which few hosts reach" for end, own in subnet.items() if own in few}
    )


def _slow(said: Said) -> None:
    """NICs slower than most, unless they share a leaf with fast ones or their namesakes are fast: those are faults."""
    speeds = {end: said.ports[end].speed_gbps for end in _nics(said) if said.ports[end].speed_gbps}
    usual = _majority(gbps for end, gbps in speeds.items() if said.far(end)) or _majority(speeds.values())
    if usual is None:
        return
    part = _parts(said)
    fast = [far[0] for end, gbps in speeds.items() if gbps >= usual and (far := said.far(end))]
    fast_leaves, fast_parts = set(fast), {part[leaf] for leaf in fast if leaf in part}
    namesakes = _namesakes(said, speeds.get)
    dropped = {}
    for end, gbps in speeds.items():
        far = said.far(end)
        if gbps >= usual or namesakes.get(end[1], 0.0) >= usual or (far and far[0] in fast_leaves):
            continue
        alone = far is None or part.get(far[0]) not in fast_parts
        if gbps * _FAR_SLOWER <= usual or (alone and namesakes.get(end[1]) == gbps):
            dropped[end] = f"{format_rate(gbps)}, most NICs have {format_rate(usual)}"
    _drop_ports(said, dropped)


def _apart(said: Said) -> None:
    """NICs on switches without connection to those that most hosts share, where few hosts have such a NIC."""
    part = _parts(said)
    nics = {end: part[far[0]] for end in _nics(said) if (far := said.far(end)) and far[0] in part}
    hosts: dict[str, set[str]] = {}
    for (host, _), own in nics.items():
        hosts.setdefault(own, set()).add(host)
    if not hosts:
        return
    main = max(hosts, key=lambda one: len(hosts[one]))
    few = {
        own
        for own, reached in hosts.items()
        if _FEW * len(reached) <= len(hosts[main]) and reached <= hosts[main]
    }
    why = "on switches of another network than most hosts share"
    _drop_ports(said, {end: why for end, own in nics.items() if own in few})


def _parts(said: Said) -> dict[str, str]:
    """Switch -> the switch that stands for its connected part; hosts do not connect."""
    near: dict[str, list[str]] = {
        name: [] for name, node in said.nodes.items() if node.kind is NodeKind.SWITCH
    }
    for (a, _), (b, _) in said.links:
        if a in near and b in near:
            near[a].append(b)
            near[b].append(a)
    part: dict[str, str] = {}
    for start in near:
        stack = [start]
        while stack:
            one = stack.pop()
            if one not in part:
                part[one] = start
                stack += near[one]
    return part


def _nics_of_switches(said: Said) -> Counter[str]:
    return Counter(far[0] for end in _nics(said) if (far := said.far(end)))


def _idle_switches(said: Said, before: Counter[str]) -> None:
    """Switches whose NICs were all left out, and those that connect only such switches.

    A spine with one management server is no such switch: it has more cables to switches than NICs that went.
    """
    part, busy = _parts(said), _nics_of_switches(said)
    trunks = Counter(end[0] for link in said.links for end in link if end[0] in part)
    idle = {
        name for name, nics in before.items() if name in part and name not in busy and nics >= trunks[name]
    }
    busy_parts = {part[name] for name in busy if name in part}
    idle_parts = {part[name] for name in before if name in part} - busy_parts
    why = "a switch of NICs that were left out"
    said.drop_nodes({name: why for name in part if name in idle or part[name] in idle_parts})


FILTERS: dict[str, Callable[[Said], None]] = {
    "sharp": _sharp,
    "down": _down,
    "storage": _storage,
    "management": _management,
    "link-layer": _link_layer,
    "subnet": _subnet,
    "slow": _slow,
    "apart": _apart,
}
"""Filters by the name that `keep` takes, in the order in which they are applied."""
