"""What is built and installed is all of nettune, and nothing but."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import nettune

PACKAGES = ("nettune", "collectives", "topology", "sweeps", "reports")
OTHER_ROOT_FOLDERS = {"tests"}


@pytest.fixture(scope="session")
def pyproject(checkout: Path) -> dict[str, Any]:
    """Return the parsed pyproject.toml."""
    return tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def wheel_names(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build a wheel of the checkout and return the names in it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    result = subprocess.run(build, cwd=checkout, check=False, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files_of_packages(checkout: Path) -> set[str]:
    """List what a developer sees in the five folders, as names in an archive."""
    return {
        file.relative_to(checkout).as_posix()
        for package in PACKAGES
        for file in (checkout / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_every_root_package_is_listed(checkout, pyproject):
    """A root folder that is not in pyproject would vanish from the wheel without a word."""
    folders = {
        path.name
        for path in checkout.iterdir()
        if path.is_dir() and not path.name.startswith(".") and any(path.rglob("*.py"))
    }

    assert folders - OTHER_ROOT_FOLDERS == set(PACKAGES)
    assert set(pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(PACKAGES)
    assert set(pyproject["tool"]["ruff"]["lint"]["isort"]["known-first-party"]) == set(PACKAGES)
    assert set(pyproject["tool"]["mypy"]["files"]) == {*PACKAGES, "tests"}


def test_wheel_holds_exactly_the_packages(checkout, wheel_names):
    """Every file of the five packages is in the wheel, templates and data too, and nothing else is."""
    inside = {name for name in wheel_names if ".dist-info/" not in name}

    assert inside == files_of_packages(checkout)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_typed(wheel_names, package):
    """A py.typed in each package lets a user's type checker see our hints."""
    assert {f"{package}/__init__.py", f"{package}/py.typed"} <= wheel_names


def test_sibling_packages_run_no_code_when_imported(checkout):
    """The four everyday names are empty, so that a merge with a foreign package does least harm."""
    for package in PACKAGES[1:]:
        lines = (checkout / package / "__init__.py").read_text(encoding="utf-8").splitlines()

        assert len(lines) <= 3, package
        assert lines[0].startswith('"""'), package


def test_version_is_the_same_everywhere(checkout, pyproject):
    """pyproject, nettune.__version__ and the changelog agree."""
    version = pyproject["project"]["version"]

    assert nettune.__version__ == version
    assert f"## [{version}]" in (checkout / "CHANGELOG.md").read_text(encoding="utf-8")


def test_all_extra_names_every_extra_that_has_wheels(pyproject):
    """`nettune[all]` is the other extras except rdma, which compiles against system headers."""
    extras = pyproject["project"]["optional-dependencies"]
    (line,) = extras["all"]

    assert set(line.removeprefix("nettune[").removesuffix("]").split(",")) == set(extras) - {"all", "rdma"}


@pytest.mark.skipif("NETTUNE_TEST_WHEEL" not in os.environ, reason="only `make test` runs against the wheel")
def test_what_is_tested_is_the_wheel(checkout):
    """In `make test` no package comes from the checkout, and the command on PATH is the installed one."""
    for package in PACKAGES:
        __import__(package)
        place = Path(sys.modules[package].__file__ or "").resolve()
        assert place.is_relative_to(sys.prefix), place
        assert not place.is_relative_to(checkout / package), place
    script = shutil.which("nettune")
    assert script is not None
    assert Path(script).parent == Path(sys.executable).parent


def test_console_script_runs():
    """The installed command starts and says which nettune it is."""
    script = Path(sys.executable).parent / "nettune"
    if not script.exists():
        pytest.skip("nettune is importable here but not installed")

    result = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 0, result.stderr
    assert "prejob" in result.stdout or "demo" in result.stdout
