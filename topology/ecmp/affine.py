"""Linear hashes by table: CRC, XOR and Toeplitz of a flow are the XOR of one looked-up number per 16-bit word.

A function that is affine over bits is known from its value at zero and its change for every single input bit. Those
come from the family's plain function `one`, so each formula is written down once, for one flow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from topology.ecmp.spec import FAMILIES
from topology.ecmp.tuples import WORD_BITS, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from topology.ecmp.spec import HashSpec
    from topology.ecmp.tuples import Tuples


def values(spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) hashes of flows."""
    tables = word_tables(spec)
    found = np.full(len(tuples), constant(spec), dtype=np.uint32)
    for word, table in tables.items():
        found ^= table.take(tuples.word(word).astype(np.intp))
    return found


@lru_cache(maxsize=1024)
def constant(spec: HashSpec) -> int:
    """What a flow of zeros hashes to: all that the seed of a family that is not keyed decides."""
    return _one(spec, {})


def word_tables(spec: HashSpec) -> Mapping[str, NDArray[np.uint32]]:
    """Word -> change of the hash for each of its values: (65536,), or (256,) for words of 8 bits."""
    family = FAMILIES[spec.family]
    plain = replace(
        spec, offset=0, width=0, selection="", buckets=0, member=None, seed=spec.seed if family.keyed else 0
    )
    return _tables(plain)


@lru_cache(maxsize=32)
def _tables(spec: HashSpec) -> dict[str, NDArray[np.uint32]]:
    zero = _one(spec, {})
    tables: dict[str, NDArray[np.uint32]] = {}
    for word in words_of(spec.fields):
        table = np.zeros(1, dtype=np.uint32)
        for bit in range(WORD_BITS[word]):
            change = _one(spec, {word: 1 << bit}) ^ zero
            table = np.concatenate([table, table ^ np.uint32(change)])
        tables[word] = table
    return tables


def _one(spec: HashSpec, words: Mapping[str, int]) -> int:
    found: int = import_module(FAMILIES[spec.family].module).one(spec, words)
    return found
