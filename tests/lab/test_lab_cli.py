"""`nettune lab ...` as a person types it: what it prints, and its exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from nettune.cli.main import run
from nettune.lab import Lab

pytestmark = pytest.mark.lab


@dataclass
class Done:
    stdout: str
    stderr: str


def nettune(*words, code=0):
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = run(["lab", *words])
    assert found == code, (words, out.getvalue(), err.getvalue())
    return Done(out.getvalue(), err.getvalue())


def nettune_exec(*words, code=0):
    """Run `nettune lab exec`, which becomes its command, in a process of its own."""
    argv = [sys.executable, "-m", "nettune", "lab", "exec", "-n", "typed", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    file = tmp_path_factory.mktemp("cli") / "lab.toml"
    file.write_text('name = "typed"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\n', encoding="utf-8")
    done = nettune("up", str(file))
    yield done.stdout
    nettune("down", "typed")
    assert "typed" not in Lab.names()


def test_up_says_what_is_up(typed):
    """One line: name, size, rates, who holds it."""
    assert typed.startswith("lab typed: 2 hosts (1 x 100mbit), 2 leaves, 1 spines")


def test_status_in_both_renderings(typed):
    """The text names the lab; the JSON has hosts, switches, links and faults."""
    assert "lab typed" in nettune("status").stdout
    found = json.loads(nettune("status", "--output", "json").stdout)
    lab = next(lab for lab in found["labs"] if lab["name"] == "typed")

    assert found["exit_code"] == 0
    assert lab["hosts"] == ["h0", "h1"]
    assert lab["switches"] == ["leaf0", "leaf1", "spine0"]
    assert ["h0", "eth0", "leaf0", "d0"] in lab["links"]
    assert lab["faults"] == []


def test_exec_ends_its_command_when_it_is_ended(typed, tmp_path):
    """As `timeout` and job managers do: SIGTERM to the process that became nsenter reaches the command."""
    told = tmp_path / "told"
    script = f"trap 'echo ended > {told}; exit' TERM; echo ready; while :; do sleep 0.1; done"
    argv = [sys.executable, "-m", "nettune", "lab", "exec", "-n", "typed", "h0", "sh", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        process.communicate(timeout=20)  # until the command, which holds the other end, is gone
    assert told.read_text() == "ended\n"


def test_exec_passes_output_options_and_exit_code(typed):
    """Everything after the host is the command's, with or without a separating --."""
    assert nettune_exec("h1", "hostname").stdout == "h1\n"
    assert nettune_exec("h1", "--", "sh", "-c", "echo $0; exit 9", code=9).stdout == "sh\n"
    assert "eth0" in nettune_exec("h1", "ip", "-br", "link", "show").stdout


def test_faults_from_the_command_line(typed):
    """Add, list, undo, each seen by the next process."""
    added = nettune("fault", "add", "slow-link", "-n", "typed", "-p", "to=40%", "-p", "link=h1").stdout
    listed = json.loads(nettune("fault", "list", "-n", "typed", "--output", "json").stdout)["faults"]
    name = listed[0]["id"]

    assert added == f"{name} slow-link: h1:eth0--leaf1:d0 slowed to 40 Mbit/s of 100 Mbit/s\n"
    assert [fault["where"] for fault in listed] == [["link/h1:eth0--leaf1:d0"]]
    assert nettune("fault", "undo", name, "-n", "typed").stdout.startswith(f"undone: {name}")
    assert nettune("fault", "list", "-n", "typed").stdout == "no fault is active\n"
    assert "one-way-slow" in nettune("fault", "kinds").stdout


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["up", "--name", "typed"], "lab 'typed' is up already"),
        (["up", "nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
        (["down", "other"], "no lab 'other' is up"),
        (["exec", "-n", "typed", "h9", "true"], "the lab has no host or switch 'h9'; its hosts are h0, h1"),
        (["fault", "add", "meteor", "-n", "typed"], "unknown fault 'meteor'"),
        (["fault", "add", "mtu", "-n", "typed", "-p", "mtu"], "--param 'mtu': write KEY=VALUE"),
        (["fault", "undo", "f99", "-n", "typed"], "no fault 'f99' is active"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(typed, words, error):
    """Bad input never ends in a traceback."""
    done = nettune(*words, code=2)

    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1
