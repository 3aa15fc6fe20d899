"""Ranks that a launcher has started (mpirun, torchrun, srun): they come to rank 0 and take its calls over TCP.

Rank 0 is two processes: the one that was started is a rank as all others, and its child measures and reports. So a rank that dies or hangs
is seen as everywhere else, by the end of its socket or by time. The launcher ends what does not end by itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterable, Sequence

from nettune.errors import NettuneError
from nettune.launch.agent import preload as import_all
from nettune.launch.agent import serve
from nettune.launch.agents import Agents
from nettune.launch.failures import ranges
from nettune.launch.frames import Decoder, FrameError, encode
from nettune.launch.launched import Launched, addresses, listening, meeting_point, parsed
from nettune.launch.local import LocalLauncher
from nettune.launch.transport import Notice, Watch
from nettune.launch.wire import Wire

_LONG = 4096


class GatheredRanks:
    """A transport over the ranks' own connections."""

    def __init__(self, links: Sequence[socket.socket]) -> None:
        self._links = links
        self._wires = [Wire(link.fileno(), link.fileno()) for link in links]
        self._watch = Watch()

    def start(self) -> None:
        """Listen to all."""
        for rank, wire in enumerate(self._wires):
            self._watch.add(wire.read_fd, lambda rank=rank, wire=wire: self._from(rank, wire))  # type: ignore[misc]
            self._watch.flushing(wire)

    def _from(self, rank: int, wire: Wire) -> Iterable[Notice]:
        notices = []
        try:
            notices = [Notice("frame", rank, frame) for frame in wire.receive()]
        except FrameError as error:
            wire.closed = True
            notices.append(Notice("log", rank, f"nettune: its connection is spoilt: {error}"))
        if wire.closed:
            self._watch.forget(wire.read_fd)
            notices.append(Notice("exited", rank, None))
        return notices

    def send(self, rank: int, frame: bytes) -> None:
        """Send an encoded frame to a rank without ever blocking."""
        self._wires[rank].send_encoded(frame)

    def signal(self, rank: int, signum: int) -> None:
        """Nothing: other hosts' processes belong to the launcher."""

    def kill(self, rank: int) -> None:
        """Say goodbye: a rank that still listens ends, another one is the launcher's to end."""
        with contextlib.suppress(OSError):
            self._links[rank].shutdown(socket.SHUT_RDWR)

    def poll(self, timeout_s: float) -> list[Notice]:
        """What happened, waiting at most so long for something to happen."""
        return self._watch.poll(timeout_s)

    def close(self, grace_s: float) -> None:
        """Close all connections, which ends the ranks."""
        del grace_s
        for link in self._links:
            link.close()


def gathered(
    me: Launched, preload: Sequence[str], *, timeout_s: float = 60.0
) -> tuple[Agents, tuple[tuple[str, str], ...]] | int:
    """Bring the ranks together: in one new process the agents, with (host, interface) of each rank.

    In the processes that the launcher started it returns when all is over, with the exit code to end with: that of the
    new process at rank 0, else 0.

    Raises:
        NettuneError: ranks did not come in time (the line names them), or rank 0 was not found.
        InputError, UnavailableError: as `launched.meeting_point`.
    """
    port = child = 0
    if me.rank == 0:
        listener = listening(me)
        # Before anything is imported. What the launcher knows speaks MPI and has threads; the other one reports.
        child = os.fork()
        if not child:
            # In a session of its own: launchers end a job by signals to its processes, and this one has to report that.
            os.setsid()
            return _agents(me, listener, timeout_s)
        port = listener.getsockname()[1]
        listener.close()
    # Standard output belongs to the one that reports.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        _serve(me, meeting_point(me, port), preload, timeout_s)
    except NettuneError:
        if not child:
            raise  # else the other half says it
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0
    if code:
        # Not by way of MPI's end, which would wait for ranks that are gone: launchers end a job for this.
        os._exit(code if code > 0 else 2)
    return 0


def _serve(me: Launched, where: str, preload: Sequence[str], timeout_s: float) -> None:
    """Be a rank until the caller closes the connection."""
    address, deadline = parsed(where), time.monotonic() + timeout_s
    link = None
    while link is None:
        try:
            link = socket.create_connection(address, timeout=max(0.1, deadline - time.monotonic()))
        except OSError as error:
            if time.monotonic() > deadline:
                raise NettuneError(
                    f"rank {me.rank} of {me.ranks}: found no rank 0 at {where} within {timeout_s:g} s ({error.strerror})"
                ) from error
            time.sleep(0.05)
    link.settimeout(None)
    own = {address: name for name, address in addresses().items()}
    iface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0] or own.get(link.getsockname()[0], "lo")
    link.sendall(encode({"rank": me.rank, "host": socket.gethostname(), "iface": iface}))
    failure = import_all(preload)
    if failure is not None:
        link.sendall(encode(failure))
        return
    serve(link, 1)


def _agents(
    me: Launched, listener: socket.socket, timeout_s: float
) -> tuple[Agents, tuple[tuple[str, str], ...]]:
    deadline = time.monotonic() + timeout_s
    links: dict[int, socket.socket] = {}
    seats: dict[int, tuple[str, str]] = {}
    with listener:
        while len(links) < me.ranks:
            listener.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                link, _ = listener.accept()
                link.settimeout(max(0.01, deadline - time.monotonic()))
                hello = _hello(link)
            except (OSError, FrameError, KeyError, ValueError, TypeError) as error:
                if time.monotonic() < deadline:
                    continue  # somebody else's connection
                late = [rank for rank in range(me.ranks) if rank not in links]
                raise NettuneError(
                    f"{named_ranks(late)} of {me.ranks} did not come to rank 0 within {timeout_s:g} s"
                ) from error
            links[hello[0]], seats[hello[0]] = link, hello[1:]
    ordered = tuple(seats[rank] for rank in range(me.ranks))
    transport = GatheredRanks([links[rank] for rank in range(me.ranks)])
    return Agents(LocalLauncher(), [host for host, _ in ordered], transport=transport), ordered


def _hello(link: socket.socket) -> tuple[int, str, str]:
    """Rank, host and interface; read byte by byte, since frames of the agent follow."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONG:
        byte = link.recv(1)
        if not byte:
            break
        line += byte
    (frame,) = Decoder().feed(line)
    return int(frame["rank"]), str(frame["host"]), str(frame["iface"])


def named_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, or `ranks 1-3,7`."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"
