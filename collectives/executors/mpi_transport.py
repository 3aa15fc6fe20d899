"""Messages over MPI. One connection for each pair: MPI libraries open their own, and do not say which."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.executors.transport import Array, Handle
from nettune.errors import NettuneError


class _Sent:
    """A send request with the method name that executors use."""

    def __init__(self, request: MPI.Request) -> None:
        self._request = request

    def wait(self) -> None:
        self._request.Wait()


class MpiTransport:
    """Messages over a communicator; numpy arrays.

    Args:
        communicator: of the ranks, used by nobody else.
        timeout_s: for one message to arrive.
    """

    def __init__(self, communicator: Any, timeout_s: float) -> None:
        self._communicator = communicator
        self._timeout_s = timeout_s
        self._requests: list[MPI.Request] = []
        self._keys: list[int] = []
        self._ready: list[int] = []

    def empty(self, like: Array, elements: int) -> Array:
        """As `Transport.empty`."""
        return np.empty(elements, dtype=like.dtype)

    def receive(self, key: int, into: Array, src: int, tag: int, connection: int) -> None:
        """As `Transport.receive`."""
        del connection
        self._requests.append(self._communicator.Irecv(into, src, tag))
        self._keys.append(key)

    def send(self, data: Array, dst: int, tag: int, connection: int) -> Handle:
        """As `Transport.send`."""
        del connection
        return _Sent(self._communicator.Isend(data, dst, tag))

    def arrived(self) -> int:
        """As `Transport.arrived`.

        Raises:
            NettuneError: nothing came within the time-out.
        """
        deadline = time.monotonic() + self._timeout_s
        while not self._ready:
            # Tests make MPI's progress, so the waiting is a loop; other ranks of this host need the core meanwhile.
            for place in sorted(MPI.Request.Testsome(self._requests) or (), reverse=True):
                self._ready.append(self._keys.pop(place))
                self._requests.pop(place)
            if not self._ready:
                if time.monotonic() > deadline:
                    raise NettuneError(
                        f"no message arrived within {self._timeout_s:g} s; a rank died or hangs"
                    )
                time.sleep(0)
        return self._ready.pop()

    def exchange(
        self,
        sends: Sequence[tuple[Array, int, int, int]],
        receives: Sequence[tuple[Array, int, int, int]],
    ) -> None:
        """As `Transport.exchange`."""
        for key, (data, peer, tag, connection) in enumerate(receives):
            self.receive(key, data, peer, tag, connection)
        on_way = [self.send(data, peer, tag, connection) for data, peer, tag, connection in sends]
        for _ in receives:
            self.arrived()
        for handle in on_way:
            handle.wait()
