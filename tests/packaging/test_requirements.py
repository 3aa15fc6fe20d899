"""pyproject, constraints and the Makefile agree on what is installed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Not pinned here: torch pins its CUDA parts itself; rdma is compiled against what the system has.
PINNED_BY_TORCH = ("nvidia-", "cuda-", "triton")
NOT_FROM_WHEELS = {"pyverbs"}


@pytest.fixture(scope="module")
def pins(checkout: Path) -> dict[str, str]:
    """Map each pinned project to its version."""
    lines = (checkout / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.fixture(scope="module")
def requirements(checkout: Path) -> list[Requirement]:
    """Return everything that pyproject asks for: runtime, extras, development tools, build."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    return [found for found in map(Requirement, lines) if found.name != "nettune"]


def test_every_requirement_is_pinned_within_its_bounds(requirements, pins):
    """constraints.txt has a version for each requirement, and that version satisfies its lower bound."""
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        if name not in NOT_FROM_WHEELS:
            assert name in pins, f"{name} is not pinned"
            assert requirement.specifier.contains(pins[name]), f"{requirement} excludes {pins[name]}"


def test_every_requirement_has_a_lower_bound(requirements):
    """A requirement without `>=` would accept releases that never worked."""
    assert [str(found) for found in requirements if ">=" not in str(found.specifier)] == []


def test_what_is_installed_is_pinned(requirements, pins):
    """Everything that the requirements drag in here, however deep, has a pin, so that CI repeats itself."""
    waiting = [found.name for found in requirements]
    seen: set[str] = set()
    missing = []
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen or name.startswith(PINNED_BY_TORCH) or name in NOT_FROM_WHEELS:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed here, or a dependency of another system
        if name not in pins:
            missing.append(f"{name}=={distribution.version}")
        for line in distribution.requires or []:
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)

    assert missing == []


def test_pins_name_versions_only(checkout):
    """No hash, address or local build tag ties the pins to one machine."""
    for line in (checkout / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or not set(line) & set("+@:/; "), line


def test_make_refuses_an_old_python_in_one_line(checkout, tmp_path):
    """With an interpreter before 3.11, make says which one and what to do, and leaves no environment."""
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((checkout / name).read_bytes())

    result = subprocess.run(
        ["make", "--no-print-directory", "demo", f"PYTHON={old}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert result.returncode == 2
    assert f"error: {old} is not Python 3.11 or newer" in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_make_help_names_every_target_for_people(checkout):
    """`make help` lists what a person may call."""
    result = subprocess.run(["make", "-C", str(checkout), "help"], capture_output=True, text=True, check=True)

    listed = {line.split()[0] for line in result.stdout.splitlines() if line and not line.startswith("make")}
    assert {"demo", "test", "lint", "fix", "bench", "fuzz", "campaign", "wheel", "clean", "help"} == listed
