"""How long a user waits before anything happens."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nettune import _guard


def test_guard(benchmark):
    """The check that every import of nettune pays for: below 5 ms."""
    benchmark(_guard.check)


@pytest.mark.parametrize(
    "words", [("-c", "import nettune"), ("-m", "nettune", "--help")], ids=["import", "help"]
)
def test_process(benchmark, words):
    """A fresh interpreter that imports nettune, and one that prints the help: the latter below 0.3 s."""
    benchmark.pedantic(
        subprocess.run, ([sys.executable, *words],), {"check": True, "capture_output": True}, rounds=10
    )
