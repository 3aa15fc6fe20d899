"""Hosts in a random order, by the problem's seed: a scheduler that knows nothing of the fabric."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem


def order(problem: Problem) -> NDArray[np.int64]:
    """(units,) slot of each unit."""
    slots = sorted(range(len(problem.slots)), key=lambda slot: problem.hosts[int(problem.slots[slot, 0])])
    random.Random(problem.seed).shuffle(slots)
    return problem.fill(np.array(slots, dtype=np.int64))
