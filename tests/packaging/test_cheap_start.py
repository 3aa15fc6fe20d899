"""The command line starts without the heavy libraries."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("torch", "numpy", "scipy", "matplotlib", "optuna", "mpi4py")

PROGRAM = """
import json, sys
sys.argv = ["nettune", *sys.argv[2:]]
try:
    from nettune.cli import main
    main()
except SystemExit as end:
    code = end.code
else:
    code = 0
sys.stderr.write(json.dumps({"code": code, "loaded": sorted({name.split(".")[0] for name in sys.modules})}))
"""


def loaded_by(*words: str) -> set[str]:
    """Run the command line in a process of its own and return the top-level modules that it loaded."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "-", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stderr.splitlines()[-1])
    assert report["code"] in {0, None}, result.stderr
    return set(report["loaded"])


def test_help_loads_nothing_heavy():
    """`nettune --help` imports no torch, numpy, scipy or matplotlib: this keeps it under 0.3 s."""
    assert loaded_by("--help") & set(HEAVY) == set()


def test_help_of_the_longest_verb_loads_nothing_heavy():
    """`nettune demo --help` parses only: what computes is imported when it is called."""
    assert loaded_by("demo", "--help") & set(HEAVY) == set()


def test_importing_nettune_loads_nothing_but_itself():
    """The package and its guard need the standard library only."""
    program = "import sys, nettune; print(*{name.split('.')[0] for name in sys.modules})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()) & {*HEAVY, "rich", "typer", "pydantic", "ClusterShell"} == set()
