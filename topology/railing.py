"""Rails of NICs that no source told: by the same name on other hosts, by the names themselves, or by their leaves."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from topology.columns import NodeKind
from topology.discovery.rails import rails_of
from topology.matching import is_anonymous
from topology.naming import natural_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from topology.readers.said import Said


def assign_rails(said: Said) -> str:
    """Give every NIC without a rail one, where it can be told; returns how it was told."""
    nics: dict[str, list[str]] = {
        name: [] for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH
    }
    for node, port in said.ports:
        if node in nics:
            nics[node].append(port)
    nics = _of_the_network(said, nics)
    without = [
        (host, name) for host, names in nics.items() for name in names if said.ports[host, name].rail < 0
    ]
    if not without:
        return "as the sources tell" if nics else ""
    if len(without) < sum(map(len, nics.values())):
        return _as_namesakes(said, nics)
    rails, how = _by_names(said, nics)
    for (host, name), rail in rails.items():
        said.ports[host, name].rail = rail
    return how


def _of_the_network(said: Said, nics: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """NICs with a cable, and those of their names; where no host has a cable, all.

    Beside `ens1f0np0` with its cable a file about the host alone may call the same NIC `mlx5_0`, which is no other rail.
    """
    cabled = {name for host, names in nics.items() for name in names if said.far((host, name))}
    kept = {
        host: [name for name in names if not cabled or name in cabled or said.ports[host, name].rail >= 0]
        for host, names in nics.items()
    }
    return {host: names for host, names in kept.items() if names}


def _as_namesakes(said: Said, nics: Mapping[str, Sequence[str]]) -> str:
    """Where some rails are told: a NIC has that of the NICs of its name, if they agree."""
    told: dict[str, set[int]] = {}
    for host, names in nics.items():
        for name in names:
            if said.ports[host, name].rail >= 0:
                told.setdefault(name, set()).add(said.ports[host, name].rail)
    for host, names in nics.items():
        taken = {said.ports[host, name].rail for name in names}
        for name in names:
            rails = told.get(name, set())
            if said.ports[host, name].rail < 0 and len(rails) == 1 and not rails & taken:
                said.ports[host, name].rail = next(iter(rails))
    return "as told, else as NICs of the same name"


def _by_names(said: Said, nics: Mapping[str, Sequence[str]]) -> tuple[dict[tuple[str, str], int], str]:
    """Rank of the name in the list of names that most hosts have; without such a list, what single hosts tell."""
    by_leaf = _by_leaves(said, nics)
    if by_leaf is not None:
        return by_leaf, "by leaf: NICs have no names of their own"
    lists = Counter(tuple(sorted(names, key=natural_key)) for names in nics.values())
    usual, hosts = lists.most_common(1)[0]
    place = {name: rail for rail, name in enumerate(usual)}
    if 2 * hosts > len(nics) and all(name in place for names in nics.values() for name in names):
        how = "by NIC names that most hosts have, in order"
        return {(host, name): place[name] for host, names in nics.items() for name in names}, how
    found = rails_of(nics)
    numbers = any("the number in" in why for _, why in found.values())
    how = "by the numbers in the NICs' names" if numbers else "by the order of NIC names on each host"
    return {end: rail for end, (rail, _) in found.items()}, how


def _by_leaves(said: Said, nics: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], int] | None:
    """Rails of NICs that are known by MAC or GUID only; None where most have names, or share a leaf with their host's."""
    names = [name for of_host in nics.values() for name in of_host]
    if 2 * sum(map(is_anonymous, names)) <= len(names):
        return None
    leaves = {
        host: [far[0] if (far := said.far((host, name))) else "" for name in of_host]
        for host, of_host in nics.items()
    }
    if any(len(set(of_host)) < len(of_host) for of_host in leaves.values()):
        return None
    usual = Counter(tuple(sorted(of_host, key=natural_key)) for of_host in leaves.values())
    rail: dict[str, int] = {}
    for of_pod, _ in usual.most_common():
        if not any(leaf in rail for leaf in of_pod):
            rail |= {leaf: place for place, leaf in enumerate(of_pod)}
    return {
        (host, name): rail[leaf]
        for host, of_host in nics.items()
        for name, leaf in zip(of_host, leaves[host], strict=True)
        if leaf in rail
    }
