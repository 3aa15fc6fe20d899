"""Experts from measured counts of tokens."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.placement.experts import place_experts


def test_hot_experts_are_kept_apart():
    """Four hot and four cold experts on four ranks: one of each per rank, where the order has two hot ones together."""
    found = place_experts(np.array([9.0, 9, 9, 9, 1, 1, 1, 1]), 4)

    assert sorted(found.rank.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(set(found.rank[:4].tolist())) == 4
    assert found.cost == pytest.approx(7.5)
    assert found.cost_in_order == pytest.approx(13.5)


def test_exchanges_mend_what_largest_first_leaves():
    """3 3 2 2 2 0 on two ranks: largest first ends at 7 and 5, both have 6 after one exchange."""
    found = place_experts(np.array([3.0, 3, 2, 2, 2, 0]), 2)

    assert found.cost == pytest.approx(3.0)
    assert found.bound == pytest.approx(3.0)


def test_an_expert_goes_where_its_tokens_come_from():
    """Tokens of a rank's own experts use no NIC."""
    sent = np.array([[0.0, 8.0], [8.0, 0.0]])

    found = place_experts(sent, 2)

    assert found.rank.tolist() == [1, 0]
    assert found.cost == 0


def test_uplinks_bind():
    """A leaf with a thin uplink gets the experts whose tokens come from inside it."""
    sent = np.array([[6.0, 0, 3, 3], [6.0, 0, 3, 3], [0, 6.0, 3, 3], [0, 6.0, 3, 3]])
    options = {"leaf": np.array([0, 0, 1, 1]), "uplink_gbps": np.array([0.1, 0.1])}

    found = place_experts(sent, 4, **options)

    leaf = np.array([0, 0, 1, 1])[found.rank]
    assert (leaf[0], leaf[1]) == (0, 1)
    assert found.cost < found.cost_in_order


@given(
    st.lists(st.integers(0, 50), min_size=6, max_size=6),
    st.sampled_from([2, 3]),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_it_is_near_the_best_and_above_the_bound(counts, ranks, speeds):
    """Against all assignments of six experts: within a third (Graham's bound for largest first), never below the bound."""
    tokens, nic = np.array(counts, dtype=float), np.array(speeds[:ranks], dtype=float)

    found = place_experts(tokens, ranks, nic_gbps=nic)

    room = 6 // ranks
    best = min(
        max(tokens[np.array(chosen) == rank].sum() * (ranks - 1) / ranks / nic[rank] for rank in range(ranks))
        for chosen in set(itertools.permutations([rank for rank in range(ranks) for _ in range(room)]))
    )
    assert found.bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= found.cost <= best * 4 / 3 + 1e-9
    assert found.cost <= found.cost_in_order
    assert np.bincount(found.rank, minlength=ranks).tolist() == [room] * ranks


@pytest.mark.parametrize(
    ("tokens", "ranks", "options"),
    [
        ([1.0, 2, 3], 2, {}),
        ([1.0, -2], 2, {}),
        ([1.0, np.nan], 2, {}),
        ([], 2, {}),
        ([[1.0, 2]], 2, {}),
        ([1.0, 2], 0, {}),
        ([1.0, 2], 2, {"nic_gbps": np.array([1.0])}),
        ([1.0, 2], 2, {"nic_gbps": np.array([1.0, 0])}),
        ([1.0, 2], 2, {"leaf": np.array([0])}),
        ([1.0, 2], 2, {"leaf": np.array([0, 1]), "uplink_gbps": np.array([1.0])}),
    ],
)
def test_bad_counts_are_refused(tokens, ranks, options):
    """Counts that do not fit the ranks, negative ones, columns of another length, speeds of 0."""
    with pytest.raises(InputError, match="experts"):
        place_experts(np.array(tokens), ranks, **options)
