"""Work functions that run on the hosts: transfers between given addresses and ports. Standard library only.

One call is one round: a host sends and receives at the same time in one loop without threads. Receivers take the
kernel's arrival times (SO_TIMESTAMPNS), so a rate does not depend on when this process was scheduled. Everything has
a deadline; a flow that hangs is reset by its own side.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import struct
import time
from typing import Any

from nettune.qualify.tcpinfo import tcp_info

# Linux numbers that the socket module of Python 3.11 does not have.
_SO_MAX_PACING_RATE = 47
_SO_TIMESTAMPNS = 35
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE = 10, 3

_CHUNK = bytes(256 * 1024)
_HELLO = b"nettune\n"
_TIMESPEC = struct.Struct("=qq")
_DATAGRAM = struct.Struct("!4sIB")
_MAGIC = b"ntq1"
_DATAGRAMS = 5
_SMALL_BYTES = 64
_CONNECT_S = 0.15
"""A connection request that is not answered in this time is taken as lost, and the next port is tried."""
_IP_UDP_HEADERS = 28
_BUFFER_BYTES = 512 * 1024
_SAMPLES = 60
_BURST_S = 0.001
"""A flow leaves in bursts of at most this time: the kernel would send 64 KiB at once where the round trip is short
(tcp_tso_rtt_log), and overflow the queue of a slow port by itself."""
_LEAST_BURST_BYTES = 4096
_SENDS_AT_ONCE = 32

_listeners: dict[tuple[str, int], socket.socket] = {}
_datagrams: dict[tuple[str, int], socket.socket] = {}


def open_ports(addresses: list[str], tcp_port: int, udp_port: int) -> list[str]:
    """Listen on these addresses until `close_ports`; the reasons why some could not be had."""
    refused = []
    for address in addresses:
        try:
            if (address, tcp_port) not in _listeners:
                _listeners[address, tcp_port] = _listening(address, tcp_port)
            if (address, udp_port) not in _datagrams:
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.setblocking(False)
                sock.bind((address, udp_port))
                _datagrams[address, udp_port] = sock
        except OSError as error:
            refused.append(f"{address}: {error.strerror}")
    return refused


def _listening(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit the buffer; the window is offered with the first answer.
    _buffer(sock, _SO_RCVBUFFORCE, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.setblocking(False)
    sock.bind((address, port))
    sock.listen(64)
    return sock


def close_ports() -> None:
    """Close what `open_ports` opened."""
    for table in (_listeners, _datagrams):
        while table:
            table.popitem()[1].close()


def _buffer(sock: socket.socket, forced: int, plain: int, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, plain, size)


def transfer(
    send: list[dict[str, Any]], receive: list[dict[str, Any]], duration_s: float, wait_s: float = 0.35
) -> dict[str, Any]:
    """Send and receive the flows of one round.

    Args:
        send: flows from this host: `id`, `src`, `dst` (addresses), `tcp_ports`, `tcp_port`, `udp_ports`, `udp_port`,
            `rate_bytes_per_s` (payload; 0: as fast as it goes), `mtu`.
        receive: flows to this host: `id`, `src`, `dst`, `tcp_ports`.
        duration_s: how long each flow sends.
        wait_s: how much longer a receiver waits for a sender that started late.

    Returns:
        `sent` and `received`: flow id (as text) -> figures.
    """
    selector = selectors.DefaultSelector()
    begun = time.monotonic()
    senders = [_Sender(flow, duration_s, selector) for flow in send]
    receivers = _Receivers(receive, duration_s, selector)
    deadline = begun + duration_s + wait_s + _CONNECT_S
    try:
        for sender in senders:
            sender.start()
        while (now := time.monotonic()) < deadline and not (receivers.done and all(s.done for s in senders)):
            due = min([deadline, *(s.due for s in senders if not s.done)])
            for key, _ in selector.select(max(0.0, due - now)):
                key.data()
            now = time.monotonic()
            for sender in senders:
                sender.tick(now)
    finally:
        for sender in senders:
            sender.finish()
        receivers.finish()
        selector.close()
    return {
        "sent": {str(s.flow["id"]): s.figures for s in senders},
        "received": {str(number): figures for number, figures in receivers.figures.items()},
    }


class _Sender:
    """One outgoing flow: datagrams, connection (several tries), stream until its time is up."""

    def __init__(self, flow: dict[str, Any], duration_s: float, selector: selectors.BaseSelector) -> None:
        self.flow = flow
        self.done = False
        self.due = 0.0
        self.figures: dict[str, Any] = {"connected": False, "tries": 0, "datagrams": 0, "error": ""}
        self._duration_s = duration_s
        self._selector = selector
        self._ports = list(flow["tcp_ports"])
        self._sock: socket.socket | None = None
        self._connected = False
        rate = int(flow["rate_bytes_per_s"])
        burst = max(_LEAST_BURST_BYTES, int(rate * _BURST_S)) if rate else len(_CHUNK)
        # A record ends at each burst (MSG_EOR), so that the kernel does not join it with the next.
        self._burst, self._flags = (_CHUNK[:burst], socket.MSG_EOR) if burst < 1 << 16 else (_CHUNK, 0)

    def start(self) -> None:
        self._send_datagrams()
        self._connect()

    def tick(self, now: float) -> None:
        """Act on time that has passed."""
        if self.done or now < self.due:
            return
        if self._connected:
            self.finish()
        else:
            self._connect()

    def _send_datagrams(self) -> None:
        flow = self.flow
        if not flow["udp_ports"] or not flow["mtu"]:
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
                sock.bind((flow["src"], flow["udp_ports"][0]))
            except OSError as error:
                self.figures["error"] = f"UDP: {error.strerror}"
                return
            for full in (0, 1):
                head = _DATAGRAM.pack(_MAGIC, flow["id"], full)
                size = flow["mtu"] - _IP_UDP_HEADERS if full else _SMALL_BYTES
                for _ in range(_DATAGRAMS):
                    # A refusal (EMSGSIZE after a router's complaint, ECONNREFUSED) is what the receiver's count says.
                    with contextlib.suppress(OSError):
                        sock.sendto(head.ljust(size, b"\0"), (flow["dst"], flow["udp_port"]))
        self.figures["datagrams"] = _DATAGRAMS

    def _connect(self) -> None:
        self._drop()
        if not self._ports:
            self.done = True
            return
        port = self._ports.pop(0)
        self.figures["tries"] += 1
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._sock = sock
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rate = int(self.flow["rate_bytes_per_s"])
        # Room for 50 ms, so that the stream goes on while this process waits for its turn on a busy machine.
        _buffer(sock, _SO_SNDBUFFORCE, socket.SO_SNDBUF, max(_BUFFER_BYTES, min(rate // 20, 64 << 20)))
        if rate:
            sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", rate))
        # Reset at the end: no TIME_WAIT keeps the port from the next run.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
        try:
            sock.bind((self.flow["src"], port))
            status = sock.connect_ex((self.flow["dst"], self.flow["tcp_port"]))
        except OSError as error:
            status = error.errno or errno.EIO
        if status not in {0, errno.EINPROGRESS}:
            self._refused(status)
            return
        self.due = time.monotonic() + _CONNECT_S
        self._selector.register(sock, selectors.EVENT_WRITE, self._writable)

    def _refused(self, status: int) -> None:
        self.figures["error"] = errno.errorcode.get(status, str(status))
        self.due = 0.0
        self._drop()
        if not self._ports:
            self.done = True

    def _writable(self) -> None:
        sock = self._sock
        if sock is None or self.done:
            return
        if not self._connected:
            status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if status:
                self._refused(status)
                return
            self._connected = self.figures["connected"] = True
            self.figures["error"] = ""
            self.due = time.monotonic() + self._duration_s
        try:
            if self.figures.setdefault("hello", False) is False:
                sock.send(_HELLO)
                self.figures["hello"] = True
            for _ in range(_SENDS_AT_ONCE):
                sock.send(self._burst, self._flags)
        except BlockingIOError:
            return
        except OSError as error:
            self.figures["error"] = errno.errorcode.get(error.errno or 0, str(error))
            self.finish()

    def _drop(self) -> None:
        if self._sock is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None

    def finish(self) -> None:
        """Note the kernel's figures and reset the connection."""
        if self._sock is not None and self._connected:
            with contextlib.suppress(OSError):
                self.figures["tcp"] = tcp_info(self._sock)
        self.done = True
        self._drop()


