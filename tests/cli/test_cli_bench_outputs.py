"""`nettune bench` on recorded outputs and on the binaries of nccl-tests, as people call it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EMULATOR = Path(__file__).parent.parent / "collectives" / "nccl_tests" / "emulated_nccl_tests.py"
PERFTEST = """\
                    RDMA_Write BW Test
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 8388608    5000             46505.00             46463.50              0.005808
---------------------------------------------------------------------------------------
"""


@pytest.fixture
def recorded(tmp_path):
    """The function that records an emulated all-reduce into a file; its path."""

    def record(name, *words, **env):
        own = {"NCCL_DEBUG": "INFO", **env}
        done = subprocess.run(
            [sys.executable, str(EMULATOR), "all_reduce_perf", "-b", "1K", "-e", "64M", "-f", "4", "-g", "8", *words],
            capture_output=True, text=True, check=False, env={**os.environ, **own}, timeout=20,
        )  # fmt: skip
        (tmp_path / name).write_text(done.stdout, encoding="utf-8")
        return str(tmp_path / name)

    return record


@pytest.fixture
def binary(tmp_path):
    """The function that makes an `all_reduce_perf` with a fault."""

    def make(fault=""):
        (tmp_path / "meet").mkdir(exist_ok=True)
        path = tmp_path / "all_reduce_perf"
        path.write_text(
            f"#!/bin/sh\nexport EMULATE_FAULT={fault} EMULATE_DIR={tmp_path / 'meet'}\n"
            f"exec '{sys.executable}' '{EMULATOR}' all_reduce_perf \"$@\"\n",
            encoding="utf-8",
        )
        path.chmod(0o755)
        return str(path)

    return make


def test_a_recorded_output_is_judged(inside, recorded):
    """A table and a verdict in 80 columns, exit codes 0, 1 and 2; the report again from the run."""
    good = inside("bench", "--parse", recorded("good.txt"))
    assert good.code == 0
    assert "PASS    all of the output is there" in good.stdout
    assert "  64 MiB   2,956   22.70   39.73   0" in good.stdout
    assert max(map(len, good.stdout.splitlines()[4:-3])) <= 80
    assert inside("bench", "--parse", recorded("good.txt"), "--expect", "39").code == 0
    missed = inside("bench", "--parse", recorded("good.txt"), "--expect", "45")
    assert missed.code == 1
    assert "88% of the 45 expected (given" in missed.stdout.replace("\n        ", " ")
    wrong = inside("bench", "--parse", recorded("wrong.txt", EMULATE_FAULT="wrong@1M"))
    assert (wrong.code, "wrong data" in wrong.stdout) == (1, True)
    torn = inside("bench", "--parse", recorded("torn.txt", EMULATE_FAULT="torn@1M"))
    assert (torn.code, "the row of 1 MiB is torn" in torn.stdout) == (2, True)
    again = inside("report", good.stdout.splitlines()[-1].split()[-1], "--form", "text")
    assert "39.73" in again.stdout


def test_json_and_standard_input(inside, recorded, home, monkeypatch):
    """One object with every row; `-` is standard input; a -J file and perftest are recognised."""
    (home / "j.json").unlink(missing_ok=True)
    text = Path(recorded("good.txt", "-J", str(home / "j.json"))).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    data = inside("bench", "--parse", "-", "--output", "json").json

    assert (data["verb"], data["status"], data["exit_code"]) == ("bench", "PASS", 0)
    (output,) = data["outputs"]
    assert (output["name"], output["kind"], output["run"]["op"]) == ("<stdin>", "nccl-tests", "all_reduce")
    assert len(output["run"]["rows"]) == 9
    of_json = inside("bench", "--parse", "j.json", "--output", "json").json
    assert of_json["outputs"][0]["run"]["ranks"] == 8
    (home / "ib.txt").write_text(PERFTEST, encoding="utf-8")
    perftest = inside("bench", "--parse", "ib.txt", "--expect", "1x400gbit")
    assert (perftest.code, "389.8 Gbit/s" in perftest.stdout) == (0, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--parse", "nofile"), "nofile: cannot be read: No such file"),
        (("--parse", "."), ".: cannot be read: Is a directory"),
        (("--parse", "/dev/zero"), "more than 256 MiB"),
        (("--parse", "empty", "--expect", "much"), "--expect 'much' is no bandwidth"),
        (("--parse", "empty@fast"), "setting 'fast' is not known"),
        (("--expect", "3"), "--expect and --tuner go with --parse"),
        (("--hosts", "g1"), "go with --backend nccl-tests"),
        (("--backend", "nccl-tests", "--fit"), "--fit do not go with --backend nccl-tests"),
        (("--tuner", "x"), "--expect and --tuner go with --parse"),
        (("--backend", "ncll"), "is not one of 'torch'"),
        (("--backend", "nccl-tests", "--op", "all"), "no test of nccl-tests is called 'all'"),
        (("--backend", "nccl-tests", "--binary", "empty"), "cannot be executed"),
        (
            ("--backend", "nccl-tests", "--setting", "ALGO=Ring", "--binary", "/x"),
            "'ALGO=Ring' is no setting",
        ),
        (("--backend", "nccl-tests", "--timeout", "0s"), "leaves no time"),
        (("--backend", "nccl-tests", "--hosts", "g[1-", "--binary", "/x"), "is no hostlist"),
        (("--backend", "nccl-tests", "-b", "4M", "-e", "1M"), "-b 4M is above -e 1M"),
    ],
)
def test_mistakes_are_one_line(inside, home, words, says):
    """What is wrong and what to do, exit code 2, nothing on standard output."""
    (home / "empty").write_text("", encoding="utf-8")

    done = inside("bench", *words)

    assert done.code == 2
    assert says in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5000, bytes(range(256)) * 400, b"{" * 5000, b"1 2 float " * 9000]
)
def test_files_that_are_nothing(inside, home, content):
    """Empty, binary, nested, endless lines: UNKNOWN, and no traceback."""
    (home / "odd").write_bytes(content)

    done = inside("bench", "--parse", "odd")

    assert done.code == 2
    assert "UNKNOWN" in done.stdout
    assert "Traceback" not in done.stderr


def test_tuner_files_of_two_recordings(inside, recorded, home):
    """The setting is told by the log, or named behind the file; nccl.conf passes our own lint."""
    ring = recorded("ring.txt", NCCL_ALGO="Ring", NCCL_PROTO="Simple")
    tree = recorded("tree.txt", NCCL_ALGO="Tree", NCCL_DEBUG="WARN")

    untold = inside("bench", "--parse", ring, "--parse", tree, "--tuner", "t0")
    done = inside(
        "bench", "--parse", ring, "--parse", f"{tree}@tree/simple/16", "--tuner", "tuned", "--size", "64M"
    )

    assert (untold.code, "does not tell NCCL's algorithm" in untold.stdout.replace("\n        ", " ")) == (
        2,
        True,
    )
    assert done.code == 0
    table = (home / "tuned" / "nccl_tuner.conf").read_text(encoding="utf-8")
    assert [line for line in table.splitlines() if line[0] != "#"] == [
        "allreduce,0,524288,tree,simple,16,1,8",
        "allreduce,524289,18446744073709551615,ring,simple,16,1,8",
    ]
    assert "NCCL_ALGO=allreduce:ring" in (home / "tuned" / "nccl.conf").read_text(encoding="utf-8")
    assert inside("lint", "env", "tuned/nccl.conf").code == 0
    assert inside("bench", "--parse", ring, "--tuner", "t1").code == 2
    assert inside("bench", "--parse", ring, "--parse", tree, "--tuner", ring).code == 2


def test_binaries_are_run(inside, binary, home, monkeypatch):
    """Rows come on standard error, the output is kept without secrets, settings are compared, a hang ends."""
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    run = inside("bench", "--backend", "nccl-tests", "--binary", binary(), "--launcher", "none", "--ranks-per-host", "8", "-b", "1M", "-e", "4M",
                  "--setting", "NCCL_ALGO=Ring", "--setting", "NCCL_ALGO=Tree", "--output", "json")  # fmt: skip
    folder = home / run.json["run_dir"]

    assert run.code == 0
    assert "algo=Ring: 2 MiB" in run.stderr
    assert [output["name"] for output in run.json["outputs"]] == ["algo=Ring", "algo=Tree"]
    assert len((folder / "records.jsonl").read_text(encoding="utf-8").splitlines()) == 12
    assert "hunter2" not in "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in folder.iterdir()
    )
    hung = inside(*hanging(binary), "--timeout", "2s")
    assert hung.code == 2
    assert "hung at 2 MiB: stopped after 2 s" in hung.stdout


def hanging(binary):
    """The words of a bench whose binary stops at its second size."""
    return [
        "bench",
        "--backend",
        "nccl-tests",
        "--binary",
        binary("hang@2M"),
        "--launcher",
        "none",
        "-b",
        "1M",
        "-e",
        "4M",
    ]


def test_ctrl_c_leaves_nothing(binary, home):
    """The binary and its children are gone, and the rows that came are in the records."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nettune", *hanging(binary)],
        cwd=home,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if "1 MiB" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)

    assert process.returncode == 2
    assert said.splitlines()[-1] == "error: interrupted"
    last = max((home / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    assert "size=1048576" in (last / "records.jsonl").read_text(encoding="utf-8")
