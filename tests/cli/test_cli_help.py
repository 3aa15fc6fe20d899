"""The help: what a person reads first."""

from __future__ import annotations

import re

import pytest

VERBS = ["demo", "discover", "qualify", "place", "bench", "train", "sweep", "report", "lab"]


@pytest.mark.parametrize("verb", ["", *VERBS])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_fits_the_terminal_and_has_an_example(inside, verb, flag):
    """Below 80 columns, exit 0, on stdout; it ends with a line to copy."""
    done = inside(*verb.split(), flag)

    assert done.code == 0
    assert done.stderr == ""
    assert max(len(line) for line in done.stdout.splitlines()) < 80
    assert re.search(r"(Examples?: |Start with `)nettune ", done.stdout)


def test_list_of_verbs_is_whole(inside):
    """Every verb is named, and no sentence is cut off."""
    text = inside("--help").stdout

    assert [verb for verb in VERBS if not re.search(rf"^  {verb}  ", text, re.MULTILINE)] == []
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize("words", [(), ("lab",), ("lab", "fault")])
def test_no_verb_shows_the_help(inside, words):
    """Typing the bare name is a question, not a mistake of one line; still nothing was run, so exit 2."""
    done = inside(*words)

    assert done.code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Usage: nettune")
    assert "Commands:" in done.stderr


def test_version(inside):
    """One line."""
    done = inside("--version")

    assert (done.code, done.stderr) == (0, "")
    assert re.fullmatch(r"nettune \d+\.\d+\.\d+\S*\n", done.stdout)
