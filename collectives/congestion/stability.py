"""Whether DCQCN settles: the rightmost root of the fluid model linearised at its fixed point.

The phase margin of the CoNEXT 2016 paper answers the same question for flows that move together; the roots also hold
the motion of flows against each other, by which they become fair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from collectives.congestion.fluid import Bottleneck, fixed_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEP = 1e-30
"""Of a derivative by a complex step: exact to rounding."""
_NODES = 12
"""Chebyshev nodes over the delay: rightmost roots of this system change by less than 1e-6 of themselves beyond 8."""


def linearised(model: Bottleneck) -> tuple[Floats, Floats]:
    """Matrices of x' = now x + late x(t - delay), x = (alpha, R_T, R_C, q), all flows alike, at the fixed point.

    The curve's ramp is drawn on beyond Kmax where the fixed point lies there, as the paper does.

    Returns:
        (4, 4) matrices per microsecond; rates in packets per microsecond, the queue in packets.
    """
    point = fixed_point(model)
    scale = model.capacity / model.link_gbps
    rate, target = point.rate_gbps * scale, point.target_gbps * scale
    at = np.array([point.alpha, target, rate, point.p, rate])
    slopes = np.empty((3, 5))
    for column in range(5):
        moved = at.astype(complex)
        moved[column] += 1j * _STEP
        found = model.flow_slopes(*(np.asarray(value) for value in moved))
        slopes[:, column] = [float(np.imag(value)) / _STEP for value in found]
    now, late = np.zeros((4, 4)), np.zeros((4, 4))
    now[:3, :3] = slopes[:, :3]
    now[3, 2] = model.flows
    late[:3, 2] = slopes[:, 4]
    late[:3, 3] = slopes[:, 3] * model.slope
    return now, late


@dataclass(frozen=True)
class Settling:
    """How disturbances of the fixed point change, as rates of growth per millisecond: below 0 they die out.

    Attributes:
        queue_per_ms: of all flows together with the queue.
        fairness_per_ms: of flows against each other at a constant queue; nan for a single flow.
    """

    queue_per_ms: float
    fairness_per_ms: float

    @property
    def stable(self) -> bool:
        """Whether every disturbance dies out."""
        return not (self.queue_per_ms >= 0 or self.fairness_per_ms >= 0)


def settling(model: Bottleneck) -> Settling:
    """Real parts of the rightmost roots.

    Raises:
        InputError: no fixed point.
    """
    now, late = linearised(model)
    together = _rightmost(now, late, model.delay_us)
    apart = _rightmost(now[:3, :3], late[:3, :3], model.delay_us) if model.flows > 1 else nan
    return Settling(1e3 * together, 1e3 * apart)


def stability_map(model: Bottleneck, flows: Sequence[int], delays_us: Sequence[float]) -> Floats:
    """(flows, delays) growth per millisecond of the queue's swings; see `Settling`.

    Raises:
        InputError: values that make no bottleneck, or one without a fixed point.
    """
    models = [[replace(model, flows=many, delay_us=delay) for delay in delays_us] for many in flows]
    return np.array([[settling(one).queue_per_ms for one in row] for row in models])


def _rightmost(now: Floats, late: Floats, delay: float) -> float:
    """Largest real part of the s with det(s - now - late e^(-s delay)) = 0.

    Method: eigenvalues of the infinitesimal generator collocated at Chebyshev nodes over one delay (Breda, Maset and
    Vermiglio, SIAM J. Sci. Comput. 27, 2005).
    """
    size = len(now)
    nodes = np.cos(np.pi * np.arange(_NODES + 1) / _NODES)
    weight = np.r_[2, np.ones(_NODES - 1), 2] * (-1.0) ** np.arange(_NODES + 1)
    apart = nodes[:, None] - nodes[None, :] + np.eye(_NODES + 1)
    derivative = weight[:, None] / weight[None, :] / apart
    derivative -= np.diag(derivative.sum(axis=1))
    # Nodes run from 1 (now) to -1 (one delay ago).
    generator = np.kron(derivative * (2 / delay), np.eye(size))
    generator[:size] = 0
    generator[:size, :size] = now
    generator[:size, -size:] = late
    return float(np.linalg.eigvals(generator).real.max())
