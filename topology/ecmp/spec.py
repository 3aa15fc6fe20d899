"""`HashSpec`: a switch's ECMP hash as data; `choose` applies it to many flows at once.

A family is a formula; seed, offset, fields, width and selection are its parameters. Vendors' chips differ by release and
configuration, so a family is a hypothesis until probes confirm it (`topology.ecmp.fit`).

Adding a family:

1. One module in `topology/ecmp/` with `values(spec, tuples) -> (F,)` unsigned integers below 2^bits, element by element
   (callers cut many flows into blocks). Its docstring has the formula, its source, and what of it is assumed.
2. Is it linear over bits (CRC, XOR, Toeplitz)? Then write `one(spec, words)` for one flow in plain Python, and let
   `topology.ecmp.affine` make the columns: `values = affine.values` with `linear=True` below.
3. Its line in `FAMILIES`. `linear` says that two inputs' hashes differ by a number that no seed changes, which
   is what the polarization lint explains; `keyed` that the seed changes more than a constant all the same.
4. Test vectors from outside in `tests/topology/ecmp/`; the tests over all of `FAMILIES` (range, fields, balance, JSON) and
   the benchmark `tests/bench/bench_ecmp.py` take it from the table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.ecmp.select import SELECTIONS, pick
from topology.ecmp.tuples import FIELDS, FIVE_TUPLE, Tuples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_BLOCK = 1 << 14
"""Flows at a time: the columns of a block stay in the processor's cache."""


@dataclass(frozen=True)
class Family:
    """What a hash family is, beside its formula.

    Attributes:
        module: has `values(spec, tuples)`, or is empty: no function of the flow decides.
        bits: width of its result.
        selection: how switches with this hash turn it into a next hop, where a spec does not say.
        rotates: an offset may rotate the result.
        linear: affine over bits.
        keyed: the seed changes the linear part, not only the constant.
    """

    module: str
    bits: int
    selection: str = "modulo"
    rotates: bool = True
    linear: bool = False
    keyed: bool = False


_RTAG7, _GENERIC = "topology.ecmp.rtag7", "topology.ecmp.generic"
FAMILIES = {
    "linux-multipath": Family("topology.ecmp.linux", 31, "threshold", rotates=False),
    "linux-multipath-fields": Family("topology.ecmp.linux_fields", 31, "threshold", rotates=False),
    "rtag7-crc16-bisync": Family(_RTAG7, 16, linear=True),
    "rtag7-crc16-ccitt": Family(_RTAG7, 16, linear=True),
    "rtag7-crc32c-lo": Family(_RTAG7, 16, linear=True),
    "rtag7-crc32c-hi": Family(_RTAG7, 16, linear=True),
    "rtag7-xor16": Family(_RTAG7, 16, linear=True),
    "rtag7-mixed-xor1": Family(_RTAG7, 16, linear=True),
    "rtag7-mixed-xor2": Family(_RTAG7, 16, linear=True),
    "rtag7-mixed-xor4": Family(_RTAG7, 16, linear=True),
    "rtag7-mixed-xor8": Family(_RTAG7, 16, linear=True),
    "crc16": Family(_GENERIC, 16, linear=True),
    "crc16-ccitt": Family(_GENERIC, 16, linear=True),
    "crc32": Family(_GENERIC, 32, linear=True),
    "crc32c": Family(_GENERIC, 32, linear=True),
    "xor16": Family(_GENERIC, 16, linear=True),
    "xor32": Family(_GENERIC, 32, linear=True),
    "toeplitz": Family("topology.ecmp.toeplitz", 32, linear=True, keyed=True),
    "ideal": Family("topology.ecmp.ideal", 32),
    "spray": Family("", 0, rotates=False),
}


