"""What else was on the links: bytes that others sent are measured before, taken off, and too many make a doubt.

Counters see everything that passes. Their rate just before the timed repeats, while the ranks are still, is the
background; it is subtracted for the time that they took. What is left is held against the prediction: bytes that nobody
predicted, or a background that is not small, mean that the measurement is not one of this collective alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collectives import linkbytes
from collectives.linkbytes import ACK_FACTOR, WIRE_FACTOR, Counters, LinkBytes, PortBytes

if TYPE_CHECKING:
    from topology.routing import Routing

Floats = NDArray[np.float64]

IDLE_S = 0.15
_TOLERANCE = 0.15
"""Of the busiest predicted link: retransmissions and acknowledgements of a congested path stay below a tenth."""
_SHARED = 0.05
_LEAST_BYTES = 65536
"""Barriers, stores and neighbour discovery send so much at most."""
_LEAST_SHARED_BYTES = 8192  # nothing of that is on its way while the ranks are still


@dataclass(frozen=True)
class Watch:
    """Counters read before the timed repeats."""

    routing: Routing
    counters: Counters
    before: PortBytes
    idle_bytes_per_s: Floats
    start: float

    @classmethod
    def begun(cls, routing: Routing, counters: Counters) -> Watch:
        """Measure the background, and read the counters."""
        first, at = counters(), time.monotonic()
        time.sleep(IDLE_S)
        second, now = counters(), time.monotonic()
        idle = linkbytes.measured_bytes(routing.fabric, first, second) / (now - at)
        return cls(routing, counters, second, idle, now)

    def ended(self, payload: Mapping[int, float] | None) -> tuple[LinkBytes, ...]:
        """Bytes of each directed link without the background, beside the prediction from its payload bytes."""
        fabric = self.routing.fabric
        after, lasted_s = self.counters(), time.monotonic() - self.start
        seen = linkbytes.measured_bytes(fabric, self.before, after)
        others = self.idle_bytes_per_s * lasted_s
        own = np.maximum(seen - others, 0.0)
        predicted = None
        if payload is not None:
            loads = np.zeros(fabric.directed_count)
            for link, carried in payload.items():
                loads[link] = carried
            # Acknowledgements take the other direction of the same cable, or one like it.
            back = loads.reshape(-1, 2)[:, ::-1].reshape(-1)
            predicted = WIRE_FACTOR * loads + ACK_FACTOR * back
        return tuple(linkbytes.table(fabric, own, predicted, others))


def contaminated(links: Sequence[LinkBytes]) -> str:
    """Why these bytes are not the collective's alone, in one clause; empty if they are, or nothing was predicted."""
    known = [link for link in links if link.predicted_bytes is not None]
    if not known:
        return ""
    shared = max(known, key=lambda link: link.background_bytes if link.predicted_bytes else 0.0)
    if shared.background_bytes > max(_SHARED * (shared.predicted_bytes or 0.0), _LEAST_SHARED_BYTES):
        return (
            f"others sent {shared.background_bytes:.3g} bytes over {shared.name} at the rate seen just before"
        )
    most = max(link.predicted_bytes or 0.0 for link in known)
    worst = max(known, key=lambda link: link.measured_bytes - (link.predicted_bytes or 0.0))
    beyond = worst.measured_bytes - (worst.predicted_bytes or 0.0)
    if beyond <= max(_TOLERANCE * most, _LEAST_BYTES):
        return ""
    return (
        f"{worst.name} carried {worst.measured_bytes:.3g} bytes, {beyond:.3g} more than this collective's "
        f"{worst.predicted_bytes:.3g}"
    )
