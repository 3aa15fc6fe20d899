"""From a hash value to a next hop: modulo, hash-threshold, or a resilient bucket table.

- `modulo`: value % n into the table of members; a member of weight w stands w times in a row in it (weights are divided by
  what they have in common). Broadcom's ECMP group works so (COUNT register); vendors may order weighted members otherwise.
- `threshold` (RFC 2992; Linux fib_select_multipath): member i owns values up to round(2^bits * cumulative weight / total) - 1.
- `resilient`: value % buckets into a table; when a member fails only its buckets move (Linux nexthop groups of type resilient).
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

SELECTIONS = ("modulo", "threshold", "resilient")


def pick(
    values: NDArray[np.uint32], weights: Sequence[int], selection: str, *, bits: int, buckets: int = 0
) -> Ints:
    """(F,) next hop of (F,) hash values of `bits` bits; a resilient table is one that was filled with all members there."""
    if selection == "threshold":
        return np.searchsorted(upper_bounds(weights, bits), values, side="left").astype(np.int64, copy=False)
    table = bucket_table(weights, buckets) if selection == "resilient" else member_table(weights)
    slot = values % np.uint32(len(table))
    if len(table) == len(weights):
        return slot.astype(np.int64)
    found: Ints = table.take(slot)
    return found


def upper_bounds(weights: Sequence[int], bits: int) -> NDArray[np.uint32]:
    """(N,) last value of each member: DIV_ROUND_CLOSEST_ULL(2^bits * cumulative weight, total) - 1."""
    cumulative = np.cumsum(np.asarray(weights, dtype=np.int64))
    total = int(cumulative[-1])
    bounds = (cumulative * 2**bits + total // 2) // total - 1
    # A member too light for one value owns none; -1 would wrap around.
    last: NDArray[np.uint32] = np.maximum(bounds, 0).astype(np.uint32)
    return last


def member_table(weights: Sequence[int]) -> Ints:
    """(total weight,) member of each slot."""
    shared = gcd(*weights)
    return np.repeat(np.arange(len(weights)), np.asarray(weights, dtype=np.int64) // shared)


def bucket_table(weights: Sequence[int], buckets: int, failed: Collection[int] = ()) -> Ints:
    """(buckets,) member of each bucket: filled in order of the members, then the failed ones' buckets dealt out in turn.

    Filling: member i up to round(buckets * cumulative weight / total) (net/ipv4/nexthop.c, wants_buckets).

    Raises:
        InputError: fewer buckets than members, or every member failed.
    """
    if buckets < len(weights) or len(set(failed)) >= len(weights):
        raise InputError(
            f"resilient next hops: {buckets} buckets, {len(set(failed))} of {len(weights)} failed"
        )
    cumulative = np.cumsum(np.asarray(weights, dtype=np.int64))
    total = int(cumulative[-1])
    ends = (cumulative * buckets + total // 2) // total
    table = np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))
    if failed:
        alive = [member for member in range(len(weights)) if member not in set(failed)]
        free = np.flatnonzero(np.isin(table, list(failed)))
        turns = member_table([weights[member] for member in alive])
        table[free] = np.array(alive)[turns[np.arange(len(free)) % len(turns)]]
    return table
