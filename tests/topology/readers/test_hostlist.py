"""Hostlists of schedulers' files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.readers import Source
from topology.readers.hostlist import MAX_MENTIONS, Hostlists


def expand(text: str, *, in_order: bool = False) -> list[str]:
    return Hostlists(Source("f", text)).expand(text, 7, in_order=in_order)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n2,n1,n2", "n2 n1"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[001-003,7]-ib", "n001-ib n002-ib n003-ib n7-ib"),
        ("[1101-1102]", "1101 1102"),
        ("a[1-2]b[3-4].x,c", "a1b3.x a1b4.x a2b3.x a2b4.x c"),
    ],
)
def test_expansion(text: str, names: str) -> None:
    """Padding is kept, several brackets multiply, commas outside brackets separate."""
    assert sorted(expand(text)) == sorted(names.split())
    assert expand(text, in_order=True) == names.split()


def test_order_inside_brackets() -> None:
    """Positions on a ring follow the order that was written, as in Slurm."""
    assert expand("n[3,1-2]x[5,4]", in_order=True) == ["n3x5", "n3x4", "n1x5", "n2x5", "n1x4", "n2x4"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("switch{leaf1}", "function switch"),
        ("n1,blockwith{n1}", "function blockwith"),
        ("feature{gpu}", "function feature"),
        ("n[1-3", "not closed"),
        ("n1-3]", "no hostlist"),
        ("n[[1-2]]", "no hostlist"),
        ("n[]", "no hostlist"),
        ("n[a-c]", "no hostlist"),
        ("n[5-3]", "no hostlist"),
        ("n[1-2-3]", "no hostlist"),
        ("n[1--3]", "no hostlist"),
        ("n[1,,3]", "no hostlist"),
        ("n[-3]", "no hostlist"),
        ("@all", "no hostlist"),
        ("n*", "no hostlist"),
        ("n[1-9]!n3", "no hostlist"),
        ("n[1-9/2]", "no hostlist"),
        ("n[1-999999999]", "more than"),
        ("n[1-9999999999999999999999999]", "more than"),
        ("[1-9]" * 200, "more than"),
        (",".join(f"n{index}" for index in range(MAX_MENTIONS + 1)), "more than"),
        ("a" * 500_000 + "!", "no hostlist"),
        ("[" * 500_000, "not closed"),
    ],
)
@pytest.mark.parametrize("in_order", [False, True])
def test_refused(text: str, words: str, in_order: bool) -> None:
    """Functions, ClusterShell's own syntax, cut and endless lists are errors with the line."""
    with pytest.raises(InputError, match=words) as caught:
        expand(text, in_order=in_order)
    assert caught.value.line == 7
    assert len(str(caught.value)) < 300


def test_a_number_many_times_over() -> None:
    """What would be done range by range is refused when there are too many."""
    with pytest.raises(InputError, match="more than"):
        expand("n[" + "1," * (MAX_MENTIONS + 1) + "1]", in_order=True)


def test_limit_of_a_file() -> None:
    """The limit counts all lists of a file together."""
    lists = Hostlists(Source("f", ""))
    lists.expand(f"n[1-{MAX_MENTIONS - 1}]")
    with pytest.raises(InputError, match="lists of this file"):
        lists.expand("a[1-2]")


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from(["", "-ib", ".x"]),
)
def test_both_orders_name_the_same_hosts(ranges: list[tuple[int, int]], padded: bool, suffix: str) -> None:
    """Own splitting by ranges and ClusterShell agree on the names."""
    digits = 3 if padded else 0
    inside = ",".join(f"{start:0{digits}d}-{start + more:0{digits}d}" for start, more in ranges)
    text = f"n[{inside}]{suffix}"
    expected = {
        f"n{number:0{digits}d}{suffix}" for start, more in ranges for number in range(start, start + more + 1)
    }
    assert set(expand(text)) == set(expand(text, in_order=True)) == expected
