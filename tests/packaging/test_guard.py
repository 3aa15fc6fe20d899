"""The guard against foreign packages named like ours, in real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import nettune
from nettune import _guard

HOME = Path(nettune.__file__).resolve().parent.parent
NAMES = ["topology", "collectives", "sweeps", "reports"]


def python(
    *words: str, path: Path | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter, away from any checkout, with `path` in front of sys.path and nettune importable."""
    parts = [str(part) for part in (path, HOME) if part]
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(parts), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=cwd or "/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def foreign(folder: Path, name: str, *, kind: str) -> Path:
    """Make a foreign package, module or plain folder that must never run."""
    if kind == "module":
        place = folder / f"{name}.py"
        place.write_text("raise SystemExit('the foreign code ran')\n")
        return place
    place = folder / name
    place.mkdir()
    (place / "anything.py").write_text("raise SystemExit('the foreign code ran')\n")
    if kind == "package":
        (place / "__init__.py").write_text("raise SystemExit('the foreign code ran')\n")
    return place


def test_guard_lists_all_siblings(checkout):
    """Every package that is installed beside nettune is guarded."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert sorted(["nettune", *_guard.SIBLINGS]) == sorted(packages)
    assert sorted(_guard.SIBLINGS) == sorted(NAMES)


@pytest.mark.parametrize("kind", ["package", "module"])
@pytest.mark.parametrize("name", NAMES)
def test_foreign_code_earlier_on_the_path_is_refused(tmp_path, name, kind):
    """A package or module of that name in front of ours is an error with its path, and its code never runs."""
    place = foreign(tmp_path, name, kind=kind)

    result = python("-c", "import nettune", path=tmp_path)

    assert result.returncode == 1
    assert "the foreign code ran" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"nettune.errors.NettuneError: `import {name}` gives {place}, ")
    assert "environment of its own" in last
    assert "torchrun --no-python" in last


@pytest.mark.parametrize("name", NAMES)
def test_plain_folder_does_no_harm(tmp_path, name):
    """A folder without __init__.py, such as a user's reports/, loses against our package and is no error."""
    foreign(tmp_path, name, kind="folder")

    result = python("-c", f"import nettune, {name}; print({name}.__file__)", path=tmp_path)

    assert result.stderr == ""
    assert Path(result.stdout.strip()) == HOME / name / "__init__.py"


@pytest.mark.parametrize("name", NAMES)
def test_missing_sibling_is_told_from_a_foreign_one(tmp_path, name):
    """Where one of our packages is absent, a namespace folder of that name is not taken for it."""
    (tmp_path / "site").mkdir()
    for part in ("nettune", *NAMES):
        if part != name:
            (tmp_path / "site" / part).symlink_to(HOME / part)
    other = tmp_path / "elsewhere"
    other.mkdir()
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; from nettune import _guard; _guard.check(sys.argv[-1])"
    )
    # -S: without site-packages there is no second nettune to fall back to
    words = ("-S", "-c", program, str(other), str(tmp_path / "site"))
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    absent = subprocess.run(
        [sys.executable, *words], env=bare, cwd=other, capture_output=True, text=True, check=False
    )
    foreign(other, name, kind="folder")
    hidden = subprocess.run(
        [sys.executable, *words], env=bare, cwd=other, capture_output=True, text=True, check=False
    )

    assert f"nettune's own package `{name}` is missing from" in absent.stderr.splitlines()[-1]
    assert f"`import {name}` gives {other / name}" in hidden.stderr.splitlines()[-1]


def test_foreign_package_that_is_loaded_already_is_refused(tmp_path):
    """A program that imported its own `reports` before nettune gets the error, wherever sys.path points now."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import reports; del sys.path[0]; import nettune"
    )

    result = python("-c", program)

    assert f"`import reports` gives {tmp_path / 'reports'}, " in result.stderr.splitlines()[-1]


def test_foreign_module_without_a_file_is_refused():
    """A module put into sys.modules by hand, such as a stub of a test, is not ours."""
    program = "import sys, types; sys.modules['topology'] = types.ModuleType('topology'); import nettune"

    result = python("-c", program)

    assert "`import topology` gives a module without a file" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("first", NAMES)
def test_our_own_packages_pass_in_any_order(first):
    """Importing a sibling first, then nettune, is no error."""
    result = python("-c", f"import {first}, nettune; nettune._guard.check()")

    assert (result.returncode, result.stderr) == (0, "")


def test_symlinked_install_passes(tmp_path):
    """An editable or site-packages folder that is reached by a symbolic link is still ours."""
    (tmp_path / "link").symlink_to(HOME)

    result = python("-c", "import nettune; print(nettune.__file__)", path=tmp_path / "link")

    assert result.stderr == ""
    assert str(tmp_path / "link") in result.stdout


def test_module_run_from_a_folder_with_reports_exits_2_with_one_line(tmp_path):
    """`python -m nettune` in a folder that has its own reports package says so in one line, exit 2."""
    place = foreign(tmp_path, "reports", kind="package")

    result = python("-m", "nettune", "--help", cwd=tmp_path)

    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"error: `import reports` gives {place}, ")


def test_console_script_exits_2_with_one_line(tmp_path):
    """The installed command keeps its promise of one line and exit 2 although its import fails."""
    foreign(tmp_path, "sweeps", kind="package")
    script = tmp_path / "nettune"
    script.write_text("import sys\nfrom nettune.cli import main\nsys.exit(main())\n")  # what pip writes

    result = python(str(script), "--help", path=tmp_path)

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: `import sweeps` gives ")
