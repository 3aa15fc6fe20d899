"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

PACKAGES = ("nettune", "collectives", "topology", "sweeps", "reports")
MAX_LINES = 400
SKIPPED_FOLDERS = {"__pycache__", "dist", "runs"}

# Put together here so that this file does not match itself.
MACHINE_PATHS = re.compile(
    "|".join(["/" + "work/", "/" + "root/", "/" + r"home/\w", "/opt/" + "pypi", "/tmp/" + "nt"])
)
REGISTRIES = re.compile(
    r"pypi\." + r"org|python" + r"hosted|npm" + r"js\.|deb\.deb" + r"ian|index" + r"\.docker"
)


def files(checkout: Path) -> list[Path]:
    """List the files that belong to the repository: what git tracks or would add, or all where git is absent."""
    listing = subprocess.run(
        ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode == 0 and listing.stdout:
        found = [checkout / name for name in listing.stdout.split("\0") if name]
    else:
        found = [
            path
            for path in checkout.rglob("*")
            if not any(
                part in SKIPPED_FOLDERS or part.startswith(".") for part in path.relative_to(checkout).parts
            )
        ]
    return [path for path in found if path.is_file()]


def test_every_ruff_ignore_has_its_reason(checkout):
    """An ignored rule without a comment cannot be judged by the next reader."""
    lines = (checkout / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    section = ""
    entries = []
    for line in lines:
        if line.startswith("["):
            section = line
        elif section.startswith("[tool.ruff.lint") and re.match(r'\s+"[A-Z]+[0-9]*",', line):
            entries.append(line.strip())

    assert len(entries) > 30
    assert [entry for entry in entries if not re.search(r'",\s+# \S.{15,}', entry)] == []


def test_every_noqa_has_its_reason(checkout):
    """A rule that is silenced in one line names the rule and says why."""
    bare = [
        f"{path.relative_to(checkout)}:{number}"
        for path in files(checkout)
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"#\s*no[q]a", line)
        and not re.search(r"# no[q]a: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*\W+\w", line)
    ]

    assert bare == []


def test_modules_stay_small(checkout):
    """One idea a module: none grows beyond what one reads in one go."""
    long = {
        str(path.relative_to(checkout)): count
        for package in PACKAGES
        for path in sorted((checkout / package).rglob("*.py"))
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }

    assert long == {}


@pytest.mark.parametrize("pattern", [MACHINE_PATHS, REGISTRIES], ids=["machine paths", "registry hosts"])
def test_no_file_names_one_machine(checkout, pattern):
    """Nothing in the repository works only where it was written."""
    found = []
    for path in files(checkout):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # a picture
            continue
        found += [
            f"{path.relative_to(checkout)}:{n}" for n, line in enumerate(lines, 1) if pattern.search(line)
        ]

    assert found == []


def test_patterns_match_what_they_are_for():
    """The patterns above do find such text."""
    assert MACHINE_PATHS.search("see /" + "root/.cache")
    assert MACHINE_PATHS.search("/" + "home/me/x")
    assert REGISTRIES.search("https://pypi." + "org/simple")
    assert not MACHINE_PATHS.search("host/h0/nic/eth0 and homework")


def test_every_test_says_what_it_asserts(checkout):
    """Each test function has a docstring that states the behaviour."""
    silent = [
        f"{path.relative_to(checkout)}:{node.lineno}"
        for path in sorted((checkout / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert silent == []


def test_test_files_have_unique_names(checkout):
    """tests/ is no package: two files of one name would be hard to tell apart in a report."""
    names = Counter(path.name for path in (checkout / "tests").rglob("*.py") if path.name != "conftest.py")

    assert [name for name, count in names.items() if count > 1] == []
    assert list((checkout / "tests").rglob("__init__.py")) == []
