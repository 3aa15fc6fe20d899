"""Ranks behind one command each, for hosts that cannot be entered from this machine."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import IO

from nettune.launch import strays
from nettune.launch.base import Entry, Launcher
from nettune.launch.frames import FrameError
from nettune.launch.starting import start
from nettune.launch.transport import Notice, Plan, Watch, left, own_sys_path
from nettune.launch.wire import LineReader, Wire, readable


class _Pipes:
    """The local process of one rank (ssh, srun) with its three streams."""

    def __init__(self, rank: int, argv: list[str]) -> None:
        self.rank = rank
        self.process = start(argv, stdin=subprocess.PIPE)
        self.wire = Wire(_fd(self.process.stdout), _fd(self.process.stdin))
        self.log = LineReader(_fd(self.process.stderr))
        self.exited = False

    def close_streams(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _fd(stream: IO[bytes] | None) -> int:
    assert stream is not None
    return stream.fileno()


class PipedRanks:
    """One process of the launcher for each rank; frames over its standard input and output."""

    def __init__(self, launcher: Launcher, plan: Plan) -> None:
        self._launcher = launcher
        self._plan = plan
        self._watch = Watch()
        self._pipes: dict[int, _Pipes] = {}

    def start(self) -> None:
        """Start all ranks; each imports for itself.

        Raises:
            UnavailableError: a program of the launcher is missing.
        """
        command = self._plan.command("piped")
        for rank, host in enumerate(self._plan.placement):
            self._pipes[rank] = pipes = _Pipes(rank, self._launcher.argv(host, command))
            pipes.wire.skip_to_greeting()
            self._watch.add(pipes.wire.read_fd, lambda pipes=pipes: self._from_rank(pipes))  # type: ignore[misc]
            self._watch.flushing(pipes.wire)
            self._watch.lines(pipes.log, rank)
            pipes.wire.send(
                {
                    "spawn": rank,
                    "entry": asdict(Entry()),
                    "env": dict(self._plan.env[rank]),
                    "threads": self._plan.threads,
                    "preload": list(self._plan.preload),
                    "sys_path": own_sys_path(),
                }
            )

    def _from_rank(self, pipes: _Pipes) -> Iterable[Notice]:
        notices: list[Notice] = []
        try:
            for frame in pipes.wire.receive():
                if "exited" in frame:
                    pipes.exited = True
                    notices += self._drain_log(pipes)
                    notices.append(Notice("exited", pipes.rank, frame["status"]))
                else:
                    notices.append(Notice("frame", pipes.rank, frame))
        except FrameError as error:
            pipes.wire.closed = True
            notices.append(Notice("log", pipes.rank, f"nettune: its standard output is spoilt: {error}"))
        if pipes.wire.closed:
            self._watch.forget(pipes.wire.read_fd)
            if not pipes.exited:
                pipes.exited = True
                notices += self._drain_log(pipes)
                notices.append(Notice("exited", pipes.rank, self._status(pipes)))
        return notices

    @staticmethod
    def _drain_log(pipes: _Pipes) -> list[Notice]:
        notices: list[Notice] = []
        while not pipes.log.closed and readable(pipes.log.fd):
            notices += [Notice("log", pipes.rank, line) for line in pipes.log.receive()]
        return notices

    def _status(self, pipes: _Pipes) -> int | None:
        # The relay itself ends with 0; the rank's own status comes in a frame, so this is the launcher's.
        try:
            return pipes.process.wait(2.0)
        except subprocess.TimeoutExpired:
            return None

    def send(self, rank: int, frame: bytes) -> None:
        """Send an encoded frame to a rank without ever blocking."""
        self._pipes[rank].wire.send_encoded(frame)

    def signal(self, rank: int, signum: int) -> None:
        """Send a signal to a rank's process."""
        self._pipes[rank].wire.send({"signal": rank, "signum": signum})

    def kill(self, rank: int) -> None:
        """Kill a rank's process group."""
        self._pipes[rank].wire.send({"kill": rank})

    def poll(self, timeout_s: float) -> list[Notice]:
        """What happened, waiting at most so long for something to happen."""
        return self._watch.poll(timeout_s)

    def close(self, grace_s: float) -> None:
        """End all ranks, and whatever they left behind on this machine if they did not end cleanly."""
        everything, self._pipes = list(self._pipes.values()), {}
        clean = True
        try:
            for pipes in everything:
                pipes.wire.send({"exit": grace_s})
                # The end of its input ends the relay, whatever the launcher did with the frame.
                pipes.close_streams()
            deadline = time.monotonic() + grace_s + 6.0
            for pipes in everything:
                clean = _wait(pipes.process, left(deadline)) and clean
        except KeyboardInterrupt:
            clean = False
        finally:
            for pipes in everything:
                if pipes.process.poll() is None:
                    strays.end_group(pipes.process.pid)
                pipes.process.wait()
        if not clean:
            strays.end_marked(self._plan.mark)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        return process.wait(timeout_s) == 0
    except subprocess.TimeoutExpired:
        return False
