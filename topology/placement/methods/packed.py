"""Ranks that talk most share a leaf: greedy packing of the traffic graph, leaf by leaf."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem


def order(problem: Problem) -> list[str]:
    """Host of each rank.

    Leaves with the most hosts are filled first. Each starts with the rank that has most traffic left, then takes the
    rank that has most traffic with those already there; O(R^2) for R ranks.
    """
    hosts = sorted(problem.hosts, key=problem.leaf_order.__getitem__)
    leaves = [list(group) for _, group in groupby(hosts, key=lambda host: problem.leaf_order[host][0])]
    both_ways = problem.rank_bytes + problem.rank_bytes.T
    left = dict.fromkeys(range(problem.traffic.ranks))
    host_of: dict[int, str] = {}
    for leaf in sorted(leaves, key=len, reverse=True):
        inside: list[int] = []
        for host in leaf:
            for _ in range(problem.ranks_per_host):
                if not left:
                    break
                rank = _next(both_ways, inside, list(left))
                del left[rank]
                inside.append(rank)
                host_of[rank] = host
    return [host_of[rank] for rank in range(problem.traffic.ranks)]


def _next(both_ways: NDArray[np.float64], inside: list[int], left: list[int]) -> int:
    pull = both_ways[np.ix_(left, inside or left)].sum(axis=1)
    return left[int(np.argmax(pull))]  # the lowest rank among equals: stable
