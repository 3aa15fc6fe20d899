"""Run directories, records, atomic files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError, NettuneError
from nettune.records import Measurement, RunDir, read_records, recorded_environment, write_atomic

MEASUREMENTS = st.builds(
    Measurement,
    run=st.text(),
    trial=st.text(),
    init=st.integers(0, 99),
    repeat=st.integers(0, 99),
    rank=st.integers(-1, 99),
    metric=st.text(),
    value=st.floats(allow_nan=False, allow_infinity=False),
    unit=st.text(),
)


def one(value: float = 1.0) -> Measurement:
    """A measurement."""
    return Measurement(run="r", trial="t", init=0, repeat=0, rank=0, metric="m", value=value, unit="s")


@given(MEASUREMENTS)
def test_a_measurement_survives_json(measurement):
    """to_json and from_json are inverse, through text."""
    assert Measurement.from_json(json.loads(json.dumps(measurement.to_json()))) == measurement


@pytest.mark.parametrize("change", [{"schema": "other/1"}, {"extra": 1}, {"init": None}])
def test_other_json_is_no_measurement(change):
    """Another schema, unknown keys and missing keys are InputErrors."""
    data = one().to_json() | change
    data = {key: value for key, value in data.items() if value is not None}

    with pytest.raises(InputError):
        Measurement.from_json(data)


def test_records_are_appended_and_read_back(tmp_path):
    """A run's records come back in the order in which they were written."""
    with RunDir.create("test", tmp_path) as run:
        for value in range(5):
            run.record(one(value))

    assert [m.value for m in read_records(run.path / "records.jsonl")] == [0, 1, 2, 3, 4]


@given(cut=st.integers(1, 120))
def test_a_torn_last_line_is_dropped(tmp_path_factory, cut):
    """Whatever a kill leaves of the last line, the whole lines before it are read."""
    path = tmp_path_factory.mktemp("torn") / "records.jsonl"
    lines = [json.dumps(one(value).to_json()) + "\n" for value in range(3)]
    path.write_text("".join(lines[:2]) + lines[2][:-cut])

    values = [m.value for m in read_records(path)]

    assert values[:2] == [0, 1]
    assert values[2:] in ([], [2])


def test_a_torn_line_in_the_middle_is_an_error(tmp_path):
    """Damage that a kill cannot explain is reported with its line."""
    path = tmp_path / "records.jsonl"
    path.write_text('{"schema":\n' + json.dumps(one().to_json()) + "\n")

    with pytest.raises(InputError, match=r"records\.jsonl:1: "):
        list(read_records(path))


def test_two_runs_of_one_second_do_not_share_a_folder(tmp_path):
    """Run directories are never reused."""
    paths = {RunDir.create("x", tmp_path).path for _ in range(5)}

    assert len(paths) == 5


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    """Kill -9 between writing and renaming leaves the old content, whole."""
    target = tmp_path / "result.json"
    write_atomic(target, "old")
    script = (
        "import os, signal\nfrom pathlib import Path\nfrom nettune import records\n"
        "Path.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"records.write_atomic({str(target)!r}, 'new' * 1000)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], check=False)

    assert done.returncode < 0
    assert target.read_text() == "old"


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    """No space left is a NettuneError that names the file; nothing half-written stays behind."""

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(NettuneError, match=r"cannot write .*result\.json: No space left on device"):
        write_atomic(tmp_path / "result.json", "x")

    assert list(tmp_path.iterdir()) == []


def test_secrets_are_not_recorded():
    """Variables of the network stay, everything that looks like a secret goes."""
    environment = {
        "NCCL_IB_HCA": "mlx5",
        "SLURM_JWT": "x",
        "SLURM_JWT_TOKEN": "x",
        "AWS_SECRET": "y",
        "HOME": "/h",
        "NETTUNE_API_KEY": "z",
    }

    assert recorded_environment(environment) == {"NCCL_IB_HCA": "mlx5"}


def test_a_pipe_or_a_device_keeps_its_place(tmp_path):
    """What is no regular file is refused: a renamed file would take its place, /dev/null's too."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(NettuneError, match="no regular file"):
        write_atomic(pipe, "x")
    assert pipe.is_fifo()
