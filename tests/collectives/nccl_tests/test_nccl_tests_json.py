"""Files of -J: versions 1 to 3, cut short at any byte, and nothing of the environment kept but NCCL's variables."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from collectives.nccl_tests.jsonform import looks_like_json, parse_json
from collectives.nccl_tests.text import parse_text
from collectives.nccl_tests.verdict import judge
from nettune.checks import Status, exit_code


@pytest.fixture
def written(emulated, tmp_path):
    """The function that gives the JSON file of an emulated run, and what it printed."""

    def run(*words, **env):
        _, text = emulated(
            "all_reduce",
            "-b",
            "1M",
            "-e",
            "4M",
            "-f",
            "2",
            "-g",
            "8",
            "-J",
            str(tmp_path / "out.json"),
            *words,
            **env,
        )
        data = (tmp_path / "out.json").read_text(encoding="utf-8")
        (tmp_path / "out.json").unlink()
        return data, text

    return run


@pytest.mark.parametrize("version", ["2.17.5", "2.19.6"])
def test_json_says_what_the_text_says(written, version):
    """Rows, ranks and footer are the same, to the digits that the text has."""
    data, text = written(version=version)

    run, (other,) = parse_json(data), parse_text(text.splitlines())

    assert looks_like_json(data)
    assert not looks_like_json(text)
    assert (run.op, run.ranks, run.options["max_bytes"]) == (
        other.op,
        other.ranks,
        other.options["max_bytes"],
    )
    assert [row.size_bytes for row in run.rows] == [row.size_bytes for row in other.rows]
    assert run.rows[2].in_place.time_us == pytest.approx(other.rows[2].in_place.time_us, abs=0.01)
    assert exit_code(judge(run)) == exit_code(judge(other)) == 0


def test_secrets_stay_out(written):
    """The file holds the whole environment; of it NCCL's variables are kept, and a finding warns of the file."""
    data, _ = written(
        AWS_SECRET_ACCESS_KEY="hunter2", SLURM_JWT="hunter3", NCCL_ALGO="Ring", NCCL_X_TOKEN="hunter4"
    )

    run = parse_json(data)
    kept = json.dumps(run.to_json())

    assert run.environment == {"NCCL_ALGO": "Ring"}
    assert "hunter" in data
    assert "hunter" not in kept + json.dumps([one.to_json() for one in judge(run)])
    assert [one.status for one in judge(run) if one.check == "nccl-tests-secrets"] == [Status.WARN]


def test_a_file_cut_anywhere_never_passes(written):
    """What is whole of it is kept; the verdict is UNKNOWN until the last byte."""
    data, _ = written()
    rows = set()
    for cut in [*range(0, len(data) - 1, 7), *range(len(data) - 200, len(data) - 1)]:
        run = parse_json(data[:cut])
        rows.add(len(run.rows))
        code = exit_code(judge(run))
        assert code == 2 or (run.concluded and data[:cut].count('"end_time"')), cut
    assert rows == {0, 1, 2, 3}


def test_failures_in_json(written):
    """Wrong data, a missed minimum, no check, an error: as the text would say."""
    wrong = json.loads(written(fault="wrong@2M")[0])
    assert exit_code(judge(parse_json(json.dumps(wrong)))) == 1
    fine = json.loads(json.dumps(wrong))
    fine["out_of_bounds"] = {"count": 0, "okay": "true"}
    assert exit_code(judge(parse_json(json.dumps(fine)))) == 1  # rows with nwrong
    mean = wrong["average_bus_bandwidth"]["bandwidth"]
    right = json.loads(written()[0])
    for key, value, code in (
        ("errors", ["NCCL failure"], 2),
        ("average_bus_bandwidth", {"bandwidth": mean, "okay": "false"}, 1),
        ("average_bus_bandwidth", {"bandwidth": "nan", "okay": "unchecked"}, 2),
        ("out_of_bounds", {"count": 0, "okay": "yes"}, 2),
        ("results", [], 2),
        ("end_time", "", 0),
    ):
        assert exit_code(judge(parse_json(json.dumps(right | {key: value})))) == code, key


def test_values_of_other_types():
    """Whatever stands where a number should: no exception, no row, no pass."""
    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1"}
    half = {"time": 1.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0.0}
    strange: list[Any] = ["nan", None, True, [], {}, 10**400, -math.inf, "x" * 9999]
    for bad in strange:
        data = {
            "version": 3,
            "results": [row | {"out_of_place": half | {"time": bad}, "in_place": half}],
            "config": {"devices": [bad], "ngpus": bad},
        }
        run = parse_json(json.dumps(data))
        assert run.rows == []
        assert exit_code(judge(run)) == 2
    for text in (
        '{"version"',
        "{}",
        '{"version": [' + "[" * 9999,
        '{"args": 3}',
        '{"version":3,"results":7}',
    ):
        assert exit_code(judge(parse_json(text))) == 2
