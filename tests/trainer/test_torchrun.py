"""The trainer as a torchrun job."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from nettune.errors import InputError
from nettune.trainer import standalone

ENV = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.slow
def test_torchrun_starts_two_ranks(tmp_path) -> None:
    """torchrun, whose agent serves the store, gets one JSON line of a summary from rank 0."""
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "-m", "nettune.trainer.standalone",
        ],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["steps"] == 5
    assert summary["peak"]["reason"].startswith("measured: 2 ranks at once")
    assert 0 < summary["mfu_percent"]["median"] < 100


@pytest.mark.parametrize("name", sorted(ENV))
def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Started without its launcher, the job says which variable it misses."""
    for key, value in ENV.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv(name)
    with pytest.raises(InputError, match=f"{name} is not set; start this with torchrun"):
        standalone.main()


def test_a_variable_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does one that makes no sense."""
    for key, value in ENV.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(InputError, match="RANK must be a whole number, not 'first'"):
        standalone.main()
