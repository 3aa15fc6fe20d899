"""`nettune lint env` and `nettune lint log`: renderings, exit codes, run directory, what a user can get wrong."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topology.builder import FabricBuilder
from topology.fabric import NodeKind

SCRIPT = "#!/bin/bash\nexport NCCL_IB_TIMEOUT=022\nexport NCCL_IB_HCA==mlx5_0,mlx5_7\nsrun ./train\n"
LOG = (
    "b:1:2 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error\n"
    "a:1:2 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer b<1> with error 12, opcode 0, len 0,"
    " vendor err 129 (Send)\n"
)

Inside = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: Inside) -> Path:
    """A working directory of one's own; `inside` has chosen another one before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "a.log").write_text(LOG)
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    builder.node("leaf0", NodeKind.SWITCH)
    builder.port("h0", "mlx5_0", speed_gbps=400, rail=0)
    builder.port("leaf0", "p0", speed_gbps=400)
    builder.link(("h0", "mlx5_0"), ("leaf0", "p0"))
    (tmp_path / "fabric.json").write_text(json.dumps({"fabric": builder.build().to_json()}))
    return tmp_path


def test_settings_as_text(folder: Path, inside: Inside) -> None:
    """The verdict names file and line; a number in octal is a FAIL."""
    done = inside("lint", "env", "job.sh")
    assert done.code == 1
    text = " ".join(done.stdout.split())
    assert "job.sh:2: NCCL_IB_TIMEOUT=022 is 18 for NCCL" in text
    assert "fix: Write NCCL_IB_TIMEOUT=22." in text
    assert "NCCL 2.30.7 (assumed)" in text


def test_settings_as_json(folder: Path, inside: Inside) -> None:
    """One object with the settings, their defaults and the findings, against a fabric and a version."""
    done = inside(
        "lint", "env", "job.sh", "--fabric", "fabric.json", "--nccl-version", "2.20", "--output", "json"
    )
    data = done.json
    assert (data["verb"], data["exit_code"], data["lint"]["nccl_version"]) == ("lint", 1, "2.20")
    assert [(one["variable"], one["default"]) for one in data["lint"]["settings"]] == [
        ("NCCL_IB_HCA", ""),
        ("NCCL_IB_TIMEOUT", "18"),
    ]
    missing = [one for one in data["findings"] if one["check"] == "nccl-env-fabric"]
    assert [(one["status"], one["where"], one["evidence"]["device"]) for one in missing] == [
        ("FAIL", "host/h0", "mlx5_7")
    ]
    result = json.loads((Path(data["run_dir"]) / "result.json").read_text())
    assert result["findings"] == data["findings"]
    assert "NCCL_IB_TIMEOUT" in Path(data["report"]).read_text()