class _Receivers:
    """All incoming flows of a round; finds the flow of a connection by its addresses and port."""

    def __init__(
        self, flows: list[dict[str, Any]], duration_s: float, selector: selectors.BaseSelector
    ) -> None:
        self.figures: dict[int, dict[str, Any]] = {}
        self._duration_s = duration_s
        self._selector = selector
        self._expected: dict[tuple[str, str, int], int] = {}
        self._streams: dict[int, _Stream] = {}
        self._open: dict[socket.socket, _Stream] = {}
        self._ids = {flow["id"] for flow in flows}
        for flow in flows:
            self.figures[flow["id"]] = {"bytes": 0, "small": 0, "full": 0}
            for port in flow["tcp_ports"]:
                self._expected[flow["src"], flow["dst"], port] = flow["id"]
        for sock in _listeners.values():
            selector.register(sock, selectors.EVENT_READ, lambda sock=sock: self._accept(sock))

    @property
    def done(self) -> bool:
        """Every expected flow has come and gone."""
        return all(number in self._streams for number in self._ids) and not self._open

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, peer = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                continue
            number = self._expected.get((peer[0], sock.getsockname()[0], peer[1]))
            if number is None:
                # Left over from an earlier round, or not ours.
                sock.close()
                continue
            sock.setblocking(False)
            stream = self._streams[number] = self._open[sock] = _Stream()
            self._selector.register(sock, selectors.EVENT_READ, lambda s=sock, t=stream: self._readable(s, t))

    def _readable(self, sock: socket.socket, stream: _Stream) -> None:
        if stream.read(sock):
            return
        self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        del self._open[sock]
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
        sock.close()

    def finish(self) -> None:
        """Stop receiving and fill in the figures."""
        for sock in list(self._open):
            self._close(sock)
        for number, stream in self._streams.items():
            self.figures[number] |= stream.figures(self._duration_s)
        for sock in _datagrams.values():
            self._count_datagrams(sock)

    def _count_datagrams(self, sock: socket.socket) -> None:
        while True:
            try:
                data = sock.recv(_DATAGRAM.size)
            except OSError:
                return
            if len(data) == _DATAGRAM.size:
                magic, number, full = _DATAGRAM.unpack(data)
                if magic == _MAGIC and number in self.figures:
                    self.figures[number]["full" if full else "small"] += 1


