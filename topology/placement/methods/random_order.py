"""Hosts in a random order, by the problem's seed: a scheduler that knows nothing of the fabric."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.placement.problem import Problem


def order(problem: Problem) -> list[str]:
    """Host of each rank."""
    hosts = sorted(problem.hosts)
    random.Random(problem.seed).shuffle(hosts)
    return problem.fill(hosts)
