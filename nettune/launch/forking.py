"""The warm process: imports once, forks one rank per request, reports and ends its ranks."""

from __future__ import annotations

import contextlib
import ctypes  # noqa: F401 - loaded before the fork so that no rank pays for it
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from nettune.launch import agent, strays
from nettune.launch.children import ChildExits
from nettune.launch.entering import EntryError, adopt_orphans, die_with_parent, enter
from nettune.launch.frames import Decoder, encode


def become_rank(parent: int, link: socket.socket, log_fd: int | None, request: Mapping[str, Any]) -> NoReturn:
    """Turn a process that was just forked into the rank that `request` describes, and serve until the end.

    Args:
        parent: process id of the forking process; the rank ends with it.
        link: the rank's socket to its caller.
        log_fd: where the rank's standard output and error go; None keeps them.
        request: `entry` (an `Entry` as a mapping), `env`, `threads`, and `preload` where the forking process
            did not import the modules itself.
    """
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        redirect(log_fd)
        os.environ.update(request["env"])
        try:
            enter(request["entry"])
            die_with_parent(parent)
        except EntryError as error:
            link.sendall(encode({"refused": str(error)}))
            os._exit(2)
        failed = agent.preload(request.get("preload", ()))
        if failed is not None:
            link.sendall(encode(failed))
            os._exit(2)
        agent.serve(link, request["threads"])
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the parent's frames after a fork
        traceback.print_exc()
    finally:
        # Not sys.exit: exit handlers and destructors of forked libraries may hang, and nobody waits for them.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def redirect(log_fd: int | None) -> None:
    """Take standard input away and send standard output and error to `log_fd`, which is closed, if given."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if log_fd is not None:
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.close(log_fd)


class _Ranks:
    """The forked ranks of this process, by rank."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._decoder = Decoder()
        self._fds: list[int] = []
        self._pids: dict[int, int] = {}
        self._leaving = False
        self._exits = ChildExits()

    def run(self) -> None:
        """Obey the caller until it says exit or is gone."""
        self._exits.listen()
        while True:
            readable, _, _ = select.select([self._control.fileno(), self._exits.fileno()], [], [])
            self._exits.clear()
            self._reap()
            if self._control.fileno() in readable and not self._obey():
                return

    def _obey(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 1 << 16, 64)
        except ConnectionResetError:
            return False
        self._fds += fds
        if not data:
            return False
        for frame in self._decoder.feed(data):
            if "spawn" in frame:
                self._spawn(frame)
            elif "kill" in frame:
                self._end(frame["kill"])
            elif "signal" in frame:
                self._signal(frame["signal"], frame["signum"])
            elif "exit" in frame:
                self._wait_for_ranks(frame["exit"])
                return False
        return True

    def _spawn(self, request: Mapping[str, Any]) -> None:
        # Descriptors arrive in the order of the requests, two for each.
        link_fd, log_fd = self._fds.pop(0), self._fds.pop(0)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._control.close()
            self._exits.close()
            for spare in self._fds:
                os.close(spare)
            become_rank(parent, socket.socket(fileno=link_fd), log_fd, request)
        os.close(link_fd)
        os.close(log_fd)
        self._pids[request["spawn"]] = pid

    def _end(self, rank: int) -> None:
        pid = self._pids.get(rank)
        if pid is not None:
            # The process first: it may not have reached setsid yet.
            strays.end_process(pid)
            strays.end_group(pid)

    def _signal(self, rank: int, signum: int) -> None:
        pid = self._pids.get(rank)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def _reap(self) -> bool:
        """Collect ended children, ranks or adopted; False when there are none left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            for rank, known in list(self._pids.items()):
                if known == pid:
                    del self._pids[rank]
                    # What the rank had started goes with it.
                    strays.end_group(pid)
                    self._tell({"exited": rank, "status": os.waitstatus_to_exitcode(status)})

    def _wait_for_ranks(self, grace_s: float) -> None:
        until = time.monotonic() + grace_s
        while self._pids and (left := until - time.monotonic()) > 0:
            select.select([self._exits], [], [], left)
            self._exits.clear()
            self._reap()

    def _tell(self, frame: Mapping[str, Any]) -> None:
        # Ranks that this process ends on its way out did not fail: its own end is the news.
        if not self._leaving:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._control.sendall(encode(frame))

    def end_all(self) -> None:
        """Kill every rank and every process that one of them left behind."""
        self._leaving = True
        for rank in list(self._pids):
            self._end(rank)
        until = time.monotonic() + 5.0
        while self._reap() and time.monotonic() < until:
            if not self._pids:
                # Only adopted orphans are left: they had a session of their own.
                strays.end_marked(os.environ.get(strays.MARK, ""))
            time.sleep(0.002)


def stop(*_: object) -> NoReturn:
    """Signal handler: leave through the `finally` that ends the ranks."""
    # As a shell tells it.
    raise SystemExit(128 + signal.SIGTERM)


def main() -> int:
    """Serve the caller at the other end of standard input, which is a Unix socket."""
    control = socket.socket(fileno=os.dup(0))
    redirect(None)
    signal.signal(signal.SIGTERM, stop)
    adopt_orphans()
    start = time.monotonic()
    setup = _first_frame(control)
    if setup is None:
        return 0
    sys.path[:] = setup["sys_path"]
    failed = agent.preload(setup["preload"])
    if failed is not None:
        control.sendall(encode(failed))
        return 2
    import_s = time.monotonic() - start
    threads = _threads_at_a_fork()
    if threads > 1:
        # Most such threads are harmless watchers, so this is a line for the error that may come, no refusal.
        print(
            f"importing {', '.join(setup['preload'])} left {threads - 1} threads, which ranks lack",
            file=sys.stderr,
        )
    # Objects of the imports stay shared between the ranks: the collector never touches, so never copies, them.
    gc.collect()
    gc.freeze()
    ranks = _Ranks(control)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            control.sendall(encode({"warm": os.getpid(), "import_s": import_s, "threads": threads}))
            ranks.run()
    finally:
        ranks.end_all()
    return 0


def _first_frame(control: socket.socket) -> dict[str, Any] | None:
    decoder = Decoder()
    while True:
        data = control.recv(1 << 16)
        if not data:
            return None
        frames = decoder.feed(data)
        if frames:
            return frames[0]


def _threads_at_a_fork() -> int:
    """Threads of this process that would be alive at a fork, those of C libraries included.

    Libraries such as OpenBLAS end their pool before a fork and start it again at need, so one fork is tried.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 1
