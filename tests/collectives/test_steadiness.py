"""What is said about times that cannot be trusted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectives.steadiness import doubts


def said(*inits):
    return [what for what, _ in doubts(inits)]


def test_quiet_times_raise_no_doubt():
    """A few percent are nothing; nor is another path in another initialisation."""
    assert said((1.0, 1.02, 0.99), (1.01, 1.0, 1.03), (0.98, 1.0, 1.0)) == []
    assert said((1.0, 1.01, 1.0), (2.0, 2.01, 2.02), (1.0, 1.01, 1.0)) == []


def test_a_repeat_far_off_is_an_outlier():
    """Ten deviations from its initialisation's median; the hint says what to do."""
    ((what, fix),) = doubts([(1.0, 1.0, 1.0), (1.0, 1.01, 3.0), (1.0, 1.0, 0.99)])
    assert what.startswith("1 of 9 times are outliers")
    assert "--inits" in fix


def test_a_slow_beginning_is_told():
    """Where the first initialisation took half as long again."""
    assert said((2.0, 2.0), (1.0, 1.0), (1.01, 1.0))[0].startswith("the first initialisation took 2.0 times")


def test_a_drift_is_told_with_its_size():
    """Times that grow from one initialisation to the next."""
    inits = [(1.0 + 0.05 * place,) * 2 for place in range(8)]
    assert said(*inits) == ["times drift by +29% from the first to the last initialisations"]
    assert said(*[(1.0 + 0.05 * place,) * 2 for place in (0, 3, 1, 2, 0, 3, 1, 2)]) == []


@given(st.lists(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=4), min_size=1, max_size=8))
def test_any_times_can_be_judged(inits):
    """Every doubt has a sentence and a hint of one line."""
    for what, fix in doubts(inits):
        assert what
        assert fix
        assert "\n" not in what + fix
