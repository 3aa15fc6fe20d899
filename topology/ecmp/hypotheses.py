"""Many hashes at once, for `topology.ecmp.fit`: one family and field set under all its offsets and seeds.

The seed of a linear family only XORs a constant into the result. For next hops that are picked by k bits of it there are
2^k different constants, not 2^32 seeds, and every one can be tried; a seed that makes it is found by solving for its bits.
Other families' seeds can only be tried one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import numpy as np

from topology.ecmp import affine
from topology.ecmp.select import member_table, pick
from topology.ecmp.spec import FAMILIES, HashSpec, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.ecmp.tuples import Tuples

    Ints = NDArray[np.int64]
    Words = NDArray[np.uint64]


_CACHED = 1 << 14
_LISTED_BITS = 16
_MOST_SEEDS = 1 << 20
"""Of a linear family where they must be listed."""


class Hypotheses(Protocol):
    """Hashes that differ by offset and seed."""

    @property
    def base(self) -> HashSpec:
        """What they share."""
        ...

    def __len__(self) -> int:
        """How many."""
        ...

    def predicted(self, which: Ints, rows: Ints) -> Ints:
        """(S, r) next hop of some rows under some of the hashes."""
        ...

    def spec(self, number: int) -> HashSpec | None:
        """One of them; None where no seed makes it."""
        ...


def hypotheses(base: HashSpec, tuples: Tuples, weights: Sequence[int], seeds: Sequence[int]) -> Hypotheses:
    """All that belong to a family, field set and selection; the base's own seed and offset are not looked at.

    Args:
        base: family, fields, selection, width, preprocessing.
        tuples: (R,) flows.
        weights: of the next hops.
        seeds: tried where a seed cannot be solved for.
    """
    family = FAMILIES[base.family]
    if family.keyed:
        return _Listed(base, tuples, weights)
    return _Linear(base, tuples, weights, seeds) if family.linear else _Seeded(base, tuples, weights, seeds)


class _Linear:
    """Offsets times constants."""

    def __init__(self, base: HashSpec, tuples: Tuples, weights: Sequence[int], seeds: Sequence[int]) -> None:
        self.base = replace(base, seed=0, offset=0)
        self._bits = FAMILIES[base.family].bits
        self._width = base.width or self._bits
        self._weights = weights
        self._tuples = tuples
        decided = _deciding_bits(base, weights, self._width)
        self._mask = decided or (1 << self._width) - 1
        places = [bit for bit in range(self._width) if self._mask >> bit & 1]
        # After the rotation, as far as they can all be listed; else before it, those of the seeds to try.
        self._seeds: Sequence[int] | None = None if len(places) <= _LISTED_BITS else seeds[:_MOST_SEEDS]
        if self._seeds is None:
            numbers = np.arange(1 << len(places), dtype=np.uint64)
            bits = [(numbers >> np.uint64(n) & np.uint64(1)) << np.uint64(p) for n, p in enumerate(places)]
        else:
            numbers = np.array(self._seeds, dtype=np.uint64)
            changes = self._seed_changes()
            bits = [(numbers >> np.uint64(n) & np.uint64(1)) * np.uint64(c) for n, c in enumerate(changes)]
        self._constants = np.bitwise_xor.reduce(bits, axis=0) if bits else np.zeros(1, dtype=np.uint64)
        self._table: Ints | None = None
        if self._width <= _LISTED_BITS:
            self._table = self._pick(np.arange(1 << self._width, dtype=np.uint32))

    def __len__(self) -> int:
        return self._bits * len(self._constants)

    @cached_property
    def _plain(self) -> Words:
        """(R,) results under seed 0, not rotated; made when first asked for, since tables are large."""
        return affine.values(self.base, self._tuples).astype(np.uint64)

    def predicted(self, which: Ints, rows: Ints) -> Ints:
        offset, number = np.divmod(which, len(self._constants))
        plain, constant = self._plain[rows][None, :], self._constants[number][:, None]
        if self._seeds is not None:
            plain, constant = plain ^ constant, np.zeros_like(constant)
        values = (self._rotated(plain, offset[:, None]) ^ constant) & np.uint64((1 << self._width) - 1)
        if self._table is not None:
            return self._table.take(values.astype(np.int64))
        return self._pick(values.astype(np.uint32).ravel()).reshape(values.shape)

    def spec(self, number: int) -> HashSpec | None:
        offset, index = divmod(number, len(self._constants))
        if self._seeds is not None:
            return replace(self.base, offset=offset, seed=self._seeds[index])
        changes = np.array(self._seed_changes(), dtype=np.uint64)
        rotated = self._rotated(changes, np.array(offset)) & np.uint64(self._mask)
        seed = _solve(rotated.tolist(), int(self._constants[index]))
        return None if seed is None else replace(self.base, offset=offset, seed=seed)

    def _pick(self, values: NDArray[np.uint32]) -> Ints:
        base = self.base
        return pick(values, self._weights, base.chosen_by, bits=self._width, buckets=base.buckets)

    def _seed_changes(self) -> list[int]:
        """What each bit of the seed changes in the result before rotation."""
        zero = affine.constant(self.base)
        return [affine.constant(replace(self.base, seed=1 << bit)) ^ zero for bit in range(32)]

    def _rotated(self, values: Words, offset: Ints) -> Words:
        twice = (values << np.uint64(self._bits)) | values
        found: Words = (twice >> offset.astype(np.uint64)) & np.uint64((1 << self._bits) - 1)
        return found


class _Seeded:
    """Seeds one by one, for families with `seeded(seeds, spec, tuples)`."""

    def __init__(self, base: HashSpec, tuples: Tuples, weights: Sequence[int], seeds: Sequence[int]) -> None:
        self.base = replace(base, seed=0, offset=0)
        self._tuples, self._weights, self._seeds = tuples, weights, seeds

    def __len__(self) -> int:
        return len(self._seeds)

    def predicted(self, which: Ints, rows: Ints) -> Ints:
        if len(which) < len(rows):
            part = self._tuples.take(rows)
            return np.stack([choose(self._spec(number), part, self._weights) for number in which.tolist()])
        seeds = self._seeds
        plain = isinstance(seeds, range) and seeds.start == 0 and seeds.step == 1
        listed = (which if plain else np.array([seeds[i] for i in which.tolist()])).astype(np.uint64)
        family, base = FAMILIES[self.base.family], self.base
        module, width = import_module(family.module), base.width or family.bits
        found = np.empty((len(which), len(rows)), dtype=np.int64)
        for place, row in enumerate(rows.tolist()):
            one = self._tuples.take(slice(row, row + 1))
            for begin in range(0, len(listed), _CACHED):
                block = slice(begin, begin + _CACHED)
                values = module.seeded(listed[block], base, one) & np.uint32((1 << width) - 1)
                found[block, place] = pick(
                    values, self._weights, base.chosen_by, bits=width, buckets=base.buckets
                )
        return found

    def spec(self, number: int) -> HashSpec | None:
        return self._spec(number)

    def _spec(self, number: int) -> HashSpec:
        return replace(self.base, seed=self._seeds[number])


@dataclass(frozen=True)
class _Listed:
    """A keyed family under its base's own seed, all offsets."""

    base: HashSpec
    tuples: Tuples
    weights: Sequence[int]

    def __len__(self) -> int:
        return FAMILIES[self.base.family].bits

    def predicted(self, which: Ints, rows: Ints) -> Ints:
        part = self.tuples.take(rows)
        return np.stack([choose(self.spec(number), part, self.weights) for number in which.tolist()])

    def spec(self, number: int) -> HashSpec:
        return replace(self.base, offset=number)


def _deciding_bits(base: HashSpec, weights: Sequence[int], width: int) -> int:
    """Mask of the result's bits that decide the next hop; 0 where all may."""
    slots = base.buckets if base.chosen_by == "resilient" else len(member_table(weights))
    if slots & (slots - 1) or slots > 1 << min(width, 16):
        return 0
    if base.chosen_by == "threshold":
        return (slots - 1) << (width - slots.bit_length() + 1)
    return slots - 1


def _solve(changes: list[int], target: int) -> int | None:
    """A number whose bits XOR these changes up to the target; None where there is none (Gaussian elimination)."""
    basis: dict[int, tuple[int, int]] = {}
    for bit, change in enumerate(changes):
        value, seed = change, 1 << bit
        while value:
            top = value.bit_length()
            if top not in basis:
                basis[top] = (value, seed)
                break
            value, seed = value ^ basis[top][0], seed ^ basis[top][1]
    found = 0
    while target:
        top = target.bit_length()
        if top not in basis:
            return None
        target, found = target ^ basis[top][0], found ^ basis[top][1]
    return found
