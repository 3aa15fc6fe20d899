"""Words that findings, errors and reports share."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from nettune.wording import counted, some


@pytest.mark.parametrize(
    ("names", "words"),
    [([], ""), (["a"], "a"), (list("abcde"), "a, b, c, d, e"), (list("abcdefg"), "a, b, c, d, e and 2 more")],
)
def test_the_first_few_and_how_many_more(names, words):
    """Up to five names are listed, of more the rest is counted."""
    assert some(names) == words


def test_numbers_with_their_word():
    """One is singular, thousands are separated, a plural of its own is taken."""
    assert [counted(1, "switch"), counted(2, "switch"), counted(0, "host")] == [
        "1 switch",
        "2 switches",
        "0 hosts",
    ]
    assert counted(1024, "leaf", "leaves") == "1,024 leaves"


def test_an_error_gives_no_orders_to_the_terminal():
    """Escape codes, marks that turn the direction of writing and halves of surrogate pairs are shown as ?."""
    error = InputError("a\x1b[2Jb\u202ec\ud800", file="x\x07.txt", line=3)
    assert str(error) == "x?.txt:3: a?[2Jb?c?"
