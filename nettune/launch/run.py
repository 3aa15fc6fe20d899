"""Running commands on hosts: output streamed, exit codes collected, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from typing import Literal

from nettune.launch import strays
from nettune.launch.base import Command, Launcher, Outcome
from nettune.launch.guard import Guard
from nettune.launch.starting import start
from nettune.launch.wire import LineReader

OnLine = Callable[[str, Literal["stdout", "stderr"], str], None]

_TERM_S = 1.0
"""Between asking a process group to end and killing it: mpirun and srun end their remote parts then."""

MOST_OUTPUT_BYTES = 256 << 20
"""Of one stream of one command: a host that floods is stopped before it takes the memory of all."""

_FLOOD_SHOWN = 1 << 16
"""Bytes that are kept of a flood."""

_TICK_S = 0.05
"""How often to look for a command that ended while a child of it still holds its output open."""


class _Job:
    """One running command."""

    def __init__(self, index: int, command: Command, argv: list[str], timeout_s: float) -> None:
        self.index = index
        self.command = command
        self.started = time.monotonic()
        self.deadline = self.started + timeout_s
        self.kill_at: float | None = None
        self.flooded = False
        self.process = start(argv, stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.streams: dict[Literal["stdout", "stderr"], LineReader] = {
            "stdout": LineReader(self.process.stdout.fileno(), keep=True),
            "stderr": LineReader(self.process.stderr.fileno(), keep=True),
        }
        self.unsent = memoryview(command.stdin or b"")
        if self.process.stdin is not None:
            os.set_blocking(self.process.stdin.fileno(), False)
            self.feed()

    def feed(self) -> None:
        """Give the command more of its standard input, and its end after the last byte."""
        stdin = self.process.stdin
        if stdin is None or stdin.closed:
            return
        try:
            while self.unsent:
                self.unsent = self.unsent[os.write(stdin.fileno(), self.unsent[: 1 << 16]) :]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            # A command may well end without having read all of its input.
            self.unsent = self.unsent[:0]
        stdin.close()

    def exited(self) -> bool:
        """It has ended; it stays unreaped, so that its number still names its process group."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def silent(self) -> bool:
        """Both of its output streams have ended."""
        return all(reader.closed for reader in self.streams.values())

    def send(self, signum: int) -> None:
        """Send a signal to its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signum)

    def finish(self) -> int:
        """Kill what is left of its group, reap it and release its streams; its exit status."""
        self.send(signal.SIGKILL)
        status = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return status


def run(
    launcher: Launcher,
    commands: Sequence[Command],
    timeout_s: float,
    on_line: OnLine | None = None,
    max_parallel: int = 32,
    max_bytes: int = MOST_OUTPUT_BYTES,
) -> list[Outcome]:
    """Run commands on their hosts, at most `max_parallel` at a time.

    A command's background children are stopped when it ends. On a time-out, and when it floods, the whole process
    group gets SIGTERM and a second later SIGKILL; the same on Ctrl-C and on any error. The groups are killed too when
    this process is killed. A command that is not found gives exit status 127, as over ssh.

    Args:
        launcher: how to reach the hosts.
        commands: what to run where.
        timeout_s: time for each command from its own start, in seconds.
        on_line: called with (host, "stdout" or "stderr", line) for every line as it comes.
        max_parallel: how many run at once.
        max_bytes: a command that prints more than that on one stream is stopped.

    Returns:
        One outcome for each command, in the order of `commands`.

    Raises:
        UnavailableError: the launcher's own program (ssh, nsenter) is missing.
        NettuneError: the launcher does not know a host.
    """
    outcomes = dict(as_they_end(launcher, commands, timeout_s, on_line, max_parallel, max_bytes))
    return [outcomes[index] for index in range(len(commands))]


def as_they_end(
    launcher: Launcher,
    commands: Sequence[Command],
    timeout_s: float,
    on_line: OnLine | None = None,
    max_parallel: int = 32,
    max_bytes: int = MOST_OUTPUT_BYTES,
) -> Generator[tuple[int, Outcome], None, None]:
    """`run`, but each outcome, with the number of its command, as soon as it is there; none is kept.

    Closing the generator ends what still runs.
    """
    mark = os.urandom(8).hex()
    waiting = list(enumerate(commands))[::-1]
    running: list[_Job] = []
    clean = True
    with Guard() as guard:
        try:
            while waiting or running:
                while waiting and len(running) < max_parallel:
                    index, command = waiting.pop()
                    job = _Job(index, command, _argv(launcher, command, mark), timeout_s)
                    guard.add(job.process.pid)
                    running.append(job)
                _move(running, on_line, max_bytes)
                for job in list(running):
                    _hurry(job)
                    if job.exited():
                        clean = clean and job.kill_at is None
                        _read(job, on_line, max_bytes, to_the_end=True)
                        running.remove(job)
                        outcome = _outcome(job)
                        guard.discard(job.process.pid)
                        yield job.index, outcome
        except BaseException:
            clean = False
            _end(running)
            raise
        finally:
            if not clean:
                # Children with a session of their own have left the group, but not lost the mark.
                strays.end_marked(mark)


def _argv(launcher: Launcher, command: Command, mark: str) -> list[str]:
    # `env` works on every host, also through launchers that pass no environment on.
    marked = [f"{strays.MARK}={mark}", *(f"{name}={value}" for name, value in command.env.items())]
    return launcher.argv(command.host, ["env", *marked, *command.argv])


def _move(running: Sequence[_Job], on_line: OnLine | None, max_bytes: int) -> None:
    """Wait for something to happen and move what can be moved."""
    poller = select.poll()
    feeding = False
    for job in running:
        for reader in job.streams.values():
            if not reader.closed and not job.flooded:
                poller.register(reader.fd, select.POLLIN)
        if job.unsent and job.process.stdin is not None:
            poller.register(job.process.stdin.fileno(), select.POLLOUT)
            feeding = True
    # A command whose streams have ended is about to end itself.
    soon = any(job.silent() for job in running)
    poller.poll((0.002 if soon else _TICK_S) * 1000)
    for job in running:
        if feeding:
            job.feed()
        _read(job, on_line, max_bytes, to_the_end=False)


def _read(job: _Job, on_line: OnLine | None, max_bytes: int, *, to_the_end: bool) -> None:
    for name, reader in job.streams.items():
        while not reader.closed and not job.flooded:
            before = len(reader.kept)
            if on_line is None:
                reader.read()
            else:
                for line in reader.receive():
                    on_line(job.command.host, name, line)
            job.flooded = len(reader.kept) > max_bytes
            if job.flooded:
                del reader.kept[_FLOOD_SHOWN:]
            if not to_the_end or len(reader.kept) == before:
                break


def _hurry(job: _Job) -> None:
    """Ask, then force, a command to end when its time is up."""
    now = time.monotonic()
    if job.kill_at is None:
        if now >= job.deadline or job.flooded:
            job.kill_at = now + _TERM_S
            job.send(signal.SIGTERM)
    elif now >= job.kill_at:
        job.send(signal.SIGKILL)


def _outcome(job: _Job) -> Outcome:
    stopped = job.kill_at is not None or job.flooded
    status = job.finish()
    return Outcome(
        host=job.command.host,
        argv=tuple(job.command.argv),
        rc=None if stopped else status,
        stdout=job.streams["stdout"].kept.decode(errors="replace"),
        stderr=job.streams["stderr"].kept.decode(errors="replace"),
        timed_out=stopped and not job.flooded,
        wall_s=time.monotonic() - job.started,
        flooded=job.flooded,
    )


def _end(running: Sequence[_Job]) -> None:
    """End all commands, the polite ones first; a second Ctrl-C cuts the politeness short."""
    try:
        for job in running:
            job.send(signal.SIGTERM)
        until = time.monotonic() + _TERM_S
        while time.monotonic() < until and not all(job.exited() for job in running):
            time.sleep(0.005)
    finally:
        for job in running:
            job.finish()
