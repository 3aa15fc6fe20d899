"""Ranks that talk most share a leaf: greedy packing of the traffic graph, leaf by leaf."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from topology.placement.problem import Problem


def order(problem: Problem) -> list[str]:
    """Host of each rank.

    Leaves with the most hosts are filled first. Each starts with the rank that has most traffic left, then takes the
    rank that has most traffic with those already there; O(R^2) additions for R ranks.
    """
    hosts = sorted(problem.hosts, key=problem.leaf_order.__getitem__)
    leaves = [list(group) for _, group in groupby(hosts, key=lambda host: problem.leaf_order[host][0])]
    both_ways = problem.rank_bytes + problem.rank_bytes.T
    left = np.ones(problem.traffic.ranks, dtype=np.bool_)
    host_of: dict[int, str] = {}
    for leaf in sorted(leaves, key=len, reverse=True):
        pull = both_ways @ left.astype(np.float64)
        for place, host in enumerate(host for host in leaf for _ in range(problem.ranks_per_host)):
            if not left.any():
                break
            rank = int(np.argmax(np.where(left, pull, -1.0)))  # the lowest rank among equals: stable
            left[rank] = False
            if not place:
                pull = np.zeros(problem.traffic.ranks)
            row = slice(both_ways.indptr[rank], both_ways.indptr[rank + 1])
            pull[both_ways.indices[row]] += both_ways.data[row]
            host_of[rank] = host
    return [host_of[rank] for rank in range(problem.traffic.ranks)]
