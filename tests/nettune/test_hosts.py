"""Hostlists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.hosts import expand_hosts, fold_hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("g[001-003],login1", ["g001", "g002", "g003", "login1"]),
        ("b2,b1,b2", ["b2", "b1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a b\nc", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_hostlists_expand_in_order(text, names):
    """Padding is kept, the written order too, repeats are dropped."""
    assert expand_hosts(text) == names


@pytest.mark.parametrize("text", ["n[1-2-3-4-5]", "n[1-2-30000]", "g[3-1]", "g[1-", "g[a-b]"])
def test_broken_hostlists_are_refused(text):
    """A range that cannot be read is an InputError."""
    with pytest.raises(InputError):
        expand_hosts(text)


@pytest.mark.parametrize("text", ["h[0-99999999]", "a[1-1000]b[1-1000]", "x," * 3 + "h[0-200000]"])
def test_a_range_that_is_too_long_is_refused_at_once(text):
    """Nothing is expanded before the bound is checked."""
    with pytest.raises(InputError, match="more than 200,000 hosts"):
        expand_hosts(text)


@given(st.sets(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}", fullmatch=True), max_size=20))
def test_folding_loses_no_name(names):
    """expand(fold(names)) is the same set."""
    assert set(expand_hosts(fold_hosts(names))) == names
