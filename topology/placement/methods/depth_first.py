"""Leaf by leaf: what Slurm's topology plugin and the clouds' host sorters do; the best there is for one ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.placement.problem import Problem


def order(problem: Problem) -> list[str]:
    """Host of each rank."""
    return problem.fill(sorted(problem.hosts, key=problem.leaf_order.__getitem__))
