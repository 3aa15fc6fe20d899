"""Imports point down the floors only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("nettune", "collectives", "topology", "sweeps", "reports")

# The longest matching name decides. Units of one floor do not know each other; floor 0 is one unit of words.
FLOORS = {
    "nettune": 0,  # nettune/__init__.py itself
    "nettune._guard": 0,
    "nettune.checks": 0,
    "nettune.elements": 0,
    "nettune.errors": 0,
    "nettune.hosts": 0,
    "nettune.launch": 0,
    "nettune.records": 0,
    "nettune.schemas": 0,
    "nettune.stats": 0,
    "nettune.tables": 0,
    "nettune.units": 0,
    "nettune.wording": 0,
    "topology": 1,
    "collectives": 2,
    "nettune.lab": 3,
    "nettune.qualify": 3,
    "nettune.trainer": 3,
    "sweeps": 3,
    "reports": 4,
    "nettune.workflows": 5,
    "nettune.cli": 6,
    "nettune.__main__": 6,
}

# Work for rank agents is named by text, "package.module:function": an import like any other.
BY_NAME = re.compile(r"^((?:" + "|".join(PACKAGES) + r")(?:\.\w+)*):\w+$")


def modules(root: Path) -> dict[str, Path]:
    """Map the dotted name of every module in the five packages under `root` to its file."""
    found = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(name: str, file: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of everything of ours that a file imports, wherever in the file that happens."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in PACKAGES:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            if base.split(".")[0] in PACKAGES:
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield node.lineno, inner if inner in known else base
        elif isinstance(node, ast.Constant) and (match := BY_NAME.match(str(node.value))):
            yield node.lineno, match[1]


def unit(name: str) -> str | None:
    """Return the entry of FLOORS that a module belongs to, None if it has no place in the house."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        candidate = ".".join(parts[:length])
        if candidate in FLOORS:
            # `nettune` is the entry of nettune/__init__.py, not of everything that nobody thought of
            return None if candidate == "nettune" and length < len(parts) else candidate
    return None


def offences(root: Path) -> list[str]:
    """List every module without a floor and every import that points up or sideways."""
    known = modules(root)
    found = []
    for name, file in known.items():
        own = unit(name)
        if own is None:
            found.append(f"{name} belongs to no floor")
            continue
        for line, target in imports(name, file, known):
            other = unit(target)
            where = f"{file.relative_to(root)}:{line}"
            if other is None:
                found.append(f"{where} imports {target}, which belongs to no floor")
            elif FLOORS[other] > FLOORS[own]:
                found.append(f"{where} on floor {FLOORS[own]} imports {target} of floor {FLOORS[other]}")
            elif FLOORS[other] == FLOORS[own] != 0 and other != own and FLOORS[own] < 6:
                found.append(f"{where} imports {target} of the same floor {FLOORS[own]}")
    return found


def test_imports_point_down(checkout):
    """No module of the five packages imports a higher floor or a neighbour on its own."""
    assert offences(checkout) == []


def test_floors_has_no_dead_entry(checkout):
    """Every unit in FLOORS exists, so that a renamed folder cannot escape the rule."""
    known = modules(checkout)

    assert [name for name in FLOORS if name not in known] == []


SYNTHETIC = {
    "top level": ("topology/a.py", "import reports.html\n", "floor 1 imports reports.html of floor 4"),
    "inside a function": (
        "nettune/lab/a.py", "def f():\n    from nettune.cli import main\n", "a.py:2 on floor 3 imports nettune.cli"
    ),
    "sideways": ("nettune/lab/a.py", "import sweeps\n", "imports sweeps of the same floor 3"),
    "from the root": ("sweeps/a.py", "from nettune import qualify\n", "imports nettune.qualify of the same floor"),
    "type checking": (
        "collectives/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nettune.trainer import b\n",
        "a.py:3 on floor 2 imports nettune.trainer of floor 3",
    ),
    "relative": ("nettune/launch/a.py", "from ..workflows import demo\n", "imports nettune.workflows of floor 5"),
    "relative from a package": ("nettune/launch/__init__.py", "from .. import cli\n", "imports nettune.cli of floor"),
    "by name": ("collectives/a.py", "work = 'sweeps.trial:run'\n", "imports sweeps.trial of floor 3"),
    "homeless": ("nettune/helpers.py", "", "nettune.helpers belongs to no floor"),
    "import of the homeless": ("topology/a.py", "import nettune.helpers\n", "which belongs to no floor"),
}  # fmt: skip


@pytest.mark.parametrize("case", SYNTHETIC)
def test_checker_finds_each_kind_of_offence(tmp_path, case):
    """The checker itself fails on one synthetic offence of each kind, and on nothing else."""
    place, text, expected = SYNTHETIC[case]
    for name in FLOORS:
        if name != "nettune.__main__":
            folder = tmp_path.joinpath(*name.split("."))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").write_text("from nettune.errors import NettuneError\n")
    assert offences(tmp_path) == []

    (tmp_path / place).write_text(text)

    found = offences(tmp_path)
    assert len(found) == 1, found
    assert expected in found[0]


def test_checker_allows_what_is_allowed(tmp_path):
    """Down, within a unit, and among the words of floor 0 is fine; foreign libraries are none of our business."""
    allowed = {
        "nettune/records.py": "from nettune.errors import NettuneError\nimport numpy\n",
        "nettune/errors.py": "",
        "reports/a.py": "import reports.b\nfrom topology import fabric\nwork = 'json:dumps'\n",
        "reports/b.py": "",
        "topology/fabric.py": "from nettune.records import write_atomic\n",
        "nettune/cli/main.py": "import nettune.workflows.demo, nettune.lab, sweeps, reports.a\n",
        "nettune/__main__.py": "from nettune.cli.main import main\n",
    }
    for place, text in allowed.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)

    assert offences(tmp_path) == []
