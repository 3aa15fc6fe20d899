"""`HashSpec`: a switch's ECMP hash as data; `choose` applies it to many flows at once.

Adding a family: one module with `choose(spec, tuples, weights) -> (F,) indices`, one line in `FAMILIES`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

FAMILIES = {"linux-multipath": "topology.ecmp.linux", "linux-multipath-fields": "topology.ecmp.linux_fields"}


@dataclass(frozen=True)
class HashSpec:
    """Family and parameters of one switch's ECMP hash.

    Attributes:
        family: key of `FAMILIES`.
        seed: the family's seed.
    """

    family: str
    seed: int

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InputError(f"hash family {self.family!r} is not known; known: {', '.join(FAMILIES)}")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HashSpec:
        """The inverse of `to_json`."""
        return cls(family=str(data["family"]), seed=int(data["seed"]))


@dataclass(frozen=True)
class Tuples:
    """F flows as columns of uint32: IPv4 addresses and ports as numbers, protocol (6 TCP, 17 UDP)."""

    saddr: NDArray[np.uint32]
    daddr: NDArray[np.uint32]
    sport: NDArray[np.uint32]
    dport: NDArray[np.uint32]
    proto: NDArray[np.uint32]


def choose(spec: HashSpec, tuples: Tuples, weights: Sequence[int]) -> NDArray[np.int64]:
    """(F,) index of the next hop that each flow takes among next hops with these weights, in their order."""
    result: NDArray[np.int64] = import_module(FAMILIES[spec.family]).choose(spec, tuples, weights)
    return result
