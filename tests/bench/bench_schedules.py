"""Proving schedules right, and adding up what they send."""

from __future__ import annotations

import pytest

from collectives.schedules import build

CASES = {
    "ring": ("ring", "all_reduce", 64, {"channels": 32}),
    "double tree": ("double_tree", "all_reduce", 64, {"channels": 16, "chunks": 8}),
    "hierarchical": ("hierarchical", "all_reduce", 64, {"groups": 8, "overlap": 4}),
    "pairwise": ("pairwise", "all_to_all", 64, {}),
    "two step": ("two_step", "all_to_all", 64, {"groups": 8}),
}


@pytest.mark.parametrize("case", CASES)
def test_check(benchmark, case):
    """64 ranks: well under a second."""
    algorithm, op, ranks, options = CASES[case]
    benchmark.pedantic(build(algorithm, op, ranks, **options).check, rounds=5)


def test_edges(benchmark):
    """A ring of 512 ranks on 8 channels: four million steps."""
    benchmark.pedantic(lambda: build("ring", "all_reduce", 512, channels=8).edges, rounds=3)
