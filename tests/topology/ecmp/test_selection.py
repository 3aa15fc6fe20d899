"""From hash values to next hops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp.select import bucket_table, pick, upper_bounds

WEIGHTS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@given(weights=WEIGHTS, selection=st.sampled_from(["modulo", "threshold", "resilient"]))
def test_shares_follow_weights(weights, selection):
    """All 2^16 values: each member's share is its weight's, to one value, slot or bucket."""
    values = np.arange(2**16, dtype=np.uint32)

    picked = pick(values, weights, selection, bits=16, buckets=1024 if selection == "resilient" else 0)

    shares = np.bincount(picked, minlength=len(weights)) / len(values)
    exact = np.array(weights) / sum(weights)
    assert shares == pytest.approx(exact, abs=2e-3)


def test_thresholds_are_the_kernels():
    """DIV_ROUND_CLOSEST_ULL(2^31 * cumulative, total) - 1, for 1:1:1 and 3:1."""
    assert upper_bounds([1, 1, 1], 31).tolist() == [715827882, 1431655764, 2147483647]
    assert upper_bounds([3, 1], 31).tolist() == [1610612735, 2147483647]


def test_modulo_repeats_a_heavy_member():
    """Weights 2:4 are slots 0 1 1."""
    assert pick(np.arange(6, dtype=np.uint32), [2, 4], "modulo", bits=16).tolist() == [0, 1, 1, 0, 1, 1]


@given(weights=WEIGHTS.filter(lambda weights: len(weights) > 1), failed=st.integers(0, 5))
def test_a_failure_moves_only_the_failed_members_buckets(weights, failed):
    """Resilient: other flows stay, and the survivors share the rest by weight."""
    failed %= len(weights)

    before, after = bucket_table(weights, 256), bucket_table(weights, 256, {failed})

    assert np.array_equal(before[before != failed], after[before != failed])
    assert failed not in after
    moved = np.bincount(after[before == failed], minlength=len(weights))
    alive = np.array([0 if member == failed else weight for member, weight in enumerate(weights)])
    assert moved == pytest.approx(moved.sum() * alive / alive.sum(), abs=max(weights))


def test_too_few_buckets_are_refused():
    """Every member needs one, and one must be alive."""
    with pytest.raises(InputError, match="2 buckets"):
        bucket_table([1, 1, 1], 2)
    with pytest.raises(InputError, match="2 of 2 failed"):
        bucket_table([1, 1], 8, {0, 1})
