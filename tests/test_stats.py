"""Bootstrap over initialisations: coverage, pairs, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.stats import bootstrap_difference, bootstrap_median, bootstrap_ratio, median_of_medians

GROUPS = st.lists(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), min_size=2, max_size=6)


def draw(rng: np.random.Generator, center: float, inits: int, repeats: int, between: float, within: float):
    levels = center + between * rng.standard_normal(inits)
    return (levels[:, None] + within * rng.standard_normal((inits, repeats))).tolist()


@pytest.mark.parametrize("inits", [5, 12])
def test_median_interval_covers_the_truth(inits: int) -> None:
    """Where initialisations differ more than repeats, about 95% of the 95% intervals hold the true median."""
    rng = np.random.default_rng(1)
    trials = 300
    hits = 0
    for trial in range(trials):
        _, lo, hi = bootstrap_median(draw(rng, 10, inits, 6, 1.0, 0.2), n=400, seed=trial)
        hits += lo <= 10 <= hi
    assert 0.89 <= hits / trials <= 0.995


def test_pooling_repeats_would_not_cover() -> None:
    """The interval is wider than that of the pooled repeats, which pretends that they are independent."""
    groups = draw(np.random.default_rng(2), 10, 5, 40, 1.0, 0.05)
    pooled = [[value] for group in groups for value in group]
    _, lo, hi = bootstrap_median(groups)
    _, pooled_lo, pooled_hi = bootstrap_median(pooled)
    assert hi - lo > 1.5 * (pooled_hi - pooled_lo)


def test_paired_difference_cancels_drift() -> None:
    """Interleaved initialisations share a drift that hides the effect unpaired and cancels in pairs."""
    rng = np.random.default_rng(3)
    drift = np.linspace(0, 20, 6)
    a = [[10 + level + 0.1 * rng.standard_normal() for _ in range(4)] for level in drift]
    b = [[11 + level + 0.1 * rng.standard_normal() for _ in range(4)] for level in drift]
    loose = bootstrap_difference(a, b)
    tight = bootstrap_difference(a, b, paired=True)
    assert loose.lo < 0 < loose.hi
    assert 0.7 < tight.lo < 1 < tight.hi < 1.3


def test_difference_covers_the_truth() -> None:
    """Intervals of an unpaired difference hold it about as often as they claim."""
    rng = np.random.default_rng(4)
    trials = 200
    hits = 0
    for trial in range(trials):
        a = draw(rng, 10, 6, 4, 1.0, 0.2)
        b = draw(rng, 12, 6, 4, 1.0, 0.2)
        _, lo, hi = bootstrap_difference(a, b, n=400, seed=trial)
        hits += lo <= 2 <= hi
    assert 0.89 <= hits / trials <= 1.0


def test_ratio_of_constant_groups_is_exact() -> None:
    """Groups without spread give a ratio whose interval is a point, paired or not."""
    a, b = [[2.0, 2.0], [2.0]], [[3.0], [3.0, 3.0, 3.0]]
    assert bootstrap_ratio(a, b) == (1.5, 1.5, 1.5)
    assert bootstrap_ratio(a, b, paired=True) == (1.5, 1.5, 1.5)


def test_groups_weigh_the_same() -> None:
    """A long initialisation does not outvote two short ones."""
    assert median_of_medians([[1.0], [2.0], [9.0] * 50]) == 2.0


@given(GROUPS, st.integers(0, 5))
def test_interval_lies_within_the_values_and_is_repeatable(groups: list[list[float]], seed: int) -> None:
    """Median and limits never leave the range of the values; a seed fixes them."""
    interval = bootstrap_median(groups, n=60, seed=seed)
    values = [value for group in groups for value in group]
    # The median of an even count averages two values and may round past them by one unit in the last place.
    slack = 4 * math.ulp(max(values))
    assert min(values) - slack <= interval.lo <= interval.hi <= max(values) + slack
    assert min(values) - slack <= interval.median <= max(values) + slack
    assert bootstrap_median(groups, n=60, seed=seed) == interval


@given(GROUPS)
def test_difference_with_itself_is_zero(groups: list[list[float]]) -> None:
    """No setting differs from itself: the estimate is 0, and the interval contains it."""
    interval = bootstrap_difference(groups, groups, n=60)
    assert interval.median == 0
    assert bootstrap_difference(groups, groups, n=60, paired=True).median == 0


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "at least 2"),
        ([[1.0]], "at least 2"),
        ([[1.0], []], "initialisation 1 has no value"),
        ([[1.0], [math.nan]], "not a finite"),
        ([[1.0], [math.inf]], "not a finite"),
    ],
)
def test_what_gives_no_interval_is_refused(groups: list[list[float]], message: str) -> None:
    """One initialisation, an empty one, or a value that is no number: an error, never an invented interval."""
    with pytest.raises(InputError, match=message):
        bootstrap_median(groups)


def test_pairs_must_match() -> None:
    """Paired settings need equally many initialisations; a ratio needs values above 0."""
    with pytest.raises(InputError, match="2 and 3"):
        bootstrap_difference([[1.0]] * 2, [[1.0]] * 3, paired=True)
    with pytest.raises(InputError, match="above 0"):
        bootstrap_ratio([[0.0]] * 2, [[1.0]] * 2)
