"""Hosts sorted as strings: what torchrun's dynamic rendezvous does (pytorch#191190), node1, node10, node2.

It sorts (address, process, local number) of the participants (torch/distributed/elastic/rendezvous/
dynamic_rendezvous.py), where the address is the host's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem


def order(problem: Problem) -> NDArray[np.int64]:
    """(units,) slot of each unit."""
    names = [problem.hosts[int(first)] for first in problem.slots[:, 0]]
    return problem.fill(np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64))
