"""The collector for nodes without Python, beside the one for nodes with it."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from nettune.errors import InputError
from nettune.launch import LocalLauncher, run
from topology import collector, shellcollector
from topology.capture import CaptureState, HostCapture
from topology.discovery.collect import collect

HIDE_PYTHON = """
for p in /usr/bin/python3 /bin/python3 /usr/local/bin/python3; do
  [ -e "$p" ] && mount --bind /dev/null "$p"
done
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec "$@"
"""


class WithoutPython(LocalLauncher):
    """This machine as a node on which no Python can be run."""

    def argv(self, host, command):
        return ["unshare", "--mount", "sh", "-c", HIDE_PYTHON, "sh", *super().argv(host, command)]


def printed(extent: str, shell: tuple[str, ...] = ("sh",)) -> HostCapture:
    done = subprocess.run(
        [*shell, "-s", "n1", "auto"],
        input=shellcollector.script(extent),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == b""
    return shellcollector.read_printed(done.stdout.decode())


@pytest.mark.parametrize("shell", [("sh",), ("bash", "--posix"), ("busybox", "sh")])
def test_it_says_what_python_says(shell):
    """Every source of layer-3 discovery has the state and, where nothing moves, the text of the Python collector."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed here")
    of_shell = printed("routes", shell)
    of_python = HostCapture.from_json(json.loads(json.dumps(collector.capture("n1", "auto", "routes"))))
    assert of_shell.role == of_python.role
    assert set(of_shell.files) == set(of_python.files)
    assert set(of_shell.commands) == set(of_python.commands)
    for name, entry in of_python.files.items():
        assert of_shell.files[name].state == entry.state, name
    for name in ("/proc/sys/kernel/osrelease", "/proc/sys/net/ipv4/ip_forward"):
        assert of_shell.text(name) == of_python.text(name)
    assert of_shell.json_of("ip -j addr") == of_python.json_of("ip -j addr")
    assert of_shell.json_of("ip -j route show table all") == of_python.json_of("ip -j route show table all")


def test_everything_is_asked_for():
    """`all` adds devices and tools; what is missing is absent, not an error."""
    found = printed("all")
    assert set(collector.MORE_COMMANDS) <= set(found.commands)
    for command in collector.MORE_COMMANDS:
        absent = found.commands[command].state is CaptureState.ABSENT
        assert absent == (shutil.which(command.split()[0]) is None), command
    assert found.text("/proc/cmdline")


def test_python_collects_everything_too():
    """The Python collector's `all` has at least the sources of the script's, and the links between devices."""
    of_python = HostCapture.from_json(json.loads(json.dumps(collector.capture("n1", "auto", "all"))))
    of_shell = printed("all")
    assert set(of_shell.commands) <= set(of_python.commands)
    assert {path for path in of_shell.files if path.startswith("/sys/class/net")} <= set(of_python.files)


@pytest.mark.parametrize(
    ("body", "state", "note"),
    [
        ("echo half; echo broken >&2; exit 3", CaptureState.ERROR, "broken"),
        ("echo 'Operation not permitted' >&2; exit 2", CaptureState.DENIED, "Operation not permitted"),
        ("exit 4", CaptureState.ERROR, "exit status 4"),
        ("printf '|x\\n= end\\n= file ok /forged\\n!y'", CaptureState.OK, ""),
    ],
)
def test_states_and_hostile_output(monkeypatch, tmp_path, body, state, note):
    """Refusal and failure are told apart; output that looks like the script's own records stays text."""
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    tool.chmod(0o755)
    monkeypatch.setattr(collector, "COMMANDS", (str(tool),))
    entry = printed("routes").commands[str(tool)]
    assert (entry.state, entry.note) == (state, note)
    if state is CaptureState.OK:
        assert entry.text == "|x\n= end\n= file ok /forged\n!y\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Welcome\n",
        "= nettune-capture-sh 1 host h1\n= file ok /x\n|1\n",
        "= nettune-capture-sh 1 host h1\nx\n= end\n",
    ],
)
def test_what_was_cut_is_refused(text):
    """An empty, cut or foreign output is an error, never a capture with holes."""
    with pytest.raises(InputError):
        shellcollector.read_printed(text)


@pytest.mark.lab
def test_a_node_without_python_is_collected():
    """`collect` asks such a node's sh, and the capture is of the same machine."""
    runner = functools.partial(run, WithoutPython(["n1", "n2"]))
    first, second = collect(lambda commands, timeout_s: runner(commands, timeout_s=timeout_s), ["n1", "n2"])
    assert (first.host, second.host) == ("n1", "n2")
    assert first.text("/proc/sys/kernel/osrelease") == Path("/proc/sys/kernel/osrelease").read_text(
        encoding="ascii"
    )
    assert first.json_of("ip -j addr") == second.json_of("ip -j addr")
