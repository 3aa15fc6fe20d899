"""Offline verdicts: time a host, and growth with the number of hosts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from nettune.qualify.checks import judge

_MADE = importlib.util.spec_from_file_location(
    "made_captures", Path(__file__).parent.parent / "qualify" / "checks" / "conftest.py"
)


def captures(count):
    """Make sound captures of 4 GPUs and 4 NICs, about 330 sources each."""
    assert _MADE is not None
    assert _MADE.loader is not None
    made = importlib.util.module_from_spec(_MADE)
    _MADE.loader.exec_module(made)
    return [made.make(f"h{n}", made.sound_files(n), made.sound_commands(n)) for n in range(count)]


@pytest.mark.parametrize("hosts", [64, 512])
def test_judging(benchmark, hosts):
    """Verdicts of all checks on a fleet without findings."""
    fleet = captures(hosts)
    findings = benchmark.pedantic(judge, (fleet,), rounds=2)

    assert len(findings) > 30 * hosts
