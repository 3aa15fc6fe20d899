"""Hosts sorted as strings: what torchrun's dynamic rendezvous does (pytorch#191190), node1, node10, node2."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.placement.problem import Problem


def order(problem: Problem) -> list[str]:
    """Host of each rank."""
    return problem.fill(sorted(problem.hosts))
