"""Sweeping a knob and what is kept."""

from __future__ import annotations

import random

import pytest

from nettune.errors import InputError
from sweeps.grid import sweep
from sweeps.knob import Knob


def test_a_better_value_is_kept():
    """A value that is faster in every initialisation replaces the default, with the gain in the reason."""
    result = sweep(
        Knob("cap", (1.0, 4.0), 1.0),
        lambda value, init: [1.0 - 0.1 * (value > 1) + 0.001 * init] * 3,
        inits=5,
    )

    assert result.kept == 4.0
    assert "saves 100 to 100 ms" in result.reason


def test_noise_keeps_the_default():
    """When no interval leaves out zero, the default stays, and the reason says so."""
    rng = random.Random(0)
    kept = [
        sweep(
            Knob("cap", (1.0, 2.0, 3.0), 1.0),
            lambda _value, _init: [rng.gauss(1, 0.1) for _ in range(4)],
            inits=5,
        ).kept
        for _ in range(40)
    ]

    # two rivals at 95%, five initialisations: false gains are rare, not impossible
    assert kept.count(1.0) >= 32


def test_a_slower_value_is_never_kept():
    """A clear loss is no gain."""
    assert sweep(Knob("cap", (1.0, 9.0), 1.0), lambda value, _init: [value] * 2, inits=3).kept == 1.0


def test_values_are_interleaved():
    """Initialisation i of every value comes before initialisation i + 1 of any."""
    seen: list[tuple[int, float]] = []

    def measure(value, init):
        seen.append((init, value))
        return [1.0]

    sweep(Knob("cap", (1.0, 2.0), 1.0), measure, inits=3)

    assert seen == [(init, value) for init in range(3) for value in (1.0, 2.0)]


def test_one_initialisation_proves_nothing():
    """A sweep of one initialisation is refused."""
    with pytest.raises(InputError, match="two initialisations"):
        sweep(Knob("cap", (1.0, 2.0), 1.0), lambda _value, _init: [1.0], inits=1)


@pytest.mark.parametrize(
    ("text", "values", "default"), [("a=1,2", (1.0, 2.0), 1.0), ("a=4,2,4", (4.0, 2.0), 4.0)]
)
def test_knobs_are_read_from_words(text, values, default):
    """The first value is the default; repeats are dropped."""
    knob = Knob.parse(text)

    assert (knob.values, knob.default) == (values, default)


@pytest.mark.parametrize("text", ["", "a", "a=", "=1", "a=x", "a=1;2"])
def test_broken_knobs_are_refused(text):
    """The error shows how to write one."""
    with pytest.raises(InputError, match="write it like"):
        Knob.parse(text)
