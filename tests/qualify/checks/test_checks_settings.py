"""Settings: profiles, overrides, expectations, and their mistakes with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.checks import Status, exit_code
from nettune.errors import InputError
from nettune.qualify.checks import RULES, Context, Settings, judge, limits, read_settings
from nettune.qualify.checks.limits import LIMITS

IB = "/sys/class/infiniband"


def written(tmp_path, text):
    """Read settings of a text."""
    path = tmp_path / "checks.toml"
    path.write_text(text)
    return read_settings(path, RULES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profile = 3", r"checks.toml:1: profile: must be one of"),
        ("\n[limits]\nber = 1", r"checks.toml:3: ber: is no limit"),
        ("[limits]\nraw-ber = -1", r"checks.toml:2: raw-ber: must be a number of at least 0"),
        ("[limits]\nraw-ber = true", r"raw-ber: must be a number"),
        ("[checks]\nacz = 'off'", r"acz: is no check"),
        ("[checks]\nacs = 'none'", r"acs: must be one of required, optional, warn, off"),
        ("[expect]\ngpus = 'eight'", r"gpus: has the wrong kind"),
        ("[expect]\ndata_nics = [1]", r"data_nics: is a list of device names"),
        ("[expect]\nhosts = 1", r"hosts: unknown key"),
        ("limits = 1", r"limits: is a table"),
        ("colour = 1", r"colour: unknown key"),
    ],
)
def test_mistakes_are_named_with_file_and_line(tmp_path, text, message):
    """One line says what is wrong and what is known."""
    with pytest.raises(InputError, match=message):
        written(tmp_path, text)


def test_profiles_say_what_must_be_known(sound):
    """A core check that is UNKNOWN blocks in `training`, any does in `strict`, none in `survey`."""
    capture = sound(0, commands={"nvidia-smi nvlink -s": None})
    capture_without_core = sound(0, commands={"nvidia-smi -L": None, "nvidia-smi -q": None})

    assert exit_code(judge([capture])) == 0
    assert exit_code(judge([capture_without_core])) == 2
    assert exit_code(judge([capture], Context(settings=Settings("strict")))) == 2
    assert exit_code(judge([capture_without_core], Context(settings=Settings("survey")))) == 0


def test_a_check_can_be_off_or_warn_or_be_made_required(sound, tmp_path):
    """Modes of the file win over the profile."""
    down = {f"{IB}/mlx5_0/ports/1/state": "1: DOWN\n", f"{IB}/mlx5_0/ports/1/phys_state": "2: Polling\n"}
    capture = sound(0, files=down)

    def statuses(text, check="port-state"):
        settings = written(tmp_path, text)
        return {str(f.status) for f in judge([capture], Context(settings=settings)) if f.check == check}

    assert statuses("") == {"FAIL"}
    assert statuses("[checks]\nport-state = 'warn'") == {"WARN"}
    assert statuses("[checks]\nport-state = 'off'") == set()
    required = written(tmp_path, "profile = 'survey'\n[checks]\nloss = 'required'")
    assert [
        f.required for f in judge([capture], Context(settings=required)) if f.what.startswith("no earlier")
    ] == [True]


def test_expected_counts_and_names_are_used(sound, tmp_path):
    """What the operator expects of every host is held against each."""
    settings = written(tmp_path, "[expect]\ngpus = 8\nrate_gbps = 800\ndata_nics = ['mlx5_0', 'mlx5_7']")
    failed = {
        (f.check, str(f.where))
        for f in judge([sound(0)], Context(settings=settings))
        if f.status is Status.FAIL
    }

    assert failed == {
        ("gpu-missing", "host/h0"),
        ("nic-missing", "host/h0"),
        ("port-rate", "host/h0/nic/mlx5_0"),
    }


def test_a_baseline_is_what_the_host_was(sound):
    """A recorded sound state decides where one host alone says nothing: rate, devices, GPUs, cabling."""
    slow = {f"{IB}/mlx5_{n}/ports/1/rate": "200 Gb/sec (4X HDR)\n" for n in range(4)}
    slow |= {f"/sys/class/net/eth{n}/speed": "200000\n" for n in range(4)}
    swapped = sound(0).commands["lldpcli -f json0 show neighbors details"].text.replace("leaf2", "leaf9")
    now = sound(0, files=slow, commands={"lldpcli -f json0 show neighbors details": swapped})
    checks = {f.check for f in judge([now], Context(baseline={"h0": sound(0)})) if f.status is Status.FAIL}

    assert checks == {"port-rate", "cabling"}
    assert not [f for f in judge([now]) if f.status is Status.FAIL]


@pytest.mark.parametrize(
    ("name", "below", "above"),
    [
        ("effective-ber", "9E-13", "2E-12"),
        ("raw-ber", "9E-6", "2E-5"),
    ],
)
def test_both_sides_of_a_bit_error_limit(sound, name, below, above):
    """A rate below its limit passes, one above does not."""
    key = {"effective-ber": "Effective Physical BER", "raw-ber": "Raw Physical BER"}[name]
    results = []
    for value in (below, above):
        commands = {f"mlxlink -d mlx5_{n} -m -c": f"{key}             : {value}\n" for n in range(4)}
        results.append(
            {str(f.status) for f in judge([sound(0, commands=commands)]) if f.check == "bit-errors"}
        )

    assert results == [{"PASS"}, {"FAIL" if name == "effective-ber" else "WARN"}]


@pytest.mark.parametrize(("raw", "status"), [("9E-8", "PASS"), ("2E-7", "WARN")])
def test_a_remark_on_the_signal_counts_from_a_limit_on(sound, raw, status):
    """`Bad signal integrity` at a raw rate that correction takes in its stride is no fault."""
    text = f"Recommendation                     : Bad signal integrity\nRaw Physical BER                   : {raw}\n"
    commands = {f"mlxlink -d mlx5_{n} -m -c": text for n in range(4)}

    assert {str(f.status) for f in judge([sound(0, commands=commands)]) if f.check == "bit-errors"} == {
        status
    }


def test_every_limit_is_explained_and_every_rule_complete():
    """Limits have unit and origin; rules have rows of the catalogue, sources and an effect, and unique names."""
    folder = Path(limits.__file__).parent
    code = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "limits.py")
    for name, limit in LIMITS.items():
        assert f'"{name}"' in code
        assert limit.unit
        assert len(limit.why) > 10
    assert {row for rule in RULES.values() for row in rule.rows} == set(range(1, 41))
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.rows
        assert rule.reads
        assert rule.effect
