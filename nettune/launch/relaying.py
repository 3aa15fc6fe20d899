"""One rank behind standard input and output, for hosts that only a command can reach.

The process that the launcher starts stays small and single-minded: it forks the rank, relays frames, and
kills the rank when its input closes, also when the rank is stuck in C code and could not end itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from nettune.launch import strays
from nettune.launch.children import ChildExits
from nettune.launch.entering import adopt_orphans
from nettune.launch.forking import become_rank, redirect, stop
from nettune.launch.frames import FrameError
from nettune.launch.wire import GREETING, Wire, readable


class _Relay:
    """Moves frames between the caller and the one rank."""

    def __init__(self, caller: Wire) -> None:
        self._caller = caller
        self._rank: Wire | None = None
        self._pid = 0
        self._exits = ChildExits()

    def run(self) -> None:
        self._exits.listen()
        while not self._caller.closed:
            rank = self._rank
            reading = [self._caller.read_fd, self._exits.fileno()]
            writing = [self._caller.write_fd] if self._caller.waiting else []
            if rank is not None:
                reading.append(rank.read_fd)
                writing += [rank.write_fd] if rank.waiting else []
            readable, _, _ = select.select(reading, writing, [])
            self._caller.flush()
            if rank is not None:
                rank.flush()
                self._from_rank()
            if self._caller.read_fd in readable:
                for frame in self._caller.receive():
                    if not self._obey(frame):
                        return
            if self._exits.fileno() in readable:
                self._exits.clear()
                self._reap()

    def _obey(self, frame: dict[str, Any]) -> bool:
        if "spawn" in frame:
            self._spawn(frame)
        elif "kill" in frame:
            self.end()
        elif "signal" in frame:
            if self._pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, frame["signum"])
        elif "exit" in frame:
            self._leave(frame["exit"])
            return False
        elif self._rank is not None:
            self._rank.send(frame)
        return True

    def _spawn(self, request: dict[str, Any]) -> None:
        sys.path[:] = request["sys_path"]
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            self._exits.close()
            # A rank that kept these open would hide our end from the caller.
            os.close(self._caller.read_fd)
            os.close(self._caller.write_fd)
            # Standard output carries frames; what the rank prints goes where its errors go.
            become_rank(parent, theirs, os.dup(2), request)
        theirs.close()
        fd = ours.detach()
        self._rank = Wire(fd, fd)

    def _from_rank(self) -> None:
        if self._rank is None:
            return
        try:
            for frame in self._rank.receive():
                self._caller.send(frame)
        except FrameError:
            # The rank died inside a frame; its exit status, which follows, says more.
            self._rank.closed = True
        if self._rank.closed:
            os.close(self._rank.read_fd)
            self._rank = None

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                while self._rank is not None and readable(self._rank.read_fd):
                    self._from_rank()
                strays.end_group(pid)
                self._pid = 0
                self._caller.send({"exited": 0, "status": os.waitstatus_to_exitcode(status)})

    def _leave(self, grace_s: float) -> None:
        if self._rank is not None:
            os.close(self._rank.read_fd)
            self._rank = None
        until = time.monotonic() + grace_s
        while self._pid and time.monotonic() < until:
            time.sleep(0.002)
            self._reap()

    def end(self) -> None:
        """Kill the rank and what it started."""
        if self._pid:
            strays.end_process(self._pid)
            strays.end_group(self._pid)

    def end_all(self) -> None:
        """Kill the rank and, where its orphans had a session of their own, those too."""
        self.end()
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    strays.end_marked(os.environ.get(strays.MARK, ""))
                    time.sleep(0.002)
            except ChildProcessError:
                return


def main() -> int:
    """Serve the caller at the other end of standard input and output."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    redirect(os.dup(2))
    signal.signal(signal.SIGTERM, stop)
    adopt_orphans()
    os.write(write_fd, GREETING)
    relay = _Relay(Wire(read_fd, write_fd))
    try:
        with contextlib.suppress(FrameError):
            relay.run()
    finally:
        relay.end_all()
    return 0