@dataclass(frozen=True)
class HashSpec:
    """Family and parameters of one switch's ECMP hash.

    Attributes:
        family: key of `FAMILIES`.
        seed: the family's seed, 32 bits.
        offset: bits that the result is rotated to the right before it is used.
        fields: what is hashed, names of `FIELDS`; `dst_qp` counts in RoCEv2 packets only.
        selection: `modulo`, `threshold` or `resilient` (`topology.ecmp.select`); empty means the family's own.
        width: low bits that are used after the rotation; 0 means all of the family's.
        buckets: size of the resilient bucket table; 0 otherwise.
        preprocess: RTAG7's preprocessing of each bin.
        member: hash that picks the member of a LAG once the LAG is the next hop; None where it is not known.

    Raises:
        InputError: an unknown name, or a parameter that the family does not have.
    """

    family: str
    seed: int = 0
    offset: int = 0
    fields: tuple[str, ...] = FIVE_TUPLE
    selection: str = ""
    width: int = 0
    buckets: int = 0
    preprocess: bool = False
    member: HashSpec | None = None

    def __post_init__(self) -> None:
        family = FAMILIES.get(self.family)
        if family is None:
            raise InputError(f"hash family {self.family!r} is not known; known: {', '.join(FAMILIES)}")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"hash {self.family}: seed {self.seed} is not a number of 32 bits")
        if self.offset and not (family.rotates and 0 < self.offset < family.bits):
            raise InputError(f"hash {self.family}: there is no offset {self.offset}")
        if not 0 <= self.width <= family.bits:
            raise InputError(f"hash {self.family}: width {self.width} is not within 0 to {family.bits} bits")
        unknown = set(self.fields) - set(FIELDS)
        if unknown or not self.fields:
            raise InputError(
                f"hash {self.family}: fields {sorted(unknown)}; name some of {', '.join(FIELDS)}"
            )
        # One order, so that equal field sets are equal specs.
        object.__setattr__(self, "fields", tuple(name for name in FIELDS if name in self.fields))
        if self.selection and self.selection not in SELECTIONS:
            raise InputError(
                f"hash {self.family}: selection {self.selection!r}; known: {', '.join(SELECTIONS)}"
            )
        if (self.buckets > 0) != (self.selection == "resilient") or self.buckets < 0:
            raise InputError(
                f"hash {self.family}: buckets belong to selection 'resilient', and it needs them"
            )
        if self.preprocess and not self.family.startswith("rtag7-"):
            raise InputError(f"hash {self.family}: only RTAG7 families preprocess")
        if self.family == "linux-multipath" and self.fields != FIVE_TUPLE:
            raise InputError(
                "hash linux-multipath is over the five-tuple; other fields: linux-multipath-fields"
            )
        if self.family.startswith("linux-multipath") and "dst_qp" in self.fields:
            raise InputError(f"hash {self.family}: Linux does not hash the destination QP")

    @property
    def chosen_by(self) -> str:
        """The selection that applies."""
        return self.selection or FAMILIES[self.family].selection

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object; parameters at their defaults are left out."""
        found: dict[str, Any] = {"family": self.family, "seed": self.seed}
        for column in fields(self)[2:]:
            value = getattr(self, column.name)
            if value != column.default:
                found[column.name] = (
                    value.to_json()
                    if isinstance(value, HashSpec)
                    else list(value)
                    if isinstance(value, tuple)
                    else value
                )
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HashSpec:
        """The inverse of `to_json`.

        Raises:
            InputError: unknown keys, or what the class refuses.
        """
        known = {column.name: column for column in fields(cls)}
        if set(data) - set(known) or "family" not in data:
            raise InputError(f"not a hash: keys {sorted(data)}; known: {', '.join(known)}")
        values: dict[str, Any] = {"family": str(data["family"])}
        for name in ("seed", "offset", "width", "buckets"):
            values[name] = int(data.get(name, 0))
        values["selection"] = str(data.get("selection", ""))
        values["preprocess"] = bool(data.get("preprocess", False))
        values["fields"] = tuple(map(str, data.get("fields", FIVE_TUPLE)))
        member = data.get("member")
        return cls(**values, member=None if member is None else cls.from_json(member))


def hash_values(spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) results of the family's function, rotated by the offset and cut to the width.

    Raises:
        InputError: the family has no function of the flow.
    """
    family = FAMILIES[spec.family]
    if not family.module:
        raise InputError(
            f"hash {spec.family}: every packet goes its own way, so a flow has no single next hop"
        )
    values: NDArray[np.uint32] = (
        import_module(family.module).values(spec, tuples).astype(np.uint32, copy=False)
    )
    if spec.offset:
        back = np.uint32(family.bits - spec.offset)
        values = (values >> np.uint32(spec.offset)) | (values << back)
    used = spec.width or family.bits
    if used < 32 and (spec.offset or used < family.bits):
        values = values & np.uint32((1 << used) - 1)
    return values


def choose(spec: HashSpec, tuples: Tuples, weights: Sequence[int]) -> NDArray[np.int64]:
    """(F,) index of the next hop that each flow takes among next hops with these weights, in their order.

    Raises:
        InputError: the family has no function of the flow.
    """
    bits = spec.width or FAMILIES[spec.family].bits
    picked = np.empty(len(tuples), dtype=np.int64)
    for begin in range(0, len(tuples), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        picked[block] = pick(
            hash_values(spec, tuples.take(block)), weights, spec.chosen_by, bits=bits, buckets=spec.buckets
        )
    return picked
