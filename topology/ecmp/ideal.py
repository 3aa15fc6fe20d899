"""A function that looks random: every flow lands anywhere, independently, and another seed is another function.

What analyses call ideal ECMP, but repeatable. The fields as two 64-bit words, mixed by the finalizer of SplitMix64 (Steele,
Lea, Flood 2014), whose output bits all depend on all input bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.ecmp.spec import HashSpec
    from topology.ecmp.tuples import Tuples

    Words = NDArray[np.uint64]

_GAMMA = 0x9E3779B97F4A7C15
_PLACES = {"saddr": 32, "daddr": 0}
_PORTS = {"sport": 48, "dport": 32, "proto": 24}
_NAMES = {"saddr": "src_ip", "daddr": "dst_ip"}


def values(spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) numbers of 32 bits."""
    return seeded(spec.seed, spec, tuples)


def seeded(seed: int | Words, spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) numbers of 32 bits under one seed for all flows, or (F,) seeds; the spec's own is not looked at."""
    key = (np.asarray(seed, dtype=np.uint64).reshape(-1) + np.uint64(1)) * np.uint64(_GAMMA)
    found = np.repeat(key, max(1, len(tuples) // len(key)))
    for places in (_PLACES, _PORTS):
        for column, shift in places.items():
            if _NAMES.get(column, column) in spec.fields:
                found ^= getattr(tuples, column).astype(np.uint64) << np.uint64(shift)
        if places is _PORTS and "dst_qp" in spec.fields:
            found ^= tuples.roce_qp().astype(np.uint64)
        _mix(found)
    return (found >> np.uint64(32)).astype(np.uint32)


def _mix(x: Words) -> None:
    """SplitMix64's finalizer, in place."""
    x += np.uint64(_GAMMA)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