class _Stream:
    """Arrival times and bytes of one incoming connection."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, int]] = []
        self._bytes = 0
        self._buffer = bytearray(len(_CHUNK))
        self._accepted = time.time()

    def read(self, sock: socket.socket) -> bool:
        """Take what is there; False at the end of the stream."""
        try:
            count, ancillary, _, _ = sock.recvmsg_into([self._buffer], 64)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if count == 0:
            return False
        arrived = time.time()
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                arrived = seconds + nanoseconds * 1e-9
        self._bytes += count
        self._samples.append((arrived, self._bytes))
        return True

    def figures(self, duration_s: float) -> dict[str, Any]:
        """`bytes`; `samples`: (seconds after the first, bytes since it), thinned; `wait_s` before the first byte."""
        if not self._samples:
            return {"bytes": 0, "samples": []}
        first, base = self._samples[0]
        samples = [
            (at - first, count - base) for at, count in self._samples if at - first <= duration_s * 1.5
        ]
        step = max(1, -(-len(samples) // _SAMPLES))
        kept = samples[::step]
        if kept[-1] != samples[-1]:
            kept.append(samples[-1])
        return {
            "bytes": self._bytes,
            "wait_s": first - self._accepted,
            "samples": [[round(at, 6), count] for at, count in kept],
        }
