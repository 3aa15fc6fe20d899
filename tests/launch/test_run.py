"""Running commands: order, streaming, time-outs, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from nettune.errors import UnavailableError
from nettune.launch import Command, LocalLauncher, run
from nettune.launch.run import as_they_end

HOST = LocalLauncher().hosts()[0]


def sh(script, **fields):
    return Command(HOST, ["sh", "-c", script], **fields)


def living(token):
    """Process ids that carry a token in their command line; a zombie has none."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if folder.name.isdigit() and token.encode() in words and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_outcomes_come_in_order_with_their_status():
    """Outcomes stand in the order of the commands, whichever ends first; signals are negative."""
    outcomes = run(LocalLauncher(), [sh("sleep 0.2; exit 4"), sh("true"), sh("kill -9 $$")], 20)
    assert [(o.rc, o.ok, o.timed_out) for o in outcomes] == [
        (4, False, False),
        (0, True, False),
        (-9, False, False),
    ]
    assert outcomes[0].wall_s >= 0.2
    assert outcomes[1].argv == ("sh", "-c", "true")


def test_lines_are_streamed_while_the_command_runs(tmp_path):
    """Lines arrive before the command ends: this command ends only because its first line was seen."""
    go_on = tmp_path / "go-on"
    seen = []

    def on_line(host, stream, line):
        seen.append((host, stream, line))
        go_on.touch()

    script = f"echo one; while ! [ -e {go_on} ]; do sleep 0.01; done; echo two >&2; printf three"
    (outcome,) = run(LocalLauncher(), [sh(script)], 20, on_line)
    assert outcome.ok
    assert sorted(seen) == [(HOST, "stderr", "two"), (HOST, "stdout", "one"), (HOST, "stdout", "three")]


def test_large_streams_both_ways():
    """Input and output far beyond a pipe's buffer neither block nor lose a byte."""
    text = "0123456789abcdef" * 200_000
    (outcome,) = run(LocalLauncher(), [Command(HOST, ["cat"], stdin=text.encode())], 20)
    assert outcome.stdout == text


def test_command_that_does_not_read_its_input():
    """Input that nobody reads is no error."""
    (outcome,) = run(LocalLauncher(), [sh("exec <&-; echo done", stdin=b"x" * 1_000_000)], 20)
    assert (outcome.rc, outcome.stdout) == (0, "done\n")


def test_no_more_than_max_parallel(tmp_path):
    """Never more than max_parallel commands are alive at the same time."""
    script = f"mkdir {tmp_path}/$$; ls {tmp_path} | wc -l; sleep 0.05; rmdir {tmp_path}/$$"
    outcomes = run(LocalLauncher(), [sh(script)] * 9, 20, max_parallel=3)
    counts = [int(outcome.stdout) for outcome in outcomes]
    assert max(counts) <= 3
    assert all(outcome.ok for outcome in outcomes)


def test_time_out_takes_the_family_but_not_the_neighbour():
    """At its time-out a command goes with its children, also one with its own session; others go on."""
    token = f"10{uuid.uuid4().int % 10**9}"
    outcomes = run(
        LocalLauncher(), [sh(f"setsid sleep {token} & sleep {token}"), sh("sleep 0.7; echo fine")], 1.0
    )
    assert [(o.rc, o.timed_out) for o in outcomes] == [(None, True), (0, False)]
    until(lambda: not living(token))


def test_time_out_of_a_command_that_ignores_sigterm():
    """A command that ignores the polite signal is killed."""
    (outcome,) = run(LocalLauncher(), [sh("trap '' TERM; while :; do sleep 0.05; done")], 0.2)
    assert outcome.timed_out


def test_time_out_lets_a_command_clean_up():
    """SIGTERM comes first, so that a launcher's program can end its remote parts."""
    (outcome,) = run(
        LocalLauncher(), [sh("trap 'echo cleaned; exit 1' TERM; while :; do sleep 0.05; done")], 0.3
    )
    assert (outcome.timed_out, outcome.stdout) == (True, "cleaned\n")


def test_background_children_end_with_their_command():
    """A child left in the background neither delays the outcome nor outlives it."""
    token = f"10{uuid.uuid4().int % 10**9}"
    (outcome,) = run(LocalLauncher(), [sh(f"sleep {token} & echo started")], 20)
    assert (outcome.rc, outcome.stdout) == (0, "started\n")
    until(lambda: not living(token))


def test_missing_program_of_the_launcher():
    """A launcher whose own program is absent is one line with its name."""

    class Broken(LocalLauncher):
        def argv(self, host, command):
            return ["nettune-no-such-ssh", host, *command]

    with pytest.raises(UnavailableError, match="cannot run nettune-no-such-ssh: No such file"):
        run(Broken(), [sh("true")], 5)


def test_error_in_on_line_ends_everything():
    """An exception of the caller's function comes through, and no command outlives it."""
    token = f"10{uuid.uuid4().int % 10**9}"

    def on_line(host, stream, line):
        raise KeyError(line)

    with pytest.raises(KeyError, match="hello"):
        run(LocalLauncher(), [sh(f"sleep {token}"), sh("sleep 0.1; echo hello")], 20, on_line)
    assert not living(token)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_commands_end_with_their_caller(signum):
    """Ctrl-C, SIGTERM and SIGKILL of the caller take all commands and their children down."""
    token = f"10{uuid.uuid4().int % 10**9}"
    program = (
        "from nettune.launch import *\n"
        f"script = 'sleep {token} & sleep {token}'\n"
        "run(LocalLauncher(), [Command('localhost', ['sh', '-c', script])] * 3, 600)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, start_new_session=True)
    try:
        # Three shells that have the token in their script, and two children of each.
        until(lambda: len(set(living(token)) - {caller.pid}) >= 9)
        caller.send_signal(signum)
        _, errors = caller.communicate(timeout=10)
    finally:
        caller.kill()
        caller.communicate()
    assert (b"KeyboardInterrupt" in errors) == (signum == signal.SIGINT)
    until(lambda: not living(token))


def test_a_flood_is_cut_and_its_neighbours_are_kept():
    """A command that prints without end is stopped at the bound, on either stream; the others' output is whole."""
    fine = "sleep 0.5; head -c 100000 /dev/zero | tr '\\0' x"
    outcomes = run(LocalLauncher(), [sh("cat /dev/zero"), sh(fine), sh("yes >&2")], 20, max_bytes=200_000)

    assert [(o.rc, o.flooded, o.timed_out) for o in outcomes] == [
        (None, True, False),
        (0, False, False),
        (None, True, False),
    ]
    assert outcomes[1].stdout == "x" * 100_000
    assert 0 < len(outcomes[0].stdout) <= 200_000
    assert outcomes[2].stderr.startswith("y\ny\n")


def test_a_command_that_ends_as_it_floods():
    """More than the bound and no more: it is a flood, too, whoever is faster."""
    (outcome,) = run(LocalLauncher(), [sh("head -c 300000 /dev/zero")], 20, max_bytes=200_000)
    assert (outcome.rc, outcome.flooded) == (None, True)


def test_outcomes_are_handed_on_as_they_end():
    """The quick one does not wait for the slow one; leaving early ends what runs."""
    token = f"10{uuid.uuid4().int % 10**9}"
    ended = as_they_end(LocalLauncher(), [sh(f"sleep {token}"), sh("true")], 60)
    number, outcome = next(ended)
    assert (number, outcome.ok) == (1, True)
    ended.close()
    assert not living(token)
