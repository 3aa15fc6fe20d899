"""`Edges`: what a whole schedule sends from rank to rank, for link loads and cost models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Rows that are held before they are added up: a few tens of megabytes, however many rounds there are.
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class Edges:
    """Directed pairs of ranks, each once for a channel, sorted by channel, source and destination.

    Attributes:
        src, dst: (E,) ranks.
        share: (E,) part of the message size that is sent over it in all; bytes are share times the size.
        channel: (E,) channel.
    """

    src: Ints
    dst: Ints
    share: Floats
    channel: Ints


def summed(rows: Iterable[tuple[Ints, Ints, Ints, Floats]], ranks: int) -> Edges:
    """Rows of (src, dst, channel, share) added up by channel and pair of ranks."""
    keys: list[Ints] = [np.empty(0, np.int64)]
    values: list[Floats] = [np.empty(0)]
    waiting = 0
    for src, dst, channel, share in rows:
        keys.append((channel * ranks + src) * ranks + dst)
        values.append(share)
        waiting += len(src)
        if waiting > _BATCH_ROWS:
            key, total = _add_up(keys, values)
            keys, values = [key], [total]
            waiting = 0
    key, total = _add_up(keys, values)
    pair = key % (ranks * ranks)
    return Edges(pair // ranks, pair % ranks, total, key // (ranks * ranks))


def _add_up(keys: list[Ints], values: list[Floats]) -> tuple[Ints, Floats]:
    unique, index = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.bincount(index, weights=np.concatenate(values), minlength=len(unique))
    return unique, total.astype(np.float64, copy=False)
