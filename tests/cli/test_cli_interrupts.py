"""`nettune demo` that is ended by Ctrl-C, SIGTERM or SIGKILL while it does different things: nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from nettune.lab import cgroups
from nettune.lab.frame.process import ProcessId, start_time
from nettune.records import read_records

pytestmark = [pytest.mark.lab, pytest.mark.slow]

GONE_WITHIN_S = 5.0
DEMO = ["-m", "nettune", "demo"]
# The same command on two hosts: it measures a few seconds after its start.
ON_TWO_HOSTS = """
from nettune.lab import LabSpec
from nettune.workflows import demo_setup
demo_setup.main_fabric = lambda name: LabSpec(name=name, leaves=2, spines=1, hosts_per_leaf=1)
from nettune.cli import main
main()
"""
TINY_DEMO = ["-c", ON_TWO_HOSTS, "demo"]
CTRL_C, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
# moment -> the command, what stderr says then, seconds to wait after that, what the demos (all at once) are sent
MOMENTS = {
    "lab up": (DEMO, "lab ...", 0.05, [CTRL_C, TERM, KILL]),
    "qualify": ([*DEMO, "--fault", "straggler"], "qualify: ", 0.2, [TERM, KILL]),
    "measuring": (TINY_DEMO, "initialisation 1 of 5", 0.1, [CTRL_C, KILL]),
}


class Story:
    """One demo in a folder of its own, with all that it makes."""

    def __init__(self, words: list[str]) -> None:
        # a socket's path in it must stay below 108 characters
        self.folder = Path(tempfile.mkdtemp(prefix="nettune-cut-"))
        self.mark = uuid.uuid4().hex
        self.stdout, self.stderr = self.folder / "stdout", self.folder / "stderr"
        environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.folder),
            "NETTUNE_TEST_STORY": self.mark,
        }
        with self.stdout.open("w") as out, self.stderr.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *words], cwd=self.folder, env=environment, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.environment = environment
        self.made: dict[int, int] = {}

    def wait_for(self, text: str) -> None:
        """Wait until stderr holds a text."""
        deadline = time.monotonic() + 90
        while text not in self.stderr.read_text(encoding="utf-8"):
            assert self.process.poll() is None, self.stderr.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, self.stderr.read_text(encoding="utf-8")
            time.sleep(0.02)

    def remember(self) -> None:
        """Note all its processes, the lab's included, as they are now."""
        roots = [self.process.pid, *holders(self.folder)]
        for pid in [*roots, *descendants(roots)]:
            started = start_time(pid)
            if started is not None:
                self.made[pid] = started

    def left(self) -> list[str]:
        """Processes that are still there of it; a lab's namespaces live in them and in their mounts alone."""
        mark = f"NETTUNE_TEST_STORY={self.mark}".encode()
        found = [f"process {pid}" for pid, started in self.made.items() if start_time(pid) == started]
        marked = [pid for pid in processes() if mark in read(Path(f"/proc/{pid}/environ")).split(b"\0")]
        return [*found, *(f"process {pid} of this story" for pid in marked)]

    def groups(self) -> list[Path]:
        """CPU groups that are still there of it."""
        paths = [cgroups.group_path(ProcessId(pid, started), "*") for pid, started in self.made.items()]
        return [group for path in paths if path is not None for group in path.parent.glob(path.name)]

    def end(self) -> None:
        """Remove everything, whatever happened."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder)


def processes() -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            yield int(folder.name)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def holders(runtime: Path) -> list[int]:
    """First processes of the labs whose states lie in a folder."""
    states = [json.loads(read(file) or b"{}") for file in runtime.glob("nettune-lab/*.json")]
    return [state["holder"]["pid"] for state in states if state]


def descendants(roots: list[int]) -> set[int]:
    """Children of processes, and theirs."""
    parents = {}
    for pid in processes():
        fields = read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
        if fields:
            parents[pid] = int(fields[1])
    found: set[int] = set()
    while new := {pid for pid, parent in parents.items() if parent in found | set(roots)} - found:
        found |= new
    return found


def seen_outside() -> tuple[set[str], list[str]]:
    """Interfaces and mounted namespaces of this process's own network and mounts."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {path.name for path in Path("/sys/class/net").iterdir()}, [
        line for line in mounts if " nsfs " in line
    ]


@pytest.fixture
def stories():
    started: list[Story] = []
    yield started
    for story in started:
        story.end()


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_of_a_demo_that_was_ended(stories, moment):
    """Ctrl-C and SIGTERM: one line, exit 2. All three: no process, namespace or interface is left; only whole files."""
    words, text, delay_s, signals = MOMENTS[moment]
    before = seen_outside()
    for _ in signals:
        stories.append(Story(words))
    for story in stories:
        story.wait_for(text)
    time.sleep(delay_s)
    for story in stories:
        story.remember()
    for story, number in zip(stories, signals, strict=True):
        if number == CTRL_C:
            os.killpg(story.process.pid, number)  # as a terminal does: the whole foreground group
        else:
            story.process.send_signal(number)

    deadline = time.monotonic() + GONE_WITHIN_S
    while any(story.process.poll() is None or story.left() for story in stories):
        assert time.monotonic() < deadline, [(story.process.poll(), story.left()) for story in stories]
        time.sleep(0.05)
    assert [story.process.returncode for story in stories] == [
        -KILL if number == KILL else 2 for number in signals
    ]
    assert seen_outside() == before
    for story, number in zip(stories, signals, strict=True):
        said = story.stderr.read_text(encoding="utf-8")
        assert "Traceback" not in said
        assert "Exception ignored" not in said
        assert said.count("error: ") == (0 if number == KILL else 1)
        assert number == KILL or said.endswith("error: interrupted\n")
        assert story.stdout.read_text(encoding="utf-8") == ""
        assert only_whole_files(story.folder / "runs")
        if number != KILL:  # kill -9 leaves an empty group, which the next lab command removes
            assert story.groups() == []
    assert next_command_works(stories[-1])
    assert stories[-1].groups() == []


def only_whole_files(runs: Path) -> bool:
    """The run directory holds records, the last line of which may be torn, and no other file yet."""
    files = [path for path in runs.rglob("*") if path.is_file()]
    for path in files:
        assert path.name == "records.jsonl", files
        list(read_records(path))
    return True


def next_command_works(story: Story) -> bool:
    """The next lab comes up and goes, and with it what was known of the one that was killed."""
    for words in (["up"], ["down"]):
        done = subprocess.run(
            [sys.executable, "-m", "nettune", "lab", *words],
            env=story.environment, cwd=story.folder, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (story.folder / "nettune-lab").iterdir()} == {"lock"}
    return True
