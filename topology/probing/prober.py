"""Runs on a host: packets whose time to live ends at one router after the other.

Like `topology/collector.py` this one file is sent over standard input, with the tasks behind it, and imports nothing but
the standard library; it must run on Python 3.6, hence annotations in quotes. One JSON line is printed.

A probe is a datagram or a connection request of the flow in question: same addresses, ports, protocol and DSCP, so a
switch hashes it as it hashes the flow. The router at which its time to live ends answers with ICMP "time exceeded";
the kernel puts that on the socket's error queue (IP_RECVERR, ip(7)), which needs no privilege.
"""

# ruff: noqa: I002 (the future import of annotations is a syntax error before Python 3.7)

import contextlib
import errno
import json
import select
import socket
import struct
import sys
import time

MYPY = False
if MYPY:  # as mypy, but no Python 3.6, reads it
    from collections.abc import Iterator, Sequence
    from typing import Any

# linux/in.h and linux/errqueue.h; the socket module of Python 3.11 lacks them.
_IP_RECVERR = 11
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
_ORIGIN_ICMP = 2
_TIME_EXCEEDED, _UNREACHABLE = 11, 3
_PORT_UNREACHABLE = 3

_PAYLOAD = struct.Struct("!4sIB")
_MAGIC = b"ntp1"
AT_ONCE = 256
_PACE_S = 0.005


def trace(
    flows: "Sequence[Sequence[Any]]",
    hops: "int",
    most: "int",
    ends: "Sequence[str]",
    *,
    proto: "int",
    dscp: "int",
    packets_per_s: "float",
    wait_s: "float",
    tries: "int",
) -> "dict[str, Any]":
    """Probe flows hop by hop.

    Args:
        flows: (source address, source port, destination address, destination port) of each.
        hops: times to live are 1 to this: the number of routers on the shortest way, so that no probe arrives.
        most: routers on the longest way: a flow is followed so far as long as another router than the last answers.
        ends: addresses of the last router.
        proto: 6 or 17.
        dscp: of the probes.
        packets_per_s: pace.
        wait_s: for an answer.
        tries: how often a probe without answer is sent at most.

    Returns:
        `answers`: (flow's index, time to live, address of the router that answered, in the order sent);
        `refused`: flow's index -> why its source port could not be had; `sent`: packets.
    """
    prober = _Prober(hops, ends, proto, dscp, packets_per_s, wait_s)
    missing = [(index, ttl) for ttl in range(1, most + 1) for index in range(len(flows))]
    for _ in range(tries):
        if not missing:
            break
        prober.round(flows, missing)
        missing = [
            probe for probe in missing if probe not in prober.answers and probe[0] not in prober.refused
        ]
    return {
        "answers": [[index, ttl, address] for (index, ttl), address in prober.answers.items()],
        "refused": {str(index): why for index, why in prober.refused.items()},
        "sent": prober.sent,
    }


def burst(
    flows: "Sequence[Sequence[Any]]",
    counts: "Sequence[int]",
    *,
    ttl: "int",
    proto: "int",
    dscp: "int",
    packets_per_s: "float",
) -> "dict[str, Any]":
    """Send so many packets of each flow, for counters on their way; all die at router `ttl`, and no answer is read.

    Returns:
        `refused` and `sent` as `trace`.
    """
    prober = _Prober(ttl, (), proto, dscp, packets_per_s, 0.0)
    for index, count in enumerate(counts):
        for _ in range(count):
            prober.once(flows[index], index, ttl)
    return {"refused": {str(index): why for index, why in prober.refused.items()}, "sent": prober.sent}


