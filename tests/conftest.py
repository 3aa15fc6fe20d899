"""Fixtures and rules for every test: shared material, lab availability, no process left behind."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CHECKOUT = Path(__file__).resolve().parent.parent
TOKEN_NAME = "NETTUNE_TEST_SESSION"

# Deterministic and short by default; HYPOTHESIS_PROFILE=thorough searches.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=40,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    """Mark this run in the environment, which every process that a test starts inherits."""
    os.environ[TOKEN_NAME] = uuid.uuid4().hex


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a lab where this machine cannot have one, with the machine's reason."""
    wanting = [item for item in items if item.get_closest_marker("lab")]
    if not wanting:
        return
    from nettune.lab import lab_available

    available, reason = lab_available()
    if not available:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=f"no lab here: {reason}"))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root folder of the checkout that the tests belong to."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of recorded samples and oracles: beside the checkout, or NETTUNE_SHARED."""
    folder = Path(os.environ.get("NETTUNE_SHARED", CHECKOUT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"recorded samples are not at {folder} (NETTUNE_SHARED names another place)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """Fail the run if a process that a test started, such as an agent or a lab's holder, outlives it."""
    yield
    token = f"{TOKEN_NAME}={os.environ[TOKEN_NAME]}".encode()
    deadline = time.monotonic() + 5
    while left := processes_with(token):
        if time.monotonic() > deadline:
            pytest.fail("processes left behind by tests: " + "; ".join(f"{pid} {line}" for pid, line in left))
        time.sleep(0.1)


def processes_with(token: bytes) -> list[tuple[int, str]]:
    """List (pid, command line) of other live processes whose environment has `token`."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if token in (folder / "environ").read_bytes().split(b"\0"):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append((int(folder.name), line))
        except OSError:  # it ended meanwhile, or is not ours
            continue
    return found
