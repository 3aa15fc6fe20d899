"""Ranks forked from one warm process on this machine."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from nettune.errors import UnavailableError
from nettune.launch import strays
from nettune.launch.base import Launcher
from nettune.launch.failures import describe_exit
from nettune.launch.frames import FrameError, encode
from nettune.launch.starting import start
from nettune.launch.transport import Notice, Plan, Watch, left, own_sys_path
from nettune.launch.wire import LineReader, Wire, readable


class ForkedRanks:
    """One warm process that imports once, and a child of it for each rank.

    The control socket is the warm process's standard input; the socket and the log pipe of each rank are
    passed over it. Everything ends when the control socket closes, however that came about.
    """

    def __init__(self, launcher: Launcher, argv: list[str], plan: Plan) -> None:
        self._launcher = launcher
        self._argv = argv
        self._plan = plan
        self._watch = Watch()
        self._wires: dict[int, Wire] = {}
        self._links: dict[int, socket.socket] = {}
        self._logs: dict[int, LineReader] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._control_wire: Wire | None = None
        self._entries: list[dict[str, Any]] = []
        self._warm: dict[str, Any] = {}

    @property
    def warm(self) -> dict[str, Any]:
        """What the warm process said of itself: its process id `warm`, `import_s`, and `threads` alive at a fork."""
        return dict(self._warm)

    def start(self) -> None:
        """Start the warm process; `poll` forks the ranks when it has imported what it should.

        Raises:
            UnavailableError: a program of the launcher is missing.
            NettuneError: the launcher does not know a host.
        """
        _allow_files(2 * len(self._plan.placement) + 64)
        self._entries = [asdict(self._launcher.entry(host)) for host in self._plan.placement]
        self._start_process()
        assert self._control_wire is not None
        self._control_wire.send({"sys_path": own_sys_path(), "preload": list(self._plan.preload)})

    def _start_process(self) -> None:
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        try:
            self._process = start(self._argv, stdin=theirs.fileno(), stdout=log_write, stderr=log_write)
        except UnavailableError:
            ours.close()
            os.close(log_read)
            raise
        finally:
            theirs.close()
            os.close(log_write)
        self._control = ours
        self._control_wire = Wire(ours.fileno(), ours.fileno())
        self._logs[-1] = reader = LineReader(log_read)
        self._watch.add(ours.fileno(), self._from_control)
        self._watch.flushing(self._control_wire)
        self._watch.lines(reader, None)

    def _spawn(self, rank: int) -> None:
        assert self._control is not None
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        request = {
            "spawn": rank,
            "entry": self._entries[rank],
            "env": dict(self._plan.env[rank]),
            "threads": self._plan.threads,
        }
        wire = Wire(ours.fileno(), ours.fileno())
        self._links[rank], self._wires[rank] = ours, wire
        self._logs[rank] = reader = LineReader(log_read)
        self._watch.add(ours.fileno(), lambda: self._from_rank(rank))
        self._watch.flushing(wire)
        self._watch.lines(reader, rank)
        try:
            # Blocking, because descriptors go with the first byte; the reader is a loop that never waits for us.
            self._control.settimeout(30.0)
            data = encode(request)
            sent = socket.send_fds(self._control, [data], [theirs.fileno(), log_write])
            self._control.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            # The end of the warm process is reported by the next poll.
            pass
        finally:
            self._control.setblocking(False)
            theirs.close()
            os.close(log_write)

    def _from_control(self) -> Iterable[Notice]:
        assert self._control_wire is not None
        notices: list[Notice] = []
        with contextlib.suppress(FrameError):
            for frame in self._control_wire.receive():
                if "exited" in frame:
                    notices += self._last_words(frame["exited"])
                    notices.append(Notice("exited", frame["exited"], frame["status"]))
                elif "failed" in frame:
                    notices.append(Notice("failed", None, frame))
                else:
                    self._warm = frame
                    for rank in range(len(self._entries)):
                        self._spawn(rank)
        if self._control_wire.closed:
            self._watch.forget(self._control_wire.read_fd)
            for rank in self._wires:
                notices += self._last_words(rank)
            notices += self._drain_log(-1)
            notices.append(
                Notice("down", None, f"the process that holds them {describe_exit(self._status())}")
            )
        return notices

    def _status(self) -> int | None:
        assert self._process is not None
        try:
            return self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            return None

    def _last_words(self, rank: int) -> list[Notice]:
        """What an ended rank had still sent: its frames and log lines come before the news of its end."""
        notices: list[Notice] = []
        wire = self._wires[rank]
        while not wire.closed and readable(wire.read_fd):
            notices += self._from_rank(rank)
        return notices + self._drain_log(rank)

    def _drain_log(self, rank: int) -> list[Notice]:
        notices: list[Notice] = []
        reader = self._logs[rank]
        while not reader.closed and readable(reader.fd):
            notices += [Notice("log", rank if rank >= 0 else None, line) for line in reader.receive()]
        return notices

    def _from_rank(self, rank: int) -> list[Notice]:
        wire = self._wires[rank]
        notices: list[Notice] = []
        # A frame torn by the rank's death is dropped here; its exit status is reported by the warm process.
        with contextlib.suppress(FrameError):
            notices = [Notice("frame", rank, frame) for frame in wire.receive()]
        if wire.closed:
            self._watch.forget(wire.read_fd)
        return notices

    def send(self, rank: int, frame: bytes) -> None:
        """Send an encoded frame to a rank without ever blocking."""
        self._wires[rank].send_encoded(frame)

    def signal(self, rank: int, signum: int) -> None:
        """Send a signal to a rank's process."""
        if self._control_wire is not None:
            self._control_wire.send({"signal": rank, "signum": signum})

    def kill(self, rank: int) -> None:
        """Kill a rank's process group."""
        if self._control_wire is not None:
            self._control_wire.send({"kill": rank})

    def poll(self, timeout_s: float) -> list[Notice]:
        """What happened, waiting at most so long for something to happen."""
        return self._watch.poll(timeout_s)

    def close(self, grace_s: float) -> None:
        """End the warm process and all ranks, and whatever they left behind if they did not end cleanly."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            for link in self._links.values():
                link.close()
            assert self._control_wire is not None
            if not self._warm:
                # It is still importing and hears nothing.
                strays.end_group(process.pid)
            self._control_wire.send({"exit": grace_s})
            assert self._control is not None
            # The end of our stream says the same as the frame, should the frame not fit.
            self._control.shutdown(socket.SHUT_WR)
            # Nobody reads logs any more: whoever still writes must not wait for it.
            self._close_logs()
            clean = _wait(process, grace_s + 6.0) == 0
        except (OSError, KeyboardInterrupt):
            clean = False
        finally:
            if process.poll() is None:
                strays.end_group(process.pid)
            process.wait()
            self._close_logs()
            assert self._control is not None
            self._control.close()
        if not clean:
            strays.end_marked(self._plan.mark)

    def _close_logs(self) -> None:
        for reader in self._logs.values():
            os.close(reader.fd)
        self._logs.clear()


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    until = time.monotonic() + timeout_s
    try:
        return process.wait(left(until))
    except subprocess.TimeoutExpired:
        return None


def _allow_files(needed: int) -> None:
    """Raise the soft limit of open files where the hard one allows it; each rank needs two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
