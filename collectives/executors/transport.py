"""What an executor needs of the ranks' connections, and the transports there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Array = Any
"""A one-dimensional torch tensor or numpy array; slices are views."""


class Handle(Protocol):
    """A message on its way."""

    def wait(self) -> Any:
        """Return when the sender may change the data."""
        ...


class Transport(Protocol):
    """Messages between the ranks of one initialisation.

    Messages of one pair and one connection keep their order; tags tell those of a pair apart. `connection` is a number
    below the initialisation's number of connections for each pair; 0 is always there.
    """

    def empty(self, like: Array, elements: int) -> Array:
        """Room for elements of the same type, on the same device."""
        ...

    def receive(self, key: int, into: Array, src: int, tag: int, connection: int) -> None:
        """Begin to receive; `arrived` says `key` when it is there."""
        ...

    def send(self, data: Array, dst: int, tag: int, connection: int) -> Handle:
        """Begin to send."""
        ...

    def arrived(self) -> int:
        """The key of a message that has arrived; waits for one.

        Raises:
            NettuneError or RuntimeError: a peer died, or nothing came within the time-out.
        """
        ...

    def exchange(
        self,
        sends: Sequence[tuple[Array, int, int, int]],
        receives: Sequence[tuple[Array, int, int, int]],
    ) -> None:
        """Messages (data, peer, tag, connection) that all run at once; returns when the data may be used."""
        ...


TRANSPORTS = {
    "torch": "collectives.executors.torch_transport:TorchTransport",
    "mpi": "collectives.executors.mpi_transport:MpiTransport",
}
"""Transports by name, as package.module:Class."""