class _Prober:
    def __init__(
        self,
        hops: "int",
        ends: "Sequence[str]",
        proto: "int",
        dscp: "int",
        packets_per_s: "float",
        wait_s: "float",
    ) -> None:
        self._hops = hops
        self._ends = frozenset(ends)
        self._tcp = proto == socket.IPPROTO_TCP
        self._tos = dscp << 2
        self._packets_per_s = packets_per_s
        self._wait_s = wait_s
        self._owed = time.monotonic()
        self.answers = {}  # type: dict[tuple[int, int], str]
        self.refused = {}  # type: dict[int, str]
        self.sent = 0

    def round(self, flows: "Sequence[Sequence[Any]]", probes: "Sequence[tuple[int, int]]") -> None:
        """Send each probe once. Probes of one flow and different times to live are apart: TCP can have but one open."""
        for ttl in sorted({ttl for _, ttl in probes}):
            of_ttl = [index for index, own in probes if own == ttl and self._goes_on(index, ttl)]
            for first in range(0, len(of_ttl), AT_ONCE):
                self._batch(flows, of_ttl[first : first + AT_ONCE], ttl)

    def once(self, flow: "Sequence[Any]", index: "int", ttl: "int") -> None:
        """Send one packet, unless the flow's port cannot be had."""
        sock = None if index in self.refused else self._opened(flow, index, ttl)
        if sock is not None:
            with sock:
                self._send(sock, flow, index, ttl)
            self._pace(select.poll(), {}, ttl)

    def _goes_on(self, index: "int", ttl: "int") -> "bool":
        """Whether a router is known to be there, and the flow has not arrived before it."""
        if index in self.refused:
            return False
        before = self.answers.get((index, ttl - 1))
        return ttl <= self._hops or (before is not None and before not in self._ends)

    def _batch(self, flows: "Sequence[Sequence[Any]]", indices: "Sequence[int]", ttl: "int") -> None:
        with contextlib.ExitStack() as stack:
            poller = select.poll()
            waiting = {}  # type: dict[int, tuple[socket.socket, int]]
            for index in indices:
                sock = self._opened(flows[index], index, ttl)
                if sock is None:
                    continue
                stack.enter_context(sock)
                waiting[sock.fileno()] = (sock, index)
                poller.register(sock, 0)  # errors are always told
                self._send(sock, flows[index], index, ttl)
                self._pace(poller, waiting, ttl)
            until = time.monotonic() + self._wait_s
            while waiting and time.monotonic() < until:
                self._collect(poller, waiting, ttl, until - time.monotonic())

    def _opened(self, flow: "Sequence[Any]", index: "int", ttl: "int") -> "socket.socket | None":
        kind = socket.SOCK_STREAM if self._tcp else socket.SOCK_DGRAM
        sock = socket.socket(socket.AF_INET, kind)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self._tos)
            if self._tcp:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                # One connection request a probe: without this the kernel would send more on its own.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
            sock.bind((flow[0], flow[1]))
        except OSError as error:
            sock.close()
            self.refused[index] = error.strerror or str(error)
            return None
        return sock

    def _send(self, sock: "socket.socket", flow: "Sequence[Any]", index: "int", ttl: "int") -> None:
        self.sent += 1
        try:
            sock.connect((flow[2], flow[3]))
            if not self._tcp:
                sock.send(_PAYLOAD.pack(_MAGIC, index, ttl))
        except BlockingIOError:
            pass
        except OSError as error:
            # An answer that was faster than the call is on the error queue already.
            if error.errno not in {errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.EINPROGRESS}:
                self.refused[index] = error.strerror or str(error)

    def _pace(
        self, poller: "select.poll", waiting: "dict[int, tuple[socket.socket, int]]", ttl: "int"
    ) -> None:
        self._owed = max(self._owed, time.monotonic() - _PACE_S) + 1 / self._packets_per_s
        ahead = self._owed - time.monotonic()
        if ahead > _PACE_S:
            until = time.monotonic() + ahead
            while time.monotonic() < until:
                self._collect(poller, waiting, ttl, until - time.monotonic())

    def _collect(
        self,
        poller: "select.poll",
        waiting: "dict[int, tuple[socket.socket, int]]",
        ttl: "int",
        timeout_s: "float",
    ) -> None:
        if not waiting:
            time.sleep(timeout_s)
            return
        for descriptor, _ in poller.poll(max(timeout_s, 0.0) * 1000):
            sock, index = waiting[descriptor]
            for address in _offenders(sock):
                self.answers.setdefault((index, ttl), address)
            poller.unregister(descriptor)
            del waiting[descriptor]


def _offenders(sock: "socket.socket") -> "Iterator[str]":
    """Addresses of the routers whose errors are queued on a socket."""
    while True:
        try:
            _, ancillary, _, _ = sock.recvmsg(512, 512, socket.MSG_ERRQUEUE)
        except OSError:
            return
        for level, kind, data in ancillary:
            if (level, kind) != (socket.IPPROTO_IP, _IP_RECVERR) or len(data) < _EXTENDED_ERROR.size + 8:
                continue
            _, origin, icmp_type, code, _, _, _ = _EXTENDED_ERROR.unpack_from(data)
            arrived = icmp_type == _UNREACHABLE and code == _PORT_UNREACHABLE
            if origin == _ORIGIN_ICMP and (icmp_type == _TIME_EXCEEDED or arrived):
                # struct sockaddr_in follows: family, port, address.
                yield socket.inet_ntoa(data[_EXTENDED_ERROR.size + 4 : _EXTENDED_ERROR.size + 8])


if __name__ == "__main__":
    print(json.dumps([(burst if "counts" in task else trace)(**task) for task in json.load(sys.stdin)]))
