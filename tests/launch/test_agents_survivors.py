"""Nothing outlives the agents, however their caller or the warm process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nettune.launch import AgentError, Agents, strays

PROGRAM = """
import json, sys, time
from nettune.launch import Agents, LocalLauncher

class Here(LocalLauncher):
    def root_argv(self, command):
        return list(command) if {forked} else None

with Agents(Here(["a", "b", "c"]), ["a", "b", "c"]) as agents:
    agents.call("launch_work:flee", ranks=[0])
    print(json.dumps(agents.mark), flush=True)
    if {busy}:
        agents.call("launch_work:hang_in_c", lambda rank: {{"rank": rank, "on": 1}}, timeout_s=1000)
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("signum", "forked", "busy"),
    [
        (signal.SIGINT, True, True),
        (signal.SIGINT, False, False),
        (signal.SIGTERM, True, False),
        (signal.SIGKILL, True, False),
        (signal.SIGKILL, True, True),
        (signal.SIGKILL, False, True),
    ],
)
def test_agents_end_with_their_caller(signum, forked, busy, gone):
    """Ctrl-C, SIGTERM or SIGKILL of the caller, between calls or in one, leaves no rank and no child of one."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = PROGRAM.format(forked=forked, busy=busy)
    caller = subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        mark = json.loads(caller.stdout.readline())
        # The ranks, what they fled to (which may still be starting), and the process or processes in between.
        until = time.monotonic() + 10
        while len(strays.marked(mark)) < 6:
            assert time.monotonic() < until
            time.sleep(0.01)
        caller.send_signal(signum)
        _, errors = caller.communicate(timeout=15)
    finally:
        caller.kill()
        caller.communicate()
    assert ("KeyboardInterrupt" in errors) == (signum == signal.SIGINT)
    gone(mark)


def test_ranks_end_when_caller_and_warm_process_are_both_killed(gone):
    """With nobody left to look after them, the kernel ends the ranks, also one that is stuck in C."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = (
        "import json, sys\n"
        "from nettune.launch import Agents, LocalLauncher\n"
        "with Agents(LocalLauncher(), ['localhost'] * 3) as agents:\n"
        "    warm = agents.call('launch_work:identity')[0]['parent']\n"
        "    def tell(rank, event):\n"
        "        print(json.dumps([agents.mark, warm]), flush=True)\n"
        "    agents.call('launch_work:hang_in_c', lambda rank: {'rank': rank, 'on': 1}, timeout_s=1000, on_event=tell)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
    try:
        mark, warm = json.loads(caller.stdout.readline())
        assert len(strays.marked(mark)) == 4
        # Held still first, so that neither can act on the other's death.
        os.kill(warm, signal.SIGSTOP)
        caller.kill()
        os.kill(warm, signal.SIGKILL)
        caller.communicate(timeout=15)
    finally:
        caller.kill()
        caller.communicate()
    gone(mark)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM], ids=lambda s: s.name)
def test_death_of_the_warm_process_is_told_and_takes_all_along(local_launcher, signum, gone):
    """When the warm process ends during a call, the call says so at once and no rank lives on."""
    with Agents(local_launcher, ["a", "b", "c"]) as agents:
        warm = agents.call("launch_work:identity", ranks=[0])[0]["parent"]
        agents.call("launch_work:flee", ranks=[0])

        def on_event(rank, event):
            os.kill(warm, signum)

        with pytest.raises(AgentError, match="the process that holds them") as caught:
            agents.call(
                "launch_work:hang_in_c",
                lambda rank: {"rank": rank, "on": 1},
                timeout_s=500,
                on_event=on_event,
            )
        if signum == signal.SIGKILL:
            assert "was killed by SIGKILL" in str(caught.value)
    gone(agents.mark)


def test_death_of_a_relay_is_told_and_takes_its_rank_along(piped_launcher, gone):
    """When the local end of one rank (its ssh) is killed, that rank is named and does not live on."""
    with Agents(piped_launcher, ["a", "b", "c"]) as agents:
        relay = agents.call("launch_work:identity", ranks=[1])[0]["parent"]

        def on_event(rank, event):
            os.kill(relay, signal.SIGKILL)

        with pytest.raises(AgentError, match="rank 1 on b was killed by SIGKILL"):
            agents.call(
                "launch_work:hang_in_c",
                lambda rank: {"rank": rank, "on": 1},
                timeout_s=500,
                on_event=on_event,
            )
    gone(agents.mark)


def test_exception_in_the_with_block_leaves_nothing(local_launcher, gone):
    """An error of the caller's own code ends the agents on its way out."""
    marks = []

    def work():
        with Agents(local_launcher, ["a", "b"]) as agents:
            marks.append(agents.mark)
            agents.call("launch_work:flee")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    gone(*marks)


@pytest.mark.parametrize("kind", ["local", "piped"])
def test_children_of_a_stopped_rank_end_with_it(kind, request):
    """What a hung rank had started ends when the rank is stopped, while the other ranks work on."""
    launcher = request.getfixturevalue(f"{kind}_launcher")
    children = []
    with Agents(launcher, ["a", "b"]) as agents:
        with pytest.raises(AgentError, match="rank 0 on a did not answer"):
            agents.call(
                "launch_work:hang_with_child",
                ranks=[0],
                timeout_s=1.0,
                on_event=lambda rank, event: children.append(event["child"]),
            )
        until = time.monotonic() + 5
        # A zombie, which nobody has collected yet, has an empty command line.
        while any(commands := [words for pid in children if (words := command(pid))]):
            assert time.monotonic() < until, commands
            time.sleep(0.01)
        assert len(children) == 1
        assert agents.call("launch_work:echo", {"value": 1}, ranks=[1]) == [1]


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
