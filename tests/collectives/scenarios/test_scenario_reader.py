"""`scenario.toml`: what is read, what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectives.scenarios.reader import load_scenario, make_scenario
from nettune.errors import InputError

GOOD = """\
name = "two jobs"
[fabric]
leaves = 2            # a comment
hosts_per_leaf = 2
[congestion]
preset = "barre"
gain = 0.01
[[job]]
kind = "collective"
size = "1M"
[[job]]
name = "storage"
kind = "incast"
to = "h0"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good scenario."""
    file = tmp_path / "scenario.toml"
    file.write_text(GOOD)
    return file


def test_tables_defaults_and_changed_values(path: Path) -> None:
    """What is written is read, the rest has defaults, parameters of the preset are kept apart."""
    spec = load_scenario(path)
    assert (spec.fabric.leaves, spec.fabric.spines, spec.job[0].size) == (2, 4, 2**20)
    assert (spec.congestion.preset, spec.congestion.model_extra) == ("barre", {"gain": 0.01})


def test_settings_stand_in_place_of_the_file(path: Path) -> None:
    """By table, by a job's place, by its name; words need no quotes."""
    spec = load_scenario(
        path,
        ["congestion.preset=paper", "job.0.size=4M", "job.storage.to=h1", "run.seeds=7", "ecn.kmin_bytes=5"],
    )
    assert spec.congestion.preset == "paper"
    assert (spec.job[0].size, spec.job[1].to, spec.run.seeds) == (2**22, "h1", 7)
    assert spec.ecn.model_extra == {"kmin_bytes": 5}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "incast"', 'kind = "incest"', r":13: \[\[job\]\] 1: kind: input should be"),
        ("to =", "too =", r":14: \[\[job\]\] 1: unknown key 'too'; did you mean 'to'"),
        ("[fabric]", "[fabrik]", ":2: unknown key 'fabrik'; did you mean 'fabric'"),
        ('"1M"', '"1Q"', r":10: \[\[job\]\] 0: size: '1Q' has no known unit"),
        ("leaves = 2", "leaves = 0", r":3: \[fabric\] leaves: must be at least 1"),
        ("leaves = 2", "leaves = true", r":3: \[fabric\] leaves: must be a whole number"),
        ("leaves = 2", "delay_us = nan", r":3: \[fabric\] delay_us: .* finite"),
        ("leaves = 2", "leaves = " + "9" * 40, "fabric.leaves: is a whole number of more than 63 bits"),
        ('"storage"', '"a/b"', r":12: \[\[job\]\] 1: name: string should match"),
        ('name = "two jobs"', "name = 3", ":1: name: must be words in quotes"),
        ("[congestion]", "[congestion", ":5: is no TOML"),
        ("[[job]]", "[[jab]]", ":8: unknown key 'jab'; did you mean 'job'"),
    ],
)
def test_wrong_files_are_refused(path: Path, old: str, new: str, message: str) -> None:
    """Unknown keys name the near one, values what they must be; with the line."""
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_scenario(path)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("x", "write it like congestion.preset=barre"),
        ("job.7.size=1", "there is no job '7'"),
        ("name.x=1", "name is no table"),
        ("name.x.y=1", "'x' is inside a value"),
        ("run.seds=3", "did you mean 'seeds'"),
        ("job.0.size=abc", "'abc' is no size"),
        ("job=3", "job: "),
    ],
)
def test_wrong_settings_are_refused(path: Path, setting: str, message: str) -> None:
    """A setting without a value, of a job that is not there, inside a value: one line each."""
    with pytest.raises(InputError, match=message):
        load_scenario(path, [setting])


def test_a_scenario_needs_a_job() -> None:
    """Nothing would be simulated."""
    with pytest.raises(InputError, match=r"needs at least one \[\[job\]\]"):
        make_scenario({"job": []})
    with pytest.raises(InputError, match=r"needs at least one \[\[job\]\]"):
        make_scenario({})


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00" * 10, b"job = " + b"[" * 2000])
def test_unreadable_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """Binary, nested without end: one line; and so a folder."""
    file = tmp_path / "scenario.toml"
    file.write_bytes(content)
    for name in (file, tmp_path):
        with pytest.raises(InputError):
            load_scenario(name)
