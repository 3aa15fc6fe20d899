"""The same lab as an ordinary user, in a user namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import nettune

pytestmark = [pytest.mark.lab, pytest.mark.rootless]

NOBODY = 65534

WHOLE_STORY = """
import json, os, subprocess, sys
from nettune.lab import Lab, LabSpec, lab_available
from nettune.lab.faults.registry import FAULTS

receive, send = sys.argv[1:]
seen = {"available": lab_available(), "uid": os.getuid(), "kinds": {}}

def transfer(lab, source, destination):
    launcher = lab.launcher()
    receiver = subprocess.Popen(
        launcher.argv(destination, [sys.executable, "-c", receive, "5000", "0.7"]),
        stdout=subprocess.PIPE, text=True,
    )
    receiver.stdout.readline()
    subprocess.run(launcher.argv(source, [sys.executable, "-c", send, destination, "5000", "0.7"]))
    return float(receiver.communicate()[0]) / (lab.spec.host_rate_gbps * 1e9)

lab = Lab.up(LabSpec(name="nobody", host_rate="50mbit", uplink_rate="50mbit"))
try:
    seen["rootless"] = lab.rootless
    seen["hostname"] = lab.exec("h3", ["hostname"]).stdout.strip()
    seen["ports"] = len(lab.counters())
    seen["ratio"] = max(transfer(lab, "h0", "h7") for _ in range(2))
    fault = lab.faults.apply("slow-link", link="h0", to=30)
    seen["slow"] = transfer(lab, "h0", "h7")
    lab.faults.undo("all")
    seen["again"] = max(transfer(lab, "h0", "h7") for _ in range(2))
    for kind in FAULTS:
        fault = lab.faults.apply(kind)
        seen["kinds"][kind] = fault.what
        lab.faults.undo(fault.id)
    lab.faults.apply("straggler", host="h1", cpu="20%")
    spin = "import time; e = time.monotonic() + 1\\nwhile time.monotonic() < e: pass\\nprint(time.process_time())"
    seen["straggler"] = float(lab.exec("h1", [sys.executable, "-c", spin]).stdout)
finally:
    lab.down()
seen["left"] = Lab.names()
print(json.dumps(seen))
"""


def interpreter() -> list[str]:
    """A command that runs this Python version and these packages as the user nobody, or skip."""
    if os.geteuid() != 0:
        pytest.skip("every lab test runs rootless already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is missing: no way to become an ordinary user")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # The wheel under test borrows its dependencies from a second folder of packages.
    paths = [
        str(Path(nettune.__file__).resolve().parent.parent),
        *(path for path in sys.path if "site-packages" in path),
    ]
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        command = [
            "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            "env", f"PYTHONPATH={os.pathsep.join(paths)}", "PYTHONDONTWRITEBYTECODE=1", "HOME=/", python,
        ]  # fmt: skip
        code = f"import sys, nettune.lab.lab; assert sys.version_info[:2] == {sys.version_info[:2]}"
        if subprocess.run([*command, "-c", code], capture_output=True, cwd="/", check=False).returncode == 0:
            return command
    pytest.skip("an ordinary user can read no Python with these packages here")


def test_whole_story_as_an_ordinary_user(transfer_code):
    """Up, transfers at 85% of the rate, every fault and its undo, down; nothing needs root."""
    command = interpreter()
    runtime = Path(tempfile.mkdtemp(prefix="nettune-nobody-"))
    os.chown(runtime, NOBODY, NOBODY)
    try:
        done = subprocess.run(
            [*command, "-c", WHOLE_STORY, *transfer_code],
            capture_output=True, text=True, check=False, cwd="/", timeout=90,
            env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(runtime)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        states = sorted(path.name for path in (runtime / "nettune-lab").iterdir())
    finally:
        shutil.rmtree(runtime)

    assert seen["available"] == [True, ""]
    assert seen["uid"] == NOBODY
    assert seen["rootless"]
    assert seen["hostname"] == "h3"
    assert seen["ports"] == 32
    assert 0.85 < seen["ratio"] < 1
    assert 0.2 < seen["slow"] < 0.31
    assert seen["again"] > 0.85
    assert len(seen["kinds"]) == 9
    assert "by signals" in seen["kinds"]["straggler"]
    assert 0.03 < seen["straggler"] < 0.45
    assert seen["left"] == []
    assert states == ["lock"]
