from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nettune.errors import InputError, NettuneError
from nettune.launch import LocalLauncher, Outcome, run
from topology import collector
from topology.capture import CaptureState, HostCapture
from topology.discovery.collect import CollectError, collect, collector_source


def streamed(python: str, *arguments: str) -> HostCapture:
    done = subprocess.run(
        [python, "-I", "-S", "-", *arguments],
        input=collector_source(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == b""
    return HostCapture.from_json(json.loads(done.stdout))


def test_source_is_of_python_36_and_imports_the_standard_library_only():
    """The collector parses with Python 3.6's grammar and imports nothing that a bare node lacks."""
    tree = ast.parse(collector_source(), feature_version=(3, 6))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)
    assert "__future__" not in imported


def interpreter(version: str) -> str | None:
    """A Python of that version on PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for program in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        if program and not subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode:
            return str(program)
    return None


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.11", "3.13"])
def test_streamed_source_prints_a_capture(version):
    """Streamed to an interpreter without site-packages, the collector prints one capture of this machine."""
    program = interpreter(version)
    if program is None:
        pytest.skip(f"Python {version} is not installed here")
    found = streamed(program, "node7", "switch")
    assert (found.host, found.role) == ("node7", "switch")
    assert set(found.commands) >= set(collector.COMMANDS)
    assert set(found.files) >= set(collector.FILES)
    assert found.text("/proc/sys/kernel/osrelease") == Path("/proc/sys/kernel/osrelease").read_text(
        encoding="ascii"
    )
    if shutil.which("ip"):
        assert any(row.get("ifname") == "lo" for row in found.json_of("ip -j addr"))


def test_name_and_role_are_found_when_not_given():
    """Without arguments the machine's own host name is taken, and ip_forward decides the role."""
    found = streamed(sys.executable)
    assert found.host == Path("/proc/sys/kernel/hostname").read_text(encoding="ascii").strip()
    forwards = Path("/proc/sys/net/ipv4/ip_forward").read_text(encoding="ascii").strip() == "1"
    assert found.role == ("switch" if forwards else "host")


def test_absence_refusal_and_error_are_told_apart(tmp_path):
    """A missing program, one that may not run or says it may not, and one that fails have different states."""
    scripts = {
        "refuses": "echo 'RTNETLINK answers: Operation not permitted' >&2; exit 2",
        "fails": "echo half; echo broken >&2; exit 3",
        "silent": "exit 4",
    }
    for name, body in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "locked").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "locked").chmod(0o644)
    lines = [str(tmp_path / name) for name in ("missing", "locked", *scripts)]
    found = [collector.run([line])[line] for line in lines]
    assert [entry["state"] for entry in found] == ["absent", "denied", "denied", "error", "error"]
    assert "No such file" in found[0]["note"]
    assert (found[3]["text"], found[3]["note"]) == ("half\n", "broken")
    assert found[4]["note"] == "exit status 4"


def test_a_command_that_hangs_is_stopped():
    """At the time-out the command ends, the others' output is kept, and the note says so."""
    found = collector.run(["sleep 60", "echo done"], timeout_s=0.3)
    assert (found["sleep 60"]["state"], found["sleep 60"]["note"]) == ("error", "no end after 0.3 s; stopped")
    assert found["echo done"] == {"state": "ok", "text": "done\n", "note": ""}


def test_output_is_bounded(monkeypatch, tmp_path):
    """A command that prints without end and a file that is too long are cut and are no success."""
    monkeypatch.setattr(collector, "COMMAND_BYTES", 100_000)
    monkeypatch.setattr(collector, "FILE_BYTES", 10)
    entry = collector.run(["cat /dev/zero"])["cat /dev/zero"]
    assert entry["state"] == "error"
    assert len(entry["text"]) == 100_000
    (tmp_path / "long").write_text("x" * 11, encoding="ascii")
    assert collector.read(str(tmp_path / "long")) == {
        "state": "error",
        "text": "x" * 10,
        "note": "longer than 10 bytes; cut",
    }


def test_files_that_cannot_be_read_say_why(tmp_path):
    """A missing file is absent, a folder is an error, a refused one is denied."""
    assert collector.read(str(tmp_path / "none"))["state"] == "absent"
    assert collector.read(str(tmp_path))["state"] == "error"
    write_only = Path("/proc/sys/net/ipv4/route/flush")
    if write_only.exists():
        assert collector.read(str(write_only))["state"] == "denied"


def test_classes_are_asked_for_htb_roots_only():
    """Only a root htb needs `tc class`; what is no list of queues asks for none."""
    roots = [
        {"kind": "htb", "dev": "u0", "root": True},
        {"kind": "htb", "dev": "u1"},
        {"kind": "tbf", "dev": "u2", "root": True},
    ]
    assert collector.devices_with_classes(json.dumps(roots)) == ["u0"]
    for garbage in ("", "{", "[1]", '[{"root": true, "kind": "htb"}]', '{"a": 1}'):
        assert collector.devices_with_classes(garbage) == []


def test_collect_asks_every_node_in_order():
    """Captures come in the order of the nodes, under the names that the launcher knows."""
    launcher = LocalLauncher(("b", "a"))
    found = collect(
        lambda commands, timeout_s: run(launcher, commands, timeout_s), ["b", "a"], roles={"a": "switch"}
    )
    assert [capture.host for capture in found] == ["b", "a"]
    assert found[1].role == "switch"
    assert found[0].commands["nproc"].state is CaptureState.OK


def capture_text(host: str) -> str:
    return json.dumps(HostCapture(host, "host").to_json())


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ({"rc": None, "timed_out": True}, "no answer within 5 s"),
        ({"rc": 127, "stderr": "sh: python3: not found"}, "no sh there"),
        ({"rc": 255, "stderr": "Warning: x\nNo route to host"}, "exit status 255: No route to host"),
        ({"stdout": '{"schema": "nettune.capt'}, "printed no capture"),
        ({"stdout": "[" * 100_000}, "printed no capture"),
        ({"stdout": "[1]"}, "printed no capture"),
        ({"stdout": "{}"}, "schema None"),
        ({"stdout": capture_text("elsewhere")}, "printed the capture of 'elsewhere'"),
    ],
)
def test_nodes_that_fail_are_named_and_the_others_kept(outcome, why):
    """One line names the node and the reason; the captures of the other nodes are in the error."""

    def answer(commands, timeout_s):
        good = [Outcome(c.host, tuple(c.argv), 0, capture_text(c.host), "", False, 0.1) for c in commands]
        return [replace(one, **({"stdout": "", **outcome} if one.host == "h3" else {})) for one in good]

    with pytest.raises(CollectError, match="h3 gave no capture") as caught:
        collect(answer, ["h2", "h3", "h4"], timeout_s=5)
    assert why in str(caught.value)
    assert list(caught.value.failed) == ["h3"]
    assert [capture.host for capture in caught.value.captures] == ["h2", "h4"]
    assert isinstance(caught.value, NettuneError)


def test_capture_with_an_unknown_state_is_refused():
    """A capture of another version says so instead of being half read."""
    data = HostCapture("h0", "host").to_json()
    data["commands"] = {"ip -j addr": {"state": "fine", "text": "", "note": ""}}
    with pytest.raises(InputError, match="not a capture"):
        HostCapture.from_json(data)
