"""What the caller's side needs from the processes of the ranks, however they were started."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import nettune
from nettune.launch import strays
from nettune.launch.wire import LineReader, Wire


@dataclass(frozen=True)
class Plan:
    """What to start: one rank per place.

    Attributes:
        placement: host of each rank.
        preload: modules that every rank has imported before its first call.
        env: additional environment of each rank.
        threads: threads that numeric libraries may use in a rank.
        python: interpreter on the hosts.
        mark: value of the environment variable that marks all processes.
    """

    placement: Sequence[str]
    preload: Sequence[str]
    env: Sequence[Mapping[str, str]]
    threads: int
    python: str
    mark: str

    def command(self, form: str) -> list[str]:
        """Command of an agent process in one of the two forms of `nettune.launch.agent`."""
        # Pools are sized when the libraries load, so this must stand before the interpreter starts.
        sizes = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        home = str(Path(nettune.__file__).parent.parent)
        path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        return [
            # `env` carries the variables through launchers that pass none (ssh, sudo).
            "env",
            f"{strays.MARK}={self.mark}",
            f"PYTHONPATH={path}",
            *(f"{name}={self.threads}" for name in sizes),
            self.python,
            # -u: a rank's last words are not lost in a buffer; -P: the current folder shadows no package.
            "-uP",
            "-m",
            "nettune.launch.agent",
            form,
        ]


@dataclass(frozen=True)
class Notice:
    """Something that a rank, or its process, told.

    Kinds: `frame` (payload: the frame), `log` (a line it printed), `exited` (exit status, negative for a
    signal, None where unknown). With rank None, of all ranks: `failed` (a frame about a failed import), `log`,
    `down` (why every rank is lost).
    """

    kind: Literal["frame", "log", "exited", "failed", "down"]
    rank: int | None
    payload: Any


class Transport(Protocol):
    """The processes of the ranks."""

    def start(self) -> None:
        """Begin to start all ranks; each then sends a `ready`, `failed` or `refused` frame, or exits."""
        ...

    def send(self, rank: int, frame: bytes) -> None:
        """Send an encoded frame to a rank without ever blocking."""
        ...

    def signal(self, rank: int, signum: int) -> None:
        """Send a signal to a rank's process."""
        ...

    def kill(self, rank: int) -> None:
        """Kill a rank's process group."""
        ...

    def poll(self, timeout_s: float) -> list[Notice]:
        """What happened, waiting at most so long for something to happen."""
        ...

    def close(self, grace_s: float) -> None:
        """End everything; ranks that wait for a call get `grace_s` to end by themselves."""
        ...


class Watch:
    """Descriptors to read and wires to flush; what is read becomes notices."""

    def __init__(self) -> None:
        self._readers: dict[int, Callable[[], Iterable[Notice]]] = {}
        self._wires: list[Wire] = []

    def add(self, fd: int, read: Callable[[], Iterable[Notice]]) -> None:
        """Call `read` when the descriptor is readable or at its end."""
        self._readers[fd] = read

    def lines(self, reader: LineReader, rank: int | None) -> None:
        """Give the reader's lines as notices, until its end."""
        self.add(reader.fd, lambda: self._read_lines(reader, rank))

    def _read_lines(self, reader: LineReader, rank: int | None) -> list[Notice]:
        notices = [Notice("log", rank, line) for line in reader.receive()]
        if reader.closed:
            self.forget(reader.fd)
        return notices

    def flushing(self, wire: Wire) -> None:
        """Flush this wire whenever it has something left to write."""
        self._wires.append(wire)

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor."""
        self._readers.pop(fd, None)
        self._wires = [wire for wire in self._wires if wire.write_fd != fd]

    def poll(self, timeout_s: float) -> list[Notice]:
        """Notices of all that is ready now, after waiting at most so long for anything at all."""
        events = dict.fromkeys(self._readers, select.POLLIN)
        waiting = [wire for wire in self._wires if wire.waiting]
        for wire in waiting:
            events[wire.write_fd] = events.get(wire.write_fd, 0) | select.POLLOUT
        poller = select.poll()
        for fd, mask in events.items():
            poller.register(fd, mask)
        notices: list[Notice] = []
        ready = poller.poll(max(0.0, timeout_s) * 1000)
        for wire in waiting:
            wire.flush()
        for fd, mask in ready:
            # Closed and broken ends also have to be read: that is how their end is noticed.
            read = self._readers.get(fd)
            if read is not None and mask & ~select.POLLOUT:
                notices += read()
        return notices


def left(deadline: float) -> float:
    """Seconds until a time of the monotonic clock, at least 0."""
    return max(0.0, deadline - time.monotonic())


def own_sys_path() -> list[str]:
    """The caller's import path, so that a rank finds the same modules."""
    return [os.path.abspath(entry) if entry else os.getcwd() for entry in sys.path]  # noqa: PTH100, PTH109 - str
