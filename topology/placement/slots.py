"""Slots: hosts that can take a unit of the job together; which nodes pins fix."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric
    from topology.placement.problem import Problem

    Ints = NDArray[np.int64]


def derived_ranks_per_host(fabric: Fabric, ranks: int, domain: int) -> int:
    """Ranks on a host where nobody says how many.

    Accelerators of a host where the fabric lists them (most hosts decide); else the traffic's domain, or its share where
    hosts share an accelerator domain; else the fewest that divide the ranks and leave every rank a place.
    """
    hosts = max(len(fabric.hosts), 1)
    gpus = np.bincount(fabric.gpus.host)
    if gpus.any():
        return min(int(np.argmax(np.bincount(gpus[gpus > 0]))), ranks)
    if domain > 1:
        shared = np.bincount(fabric.nodes.nvl_domain[fabric.nodes.nvl_domain >= 0], minlength=1).max()
        together = max(int(shared), 1)
        return max(domain // together, 1) if domain % together == 0 else domain
    return next((count for count in range(1, ranks + 1) if ranks % count == 0 and count * hosts >= ranks), 1)


def hosts_in_a_unit(problem: Problem) -> int:
    """Consecutive nodes that must move together.

    Raises:
        InputError: hosts that are no multiple of a domain, domains that are no multiple of a host, an odd number of nodes
            where pods must have an even one.
    """
    per_host, domain = problem.ranks_per_host, problem.domain
    if per_host % domain and domain % per_host:
        raise InputError(
            f"domains of {domain} ranks do not fit hosts of {per_host} ranks: one must be a multiple of the other"
        )
    hosts = max(domain // per_host, 1)
    if not problem.even_pods:
        return hosts
    if problem.nodes % 2:
        raise InputError(
            f"{problem.nodes} nodes cannot be an even number in every pod; place one more or one fewer"
        )
    return lcm(hosts, 2)


def pinned_nodes(problem: Problem) -> dict[int, int]:
    """Node -> number of the host that it is pinned to.

    Raises:
        InputError: a rank that the job has not, a host that may not be used, two pins for one node or one host.
    """
    number = {host: index for index, host in enumerate(problem.hosts)}
    found: dict[int, int] = {}
    taken: dict[int, int] = {}
    for rank, host in sorted(problem.pins.items()):
        if not 0 <= rank < problem.traffic.ranks:
            raise InputError(f"pin of rank {rank}: the job has ranks 0 to {problem.traffic.ranks - 1}")
        problem.routing.fabric.node_row(host)
        if host not in number:
            raise InputError(f"pin of rank {rank}: host {host!r} is excluded or cannot be used")
        node, chosen = rank // problem.ranks_per_host, number[host]
        if found.get(node, chosen) != chosen:
            raise InputError(
                f"pins: node {node} (ranks from {node * problem.ranks_per_host}) cannot be on both "
                f"{problem.hosts[found[node]]!r} and {host!r}"
            )
        if taken.get(chosen, node) != node:
            raise InputError(f"pins: nodes {taken[chosen]} and {node} cannot both be on {host!r}")
        found[node], taken[chosen] = chosen, node
    return found


def slots_of(problem: Problem) -> Ints:
    """(S, hosts in a unit) numbers of hosts, slots in the order of the tree.

    Raises:
        InputError: too few hosts that reach each other, too few domains or pods, pins that no slot can hold.
    """
    usable = _connected(problem)
    pins = pinned_nodes(problem)
    size, key = problem.hosts_in_a_unit, _together(problem)
    hosts = [int(host) for host in problem.depth_first if usable[host]]
    # Hosts of a unit are in one cluster; with even pods its domains are, and each of these is in one domain.
    steps = max(problem.domain // problem.ranks_per_host, 1)
    tuples = _pinned_slots(problem, pins, hosts, key[:, -1])
    held = {host for slot in tuples for host in slot}
    free = [host for host in hosts if host not in held]
    parts = _chunks([(host,) for host in free], key[:, 0], steps)
    tuples += _chunks(parts, key[:, -1], size // steps)
    if len(tuples) < problem.units:
        raise InputError(_too_few(problem, len(tuples)))
    place = {int(host): index for index, host in enumerate(problem.depth_first)}
    return np.array(sorted(tuples, key=lambda slot: place[slot[0]]), dtype=np.int64).reshape(-1, size)


def _too_few(problem: Problem, slots: int) -> str:
    where = []
    if problem.domain > problem.ranks_per_host:
        where.append(f"in one accelerator domain, as the job's domains of {problem.domain} ranks need them")
    if problem.even_pods:
        where.append("in one pod, as even_pods asks")
    return (
        f"the job needs {problem.units} times {problem.hosts_in_a_unit} hosts {' and '.join(where)}; "
        f"the fabric has {slots} such places free"
    )


def _together(problem: Problem) -> Ints:
    """(H, 2) what the hosts of a domain must share, and what those of a unit must; -1 for hosts that cannot be used."""
    apart = np.zeros(len(problem.hosts), dtype=np.int64)
    domain = apart
    if problem.domain > problem.ranks_per_host:
        domain = problem.routing.fabric.nodes.nvl_domain[problem.rows]
    if not problem.even_pods:
        return np.stack([domain, domain], axis=1)
    levels = problem.clusters.shape[1]
    pod = problem.clusters[
        :, max(levels - 2, 0)
    ]  # the level below the root, leaf groups where there are two tiers
    both = np.where((domain < 0) | (pod < 0), -1, pod)
    return np.stack([np.where(both < 0, -1, domain), both], axis=1)


def _chunks(parts: list[tuple[int, ...]], key: Ints, size: int) -> list[tuple[int, ...]]:
    """As many parts as `size` that have the same key, joined; parts that are left over are left out."""
    if size == 1:
        return [part for part in parts if key[part[0]] >= 0]
    waiting: dict[int, list[tuple[int, ...]]] = {}
    found = []
    for part in parts:
        shared = int(key[part[0]])
        if shared < 0:
            continue
        queue = waiting.setdefault(shared, [])
        queue.append(part)
        if len(queue) == size:
            found.append(tuple(host for one in queue for host in one))
            queue.clear()
    return found


def _pinned_slots(
    problem: Problem, pins: dict[int, int], hosts: list[int], key: Ints
) -> list[tuple[int, ...]]:
    """Slots of the units that have a pin; other hosts of the same cluster fill them up."""
    size = problem.hosts_in_a_unit
    by_unit: dict[int, dict[int, int]] = {}
    for node, host in pins.items():
        by_unit.setdefault(node // size, {})[node % size] = host
    taken = set(pins.values())
    found = []
    for unit, fixed in by_unit.items():
        shared = {int(key[host]) for host in fixed.values()}
        names = ", ".join(problem.hosts[host] for host in fixed.values())
        others = [host for host in hosts if host not in taken and int(key[host]) in shared]
        if (
            len(shared) > 1
            or -1 in shared
            or len(others) < size - len(fixed)
            or not set(fixed.values()) <= set(hosts)
        ):
            raise InputError(
                f"pins: {names} cannot hold {size} nodes from node {unit * size} on that belong together"
            )
        fill = iter(others)
        slot = tuple(fixed[place] if place in fixed else next(fill) for place in range(size))
        taken |= set(slot)
        found.append(slot)
    return found


def _connected(problem: Problem) -> NDArray[np.bool_]:
    """(H,) hosts of the piece of the fabric that the job is placed in: the one with most usable hosts, or with the pins.

    Raises:
        InputError: no piece has enough hosts.
    """
    from scipy.sparse.csgraph import connected_components

    fabric = problem.routing.fabric
    _, label = connected_components(fabric.adjacency, directed=False)
    piece = label[problem.rows]
    sizes = np.bincount(piece)
    pinned = {int(piece[host]) for host in pinned_nodes(problem).values()}
    chosen = pinned.pop() if len(pinned) == 1 else int(np.argmax(sizes))
    if pinned or sizes[chosen] < problem.nodes:
        raise InputError(
            f"the fabric is in {np.count_nonzero(sizes)} pieces without a cable between them; the job needs "
            f"{problem.nodes} hosts in one piece, and the largest has {sizes.max()}"
        )
    usable: NDArray[np.bool_] = piece == chosen
    return usable
