"""The alpha-beta-gamma model: what multiplies its constants, and constants found again from noisy times."""

from __future__ import annotations

import json

import numpy as np
import pytest

from collectives.cost.alpha_beta import Model, Point, Terms, fit, terms
from collectives.schedules import Op, build
from nettune.errors import InputError

SIZES = [2**power for power in range(6, 27, 2)]
PING = Terms(1, 1, 0)


def points(alpha, beta, *, path="all", gamma=0.0, work=PING, noise=0.0, inits=5, seed=0) -> list[Point]:
    """Times of the model with relative noise, each size once in each initialisation."""
    rng = np.random.default_rng(seed)
    return [
        Point(
            size,
            (alpha * work.rounds + size * (beta * work.wire_share + gamma * work.reduced_share))
            * (1 + noise * rng.standard_normal()),
            work,
            path,
            init,
        )
        for init in range(inits)
        for size in SIZES
    ]


def values(schedule) -> list[float]:
    """The three terms of a schedule."""
    return list(vars(terms(schedule)).values())


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_terms_of_a_ring(ranks):
    """2(n-1) rounds, 2(n-1)/n of the message on the wire, (n-1)/n reduced; half of it for a half of the operation."""
    part = (ranks - 1) / ranks

    assert values(build("ring", Op.ALL_REDUCE, ranks)) == pytest.approx([2 * (ranks - 1), 2 * part, part])
    assert values(build("ring", Op.ALL_GATHER, ranks)) == pytest.approx([ranks - 1, part, 0])
    assert values(build("ring", Op.REDUCE_SCATTER, ranks)) == pytest.approx([ranks - 1, part, part])


def test_terms_of_halving_and_doubling():
    """2 log2 n rounds with the ring's bytes."""
    assert values(build("halving_doubling", Op.ALL_REDUCE, 8)) == pytest.approx([6, 14 / 8, 7 / 8])


def test_constants_are_found_again():
    """Alpha, beta and gamma from rings and pings without noise, exactly; nothing is left over."""
    ring = terms(build("ring", Op.ALL_REDUCE, 4))
    model = fit(points(5.0, 8e-5) + points(5.0, 8e-5, gamma=2e-5, work=ring))

    assert model.alpha_us["all"].value == pytest.approx(5.0)
    assert model.beta_us_per_byte["all"].value == pytest.approx(8e-5)
    assert model.gamma_us_per_byte.value == pytest.approx(2e-5)
    assert model.worst_residual == pytest.approx(0, abs=1e-9)
    assert model.time_us(ring, 1e6) == pytest.approx(30 + 1.5e6 * 8e-5 + 0.75e6 * 2e-5)


def test_each_class_of_paths_has_its_own_constants():
    """Same leaf and across spines, measured together."""
    model = fit(points(5.0, 8e-5, path="leaf") + points(9.0, 1.6e-4, path="spine"))

    assert model.alpha_us["leaf"].value == pytest.approx(5.0)
    assert model.beta_us_per_byte["spine"].value == pytest.approx(1.6e-4)
    with pytest.raises(InputError, match="known: leaf, spine"):
        model.time_us(PING, 1, "rail")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("inits", [2, 5])
def test_outliers_do_not_carry_the_fit(seed, inits):
    """One time in eight is ten times too long or too short: alpha and beta still are within 5%."""
    spoilt = [
        Point(
            point.size_bytes,
            point.time_us * {0: 10, 8: 0.1}.get(number % 16, 1),
            point.terms,
            init=point.init,
        )
        for number, point in enumerate(points(5.0, 8e-5, noise=0.02, inits=inits, seed=seed))
    ]

    model = fit(spoilt)

    assert model.beta_us_per_byte["all"].value == pytest.approx(8e-5, rel=0.05)
    assert model.alpha_us["all"].value == pytest.approx(5.0, rel=0.05)
    assert model.worst_residual > 0.8
    assert model.median_residual < 0.05


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Nominally 95% of them; over 12 experiments of 12 initialisations at least 75% (percentile bootstrap is narrow)."""
    covered = 0
    for seed in range(12):
        beta = fit(points(5.0, 8e-5, noise=0.05, inits=12, seed=seed), seed).beta_us_per_byte["all"]
        assert beta.lo is not None
        assert beta.hi is not None
        assert beta.lo < beta.value < beta.hi
        covered += beta.lo <= 8e-5 <= beta.hi
    assert covered >= 0.75 * 12


def test_one_initialisation_gives_no_interval():
    """Repeats of one initialisation say nothing about the next: limits are None."""
    alpha = fit(points(5.0, 8e-5, noise=0.05, inits=1)).alpha_us["all"]

    assert (alpha.lo, alpha.hi) == (None, None)


def test_constants_are_never_negative():
    """Times that fall with the size give beta 0."""
    model = fit([Point(size, 100 - number) for number, size in enumerate(SIZES)])

    assert model.beta_us_per_byte["all"].value == 0


def test_the_same_points_and_seed_give_the_same_model():
    """Intervals are drawn from the seed."""
    some = points(5.0, 8e-5, noise=0.05)

    assert fit(some, 3).to_json() == fit(some, 3).to_json()


def test_too_little_is_refused():
    """Two sizes, three points, no points, times of zero, or schedules that cannot tell constants apart."""
    with pytest.raises(InputError, match="2 sizes"):
        fit([Point(1, 1), Point(2, 2)] * 9)
    with pytest.raises(InputError, match="3 points are too few"):
        fit([Point(1, 1), Point(2, 2), Point(3, 3)])
    with pytest.raises(InputError, match="0 sizes"):
        fit([])
    with pytest.raises(InputError, match="not above 0"):
        fit([Point(size, 0) for size in SIZES])
    with pytest.raises(InputError, match="cannot tell"):
        fit(points(5.0, 8e-5, gamma=1e-5, work=terms(build("ring", Op.ALL_REDUCE, 4))))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_no_numbers_are_refused(wrong):
    """Times, sizes and terms that are not finite, or negative, are refused before anything is solved."""
    good = points(5.0, 8e-5)
    for bad in (Point(64, wrong), Point(wrong, 5.0), Point(64, 5.0, Terms(wrong, 1, 0))):
        with pytest.raises(InputError, match="no number"):
            fit([*good, bad])


def test_a_model_survives_json():
    """to_json and from_json are inverse, through text."""
    model = fit(points(5.0, 8e-5, noise=0.05))

    assert Model.from_json(json.loads(json.dumps(model.to_json()))) == model


@pytest.mark.parametrize(
    "damage",
    [
        {"schema": "x"},
        {"alpha_us": {}},
        {"alpha_us": {"all": [None, 1, 2]}},
        {"points": "many"},
        {"points": float("inf")},
        {"alpha_us": {"all": [float("nan"), None, None]}},
        {"alpha_us": {"all": [-1.0, None, None]}},
        {"residuals": 1},
    ],
)
def test_other_json_is_no_model(damage):
    """Wrong schema or shape are InputErrors."""
    data = fit(points(5.0, 8e-5)).to_json()

    with pytest.raises(InputError):
        Model.from_json(data | damage)
