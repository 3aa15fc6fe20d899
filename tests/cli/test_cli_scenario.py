"""`nettune simulate SCENARIO` on the command line: both renderings, settings, and one line for each mistake."""

from __future__ import annotations

import re

import pytest

SCENARIO = """\
[fabric]
leaves = 2
hosts_per_leaf = 2
spines = 1
[run]
seeds = 1
[congestion]
preset = "paper"
[[job]]
kind = "incast"
to = "h0"
size = "64K"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with scenarios."""
    path = tmp_path_factory.mktemp("scenario")
    texts = {
        "scenario.toml": SCENARIO,
        "broken.toml": "[[job]\n",
        "unknown.toml": SCENARIO.replace("leaves", "leafs"),
        "nobody.toml": SCENARIO.replace('"h0"', '"h77"'),
        "empty.toml": "",
        "flows.toml": '[[job]]\nkind = "flows"\nfile = "flows.csv"\n',
        "flows.csv": "src,dst,bytes\nh0,h1,12\nh0,nowhere,12\n",
    }
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")
    (path / "binary.toml").write_bytes(bytes(range(256)))
    return path


@pytest.fixture
def simulate(inside, folder, monkeypatch):
    """Run `nettune simulate` in that directory."""
    monkeypatch.chdir(folder)
    return lambda *words: inside("simulate", *words)


def test_json_and_text_tell_the_same(simulate):
    """One object with the promised keys; the screen has the same last message; settings are used."""
    made = simulate("scenario.toml", "--set", "job.0.size=128K", "--output", "json")
    told = made.json
    assert made.code == 0, made.stderr
    assert {"fct_us", "flows", "pfc_pauses", "pfc_paused_us", "ecn_marks", "packet_hops", "variants"} <= set(
        told
    )
    assert told["verb"] == "simulate"
    assert told["packet_hops"] == 3 * 32 + 2 * 2 * 32
    shown = simulate("scenario.toml", "--set", "job.0.size=128K")
    assert f"{told['fct_us']['max']:,.0f} us" in shown.stdout
    assert "seed 1" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines()[:12])) <= 80


def test_seeds_on_the_command_line(simulate):
    """`--seeds` stands in place of the file's `run.seeds`."""
    told = simulate("scenario.toml", "--seeds", "4", "--output", "json").json
    assert told["seeds"] == 4


def test_settings_side_by_side(simulate):
    """Two values are two rows."""
    done = simulate("scenario.toml", "--compare", "congestion.preset=paper,swift")
    assert done.code == 0
    assert re.search(r"^\s+preset paper ", done.stdout, re.MULTILINE)
    assert re.search(r"^\s+preset swift ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.toml"], "none.toml: cannot be read"),
        (["."], "cannot be read: Is a directory"),
        (["binary.toml"], "binary.toml: is no"),
        (["broken.toml"], "broken.toml:1: is no TOML"),
        (["empty.toml"], "needs at least one"),
        (["unknown.toml"], r"unknown.toml:2: \[fabric\] unknown key 'leafs'; did you mean 'leaves'"),
        (["nobody.toml"], "the receiver 'h77' is not among"),
        (["flows.toml"], "a flow to or from 'nowhere', which is no host"),
        (["scenario.toml", "--set", "ecn.kmin_bytes=9G"], "is above kmax_bytes"),
        (["scenario.toml", "--set", "switch.buffer_bytes=4K"], "buffer"),
        (["scenario.toml", "--set", "fabric.host_gbps=0"], "host_gbps: "),
        (["scenario.toml", "--set", "congestion.min_rate_mbps=0"], "min_rate_mbps must be above 0"),
        (["scenario.toml", "--set", "congestion.preset=papr"], "did you mean 'paper'"),
        (["scenario.toml", "--set", "x"], "write it like"),
        (["scenario.toml", "--compare", "run.seeds=1"], "two values or more"),
        (["scenario.toml", "--seeds", "0"], "seeds: "),
        (["scenario.toml", "--whole-ns"], "are for --topo and --flows"),
        (["scenario.toml", "--exact"], "are for --topo and --flows"),
    ],
)
def test_mistakes_are_one_line(simulate, words, message):
    """Exit code 2, one line on stderr that says what is wrong, nothing on stdout."""
    done = simulate(*words)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.code == 2
    assert len(errors) == 1
    assert re.search(message, errors[0]), errors[0]
    assert done.stdout == ""


def test_what_does_not_end_is_a_fail(simulate):
    """Flows that are left when time is over: exit code 1, status FAIL."""
    done = simulate("scenario.toml", "--set", "run.limit_ms=0.002", "--output", "json")
    assert done.code == 1
    assert done.json["status"] == "FAIL"
    assert done.json["fct_us"] is None
