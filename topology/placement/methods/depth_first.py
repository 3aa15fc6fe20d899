"""Pod by pod, leaf group by leaf group: what clouds' host sorters and most tools do; the best there is for one ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.placement.problem import Problem


def order(problem: Problem) -> NDArray[np.int64]:
    """(units,) slot of each unit."""
    return problem.fill(np.arange(len(problem.slots)))
