"""`nettune` as a process of its own, a small lab that all these tests share, and one run of each verb on it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nettune.cli.main import run as run_words
from nettune.lab import Lab, LabSpec

JOB = """\
name = "tiny"
pp = 2
dp = {dp}
order = "tp-pp-dp"
dp_bytes = "1M"
pp_bytes = "64K"
"""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    words: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """All of stdout as one JSON object."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


Nettune = Callable[..., Done]


def run_nettune(
    *words: str,
    cwd: Path,
    timeout_s: float = 120,
    wrap: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run a command line; `wrap` is put before it, `env` is added to the environment."""
    done = subprocess.run(
        [*wrap, sys.executable, "-m", "nettune", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "80", **(env or {})},
    )
    return Done(words, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def private_mounts() -> list[str]:
    """Command prefix of a process whose mounts nobody else sees."""
    return (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """Working directory of the shared commands, with `runs/` in it."""
    folder: Path = tmp_path_factory.mktemp("cli")
    for dp in (1, 2, 8):
        (folder / f"job{2 * dp}.toml").write_text(JOB.format(dp=dp), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def nettune(home) -> Nettune:
    """Run a command line in `home`."""

    def run(*words: str, **options: Any) -> Done:
        return run_nettune(*words, **{"cwd": home, **options})

    return run


@pytest.fixture
def inside(home, monkeypatch) -> Nettune:
    """Run a command line in this process, in `home`: for what needs no process of its own, and much faster."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_words(words)
        return Done(words, code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def small() -> Iterator[str]:
    """2 leaves x 2 hosts, 2 spines; names sort as strings into another order than the cabling's."""
    spec = LabSpec(
        name="cli", leaves=2, spines=2, hosts_per_leaf=2, host_rate="200mbit", uplink_rate="200mbit",
        host_names=("node1", "node10", "node2", "node20"),
    )  # fmt: skip
    with Lab.up(spec) as lab:
        yield lab.name


@pytest.fixture(scope="session")
def pair() -> Iterator[str]:
    """2 leaves x 1 host: as many ranks as the smallest machine has cores."""
    spec = LabSpec(
        name="pair", leaves=2, spines=2, hosts_per_leaf=1, host_rate="200mbit", uplink_rate="200mbit"
    )
    with Lab.up(spec) as lab:
        yield lab.name


@pytest.fixture(scope="session")
def ran(nettune, small, pair, home) -> Callable[[str], Done]:
    """What a verb printed with `--output json`; each is run once, when first asked for."""
    words = {
        "discover": ("discover", "--lab", small, "-o", "fabric.json"),
        "qualify": ("qualify", "--lab", small),
        "place": ("place", "job4.toml", "--lab", small, "--exclude", ""),
        "place-file": ("place", "job2.toml", "--fabric", "fabric.json", "--exclude", "node[1-2]"),
        "bench": ("bench", "--lab", small, "--size", "64K", "-b", "16K", "-e", "64K", "--inits", "2", "--repeats", "1"),
        "train": ("train", "--lab", pair, "--inits", "2", "--steps", "1"),
        "sweep": ("sweep", "bucket_cap_mib=25,1", "--lab", pair, "--inits", "2"),
    }  # fmt: skip
    kept: dict[str, Done] = {}

    def once(name: str) -> Done:
        if name == "place-file":
            once("discover")
        if name not in kept:
            kept[name] = nettune(*words[name], "--output", "json")
        return kept[name]

    return once
