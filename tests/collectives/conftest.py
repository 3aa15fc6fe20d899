"""Rank agents on this machine, and labs with ranks on them, for the tests of collectives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collectives.communicator import PRELOAD
from nettune.launch.agents import Agents
from nettune.launch.local import LocalLauncher

HOSTS = ["h0", "h1", "h2", "h3"]


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    """Four agents on this machine that all tests share; tests that kill ranks make their own."""
    pytest.importorskip("torch")
    with Agents(LocalLauncher(HOSTS), HOSTS, preload=PRELOAD) as running:
        yield running


@pytest.fixture
def mortal_agents() -> Iterator[Agents]:
    """Four agents of one test's own."""
    pytest.importorskip("torch")
    with Agents(LocalLauncher(HOSTS), HOSTS, preload=PRELOAD) as running:
        yield running