def test_settings_from_standard_input(folder: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env | nettune lint env -`, and the form by hand."""
    for text, form, code in ((b"NCCL_DEBUG=INFO\n", None, 0), (b"NCCL_DEBUG = INFO\n", "nccl.conf", 1)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert inside("lint", "env", "-", *(["--as", form] if form else [])).code == code


def test_standard_input_without_end_is_refused(
    folder: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in bounds, as a file is."""
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        done = inside("lint", "env", "-")

    assert (done.code, "has more than 16 MiB" in done.stderr) == (2, True)


def test_settings_of_this_shell_and_of_a_process(folder: Path, nettune: Inside) -> None:
    """What a job started here would inherit; what a running rank was started with."""
    environment = {"NCCL_IB_TIMOUT": "22"}
    done = nettune("lint", "env", cwd=folder, env=environment)
    assert done.code == 1
    assert "nearest is NCCL_IB_TIMEOUT" in " ".join(done.stdout.split())
    rank = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        rank, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        done = nettune("lint", "env", "--pid", str(process.pid), "--output", "json", cwd=folder)
        process.communicate()
    assert done.code == 1
    assert done.json["findings"][0]["where"].startswith("host/")


def test_an_empty_file_is_not_a_pass(folder: Path, inside: Inside) -> None:
    """A required UNKNOWN: exit 2."""
    (folder / "empty").write_text("")
    assert inside("lint", "env", "empty").code == 2
    assert inside("lint", "log", "empty").code == 2


def test_a_log(folder: Path, inside: Inside) -> None:
    """The first cause is the first finding, with file and line; what follows says so."""
    done = inside("lint", "log", "a.log", "--output", "json")
    data = done.json
    assert (done.code, data["exit_code"]) == (1, 1)
    first, second = data["findings"]
    assert (first["check"], first["where"], first["evidence"]["first_cause"]) == (
        "nccl-port-error",
        "host/b/nic/mlx5_3",
        True,
    )
    assert second["evidence"]["follows"] == "nccl-port-error"
    text = inside("lint", "log", "a.log").stdout
    assert "host/b/nic/mlx5_3: a.log:1: the NIC reports a port error" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lint", "env", "none.sh"], "none.sh: cannot be read: No such file"),
        (["lint", "env", "."], "cannot be read: Is a directory"),
        (["lint", "env", "--pid", "4194305"], "give the id of a process that is running"),
        (["lint", "env", "job.sh", "--pid", "1"], "give a file or --pid, not both"),
        (["lint", "env", "job.sh", "--nccl-version", "new"], "write it like 2.27"),
        (["lint", "env", "job.sh", "--as", "toml"], "--as 'toml' is not known; choose one of environ"),
        (["lint", "env", "job.sh", "--fabric", "none.json"], "none.json: cannot be read"),
        (["lint", "env", "job.sh", "--fabric", "job.sh"], "job.sh: is no JSON"),
        (["lint", "env", "job.sh", "--dscp", "64"], "--dscp"),
        (["lint", "log", "none.log"], "none.log: cannot be read: No such file"),
        (["lint", "log", "a.log", "."], "cannot be read: Is a directory"),
        (["lint", "log", "/dev/zero"], "is a device, no log"),
        (["lint", "log"], "Missing argument"),
    ],
)
def test_mistakes_are_one_line(folder: Path, inside: Inside, words: list[str], says: str) -> None:
    """Exit 2, nothing on stdout, no run directory that says nothing."""
    done = inside(*words)
    assert (done.code, done.stdout) == (2, "")
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    assert says in line
    assert not [path for path in folder.glob("runs/*") if not any(path.iterdir())]


@pytest.mark.parametrize(
    ("sample", "settings", "expected"),
    [
        # Azure: each host has one InfiniBand NIC, ibp11s0f0
        ("ibnetdiscover/superbench_topo_aware_azure.txt", "NCCL_IB_HCA=ibp11s0f0", {"PASS"}),
        ("ibnetdiscover/superbench_topo_aware_azure.txt", "NCCL_IB_HCA=mlx5_0", {"FAIL"}),
        # one host with mlx5_0 to mlx5_7 in NCCL's own log
        ("nccl-logs/03-net-ib-using-lines.log", "NCCL_IB_HCA=mlx5_", {"PASS"}),
        ("nccl-logs/03-net-ib-using-lines.log", "NCCL_IB_HCA=mlx5_0,mlx5_9", {"FAIL", "WARN"}),
        ("nccl-logs/03-net-ib-using-lines.log", "NCCL_IB_GID_INDEX=3", {"UNKNOWN"}),
        # 193 hosts; some tell their devices as HCA-1, which is no name of a device or interface
        (
            "topo/ibnetdiscover/topograph-example.out",
            "NCCL_SOCKET_IFNAME=eth0\nNCCL_IB_DISABLE=1",
            {"UNKNOWN"},
        ),
        ("topo/ibnetdiscover/topograph-example.out", "NCCL_IB_HCA=^=mlx5_0", {"WARN"}),
    ],
)
def test_settings_against_a_discovered_fabric(
    folder: Path, inside: Inside, shared: Path, sample: str, settings: str, expected: set[str]
) -> None:
    """A recorded fabric is discovered, and settings that do not fit it are told."""
    assert inside("discover", str(shared / "samples" / sample), "-o", "found.json").code in {0, 1}
    (folder / "job.env").write_text(settings + "\n")
    data = inside("lint", "env", "job.env", "--fabric", "found.json", "--output", "json").json

    assert {one["status"] for one in data["findings"] if one["check"] == "nccl-env-fabric"} == expected


def test_a_manifest_and_what_is_none(folder: Path, inside: Inside) -> None:
    """Kubernetes' env lists are read; a text whose settings cannot be read is no pass."""
    (folder / "pod.yaml").write_text("spec:\n  env:\n  - name: NCCL_IB_TIMEOUT\n    value: abc\n")
    done = inside("lint", "env", "pod.yaml")
    assert (done.code, "pod.yaml:3: NCCL_IB_TIMEOUT=abc is 0" in " ".join(done.stdout.split())) == (1, True)
    (folder / "notes.txt").write_text("set NCCL_IB_TIMEOUT to 22\n")
    assert inside("lint", "env", "notes.txt").code == 2
    (folder / "bad.yaml").write_text("a: [\n")
    refused = inside("lint", "env", "bad.yaml")
    assert (refused.code, len(refused.stderr.strip().splitlines())) == (2, 1)
