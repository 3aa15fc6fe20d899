"""The core is compiled once for each source, and what goes wrong is said in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from collectives.fabric_sim import build
from nettune.errors import UnavailableError

TINY = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A core of one function, and a cache of its own."""
    source = tmp_path / "core"
    source.mkdir()
    (source / build.MAIN).write_text(TINY)
    monkeypatch.setattr(build, "SOURCES", source)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return source


def test_it_is_compiled_once_and_again_for_another_source(tiny):
    """The same file comes back untouched; another source has a file of its own."""
    first = build.shared_object()
    stamp = first.stat().st_mtime_ns
    assert build.shared_object() == first
    assert first.stat().st_mtime_ns == stamp
    (tiny / build.MAIN).write_text(TINY.replace("42", "43"))
    assert build.shared_object() != first
    assert first.exists()


def test_many_processes_at_once_get_one_whole_file(tiny):
    """All see a library that loads; no temporary file stays."""
    program = (
        "import ctypes, sys; from pathlib import Path; from collectives.fabric_sim import build;"
        "build.SOURCES = Path(sys.argv[1]); print(ctypes.CDLL(str(build.shared_object())).answer())"
    )
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(
                lambda _: subprocess.run(
                    [sys.executable, "-c", program, str(tiny)], capture_output=True, text=True, check=False
                ),
                range(4),
            )
        )
    assert [one.stderr for one in done if one.returncode] == []
    assert [one.stdout for one in done] == ["42\n"] * 4
    assert len(list((Path(os.environ["XDG_CACHE_HOME"]) / "nettune" / "fabric_sim").iterdir())) == 1


def test_without_a_compiler(tiny, monkeypatch):
    """One line says what to install; a library that is there is used all the same."""
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UnavailableError, match=r"needs a C\+\+ compiler once: install one"):
        build.shared_object()
    monkeypatch.setenv("PATH", path)
    built = build.shared_object()
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.shared_object() == built


def test_a_compiler_that_fails(tiny):
    """Its first error is in the line."""
    (tiny / build.MAIN).write_text("this is no program\n")
    with pytest.raises(UnavailableError, match=r"cannot compile the simulator's core: .*error"):
        build.shared_object()


def test_a_compiler_that_fails_without_a_word(tiny, monkeypatch, tmp_path):
    """Its exit code is in the line."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    monkeypatch.setenv("CXX", str(silent))
    with pytest.raises(UnavailableError, match="core: exit code 3;"):
        build.shared_object()


def test_a_cache_that_cannot_be_written(tiny, monkeypatch, tmp_path):
    """One line with the folder and the way out."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UnavailableError, match="set XDG_CACHE_HOME"):
        build.shared_object()


def test_another_compilation_computes_the_same_bits(tmp_path):
    """Without optimisation, as another compiler or machine would: times, marks and pauses are the same."""
    program = """
import sys
from collectives.congestion.presets import barre, ecn_curve
from collectives.fabric_sim import build, flows, network, simulate
build.FLAGS = tuple(sys.argv[1] if flag == "-O3" else flag for flag in build.FLAGS)
cables = [network.Cable(host, 5, 100, 1000) for host in range(5)]
settings = network.SwitchSettings(buffer_bytes=600_000, ecn=lambda rate: ecn_curve("paper", rate))
net = network.Network(list("abcdes"), 5, cables, settings)
paths = flows.ShortestPaths(net)
what = [flows.Flow(i, 4, 300_000, (paths.drawn(i, 4, 0),), paths.drawn(4, i, 0)) for i in range(4)]
result = simulate.simulate(net, what, [barre(100)])
print(result.finish_ps, result.total)
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", program, level],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)} if level != "-O3" else None,
        ).stdout
        for level in ("-O3", "-O0")
    ]
    assert told[0] == told[1]
    assert "'marks': 0" not in told[0]
    assert "'pauses': 0" not in told[0]
