"""Offline verdicts and collection: time a host, and growth with the number of hosts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from nettune.launch import LocalLauncher
from nettune.qualify.bundle import judge_bundle, read
from nettune.qualify.checks import judge
from nettune.qualify.collecting import Part, asking, collect

_MADE = importlib.util.spec_from_file_location(
    "made_captures", Path(__file__).parent.parent / "qualify" / "checks" / "conftest.py"
)


def captures(count):
    """Make sound captures of 4 GPUs and 4 NICs, about 330 sources each."""
    assert _MADE is not None
    assert _MADE.loader is not None
    made = importlib.util.module_from_spec(_MADE)
    _MADE.loader.exec_module(made)
    return [made.make(f"h{n}", made.sound_files(n), made.sound_commands(n)) for n in range(count)]


@pytest.mark.parametrize("hosts", [64, 512])
def test_judging(benchmark, hosts):
    """Verdicts of all checks on a fleet without findings."""
    fleet = captures(hosts)
    findings = benchmark.pedantic(judge, (fleet,), rounds=2)

    assert len(findings) > 30 * hosts


@pytest.mark.parametrize("hosts", [64, 512])
def test_bundle(benchmark, tmp_path, hosts):
    """Reading a bundle and judging it."""
    fleet = captures(hosts)
    with Part(tmp_path / "b.tar", [one.host for one in fleet]) as part:
        for one in fleet:
            part.add(one)
        part.finish({})
    findings = benchmark.pedantic(lambda: judge_bundle(read(tmp_path / "b.tar")), rounds=2)

    assert len(findings) > 30 * hosts


class Delayed(LocalLauncher):
    """Hosts that answer after 0.3 s, as a short collection over ssh does; their own work is not ours."""

    def __init__(self, hosts, folder):
        super().__init__(hosts)
        self.capture = folder / "capture.json"

    def argv(self, host, command):
        """What the host prints."""
        return ["sh", "-c", f"cat >/dev/null; sleep 0.3; sed s/@HOST@/{host}/ {self.capture}"]


@pytest.mark.parametrize("hosts", [64, 512])
def test_collecting(benchmark, tmp_path, hosts):
    """Captures of hosts that answer late, 64 at a time: asked for are 512 in 20 s on two cores."""
    (one,) = captures(1)
    (tmp_path / "capture.json").write_text(json.dumps({**one.to_json(), "host": "@HOST@"}) + "\n")
    names = [f"h{n}" for n in range(hosts)]
    ask = asking(Delayed(names, tmp_path))
    told = benchmark.pedantic(lambda: collect(ask, names, tmp_path / "b.tar"), rounds=1)

    assert told.captured == hosts
