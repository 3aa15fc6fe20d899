"""Ranks forked from one warm process on this machine."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from nettune.errors import NettuneError, UnavailableError
from nettune.launch import strays
from nettune.launch.base import Launcher
from nettune.launch.failures import LOG_LINES, describe_exit, import_failure
from nettune.launch.frames import FrameError, encode
from nettune.launch.transport import Notice, Plan, Watch, left, own_sys_path
from nettune.launch.wire import LineReader, Wire


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
        self._own_log: deque[str] = deque(maxlen=LOG_LINES)
        self._warm: dict[str, Any] | None = None
        self._failed: dict[str, Any] | None = None
        self._down = False

    @property
    def warm(self) -> dict[str, Any]:
        """What the warm process said of itself: `import_s`, `python_threads`, `kernel_threads`."""
        return dict(self._warm or {})

    def start(self, deadline: float) -> None:
        """Start the warm process, let it import, and fork the ranks.

        Raises:
            UnavailableError: a module, or a program of the launcher, is missing.
            NettuneError: the process did not come up.
        """
        _allow_files(2 * len(self._plan.placement) + 64)
        self._start_process()
        assert self._control_wire is not None
        self._control_wire.send({"sys_path": own_sys_path(), "preload": list(self._plan.preload)})
        while self._warm is None:
            notices = self.poll(left(deadline))
            if self._failed is not None:
                raise import_failure(self._failed)
            for notice in notices:
                if notice.kind == "down":
                    raise NettuneError(f"the agents did not start: {notice.payload}", "\n".join(self._own_log))
            if left(deadline) == 0:
                raise NettuneError(
                    f"the agents did not start in time: importing {', '.join(self._plan.preload) or 'nothing'}",
                    "\n".join(self._own_log),
                )
        for rank, host in enumerate(self._plan.placement):
            self._spawn(rank, host)

    def _start_process(self) -> None:
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._argv, stdin=theirs, stdout=log_write, stderr=log_write, start_new_session=True
            )
        except OSError as error:
            ours.close()
            os.close(log_read)
            raise UnavailableError(f"cannot run {self._argv[0]}: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(log_write)
        self._control = ours
        self._control_wire = Wire(ours.fileno(), ours.fileno())
        self._logs[-1] = reader = LineReader(log_read)
        self._watch.add(ours.fileno(), self._from_control)
        self._watch.flushing(self._control_wire)
        self._watch.lines(reader, None)

    def _spawn(self, rank: int, host: str) -> None:
        assert self._control is not None
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        request = {
            "spawn": rank,
            "entry": asdict(self._launcher.entry(host)),
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
                    self._failed = frame
                else:
                    self._warm = frame
        if self._control_wire.closed:
            self._watch.forget(self._control_wire.read_fd)
            self._down = True
            for rank in self._wires:
                notices += self._last_words(rank)
            notices += self._drain_log(-1)
            notices.append(Notice("down", None, f"the process that holds them {describe_exit(self._status())}"))
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
        while not wire.closed and (more := self._from_rank(rank)):
            notices += more
        return notices + self._drain_log(rank)

    def _drain_log(self, rank: int) -> list[Notice]:
        notices: list[Notice] = []
        reader = self._logs[rank]
        while not reader.closed:
            lines = reader.receive()
            if not lines:
                break
            notices += [Notice("log", rank if rank >= 0 else None, line) for line in lines]
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
        notices = self._watch.poll(timeout_s)
        self._own_log += [n.payload for n in notices if n.kind == "log" and n.rank is None]
        return notices

    def close(self, grace_s: float) -> None:
        """End the warm process and all ranks, and whatever they left behind if they did not end cleanly."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            for link in self._links.values():
                link.close()
            assert self._control_wire is not None
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
