"""Messages over torch.distributed point to point: gloo, or NCCL round by round.

gloo's works cannot be asked whether they are over, only waited for (torch 2.13: no future, `is_completed` stays False),
so each stream of messages from one peer over one connection has a thread that waits; waiting releases the GIL.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed as dist

from collectives.executors.transport import Array, Handle


class TorchTransport:
    """Messages over process groups that hold the same ranks: one for each connection of a pair.

    Args:
        handles: torch's handles of the groups.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = list(handles)
        self._arrived: queue.SimpleQueue[tuple[int, BaseException | None]] = queue.SimpleQueue()
        self._streams: dict[tuple[int, int], queue.SimpleQueue[tuple[int, Any] | None]] = {}

    def empty(self, like: Array, elements: int) -> Array:
        """As `Transport.empty`."""
        return torch.empty(elements, dtype=like.dtype, device=like.device)

    def receive(self, key: int, into: Array, src: int, tag: int, connection: int) -> None:
        """As `Transport.receive`."""
        work = dist.irecv(into, group=self._handles[connection], group_src=src, tag=tag)
        stream = self._streams.get((src, connection))
        if stream is None:
            stream = self._streams[src, connection] = queue.SimpleQueue()
            threading.Thread(target=self._wait_for, args=(stream,), daemon=True).start()
        stream.put((key, work))

    def _wait_for(self, stream: queue.SimpleQueue[tuple[int, Any] | None]) -> None:
        while (entry := stream.get()) is not None:
            key, work = entry
            try:
                work.wait()
            except RuntimeError as error:
                self._arrived.put((key, error))
            else:
                self._arrived.put((key, None))

    def send(self, data: Array, dst: int, tag: int, connection: int) -> Handle:
        """As `Transport.send`."""
        work: Any = dist.isend(data, group=self._handles[connection], group_dst=dst, tag=tag)
        sent: Handle = work
        return sent

    def arrived(self) -> int:
        """As `Transport.arrived`; the group's time-out ends the waiting.

        Raises:
            RuntimeError: what torch says of a peer that died, or of a time-out.
        """
        key, error = self._arrived.get()
        if error is not None:
            raise error
        return key

    def exchange(
        self,
        sends: Sequence[tuple[Array, int, int, int]],
        receives: Sequence[tuple[Array, int, int, int]],
    ) -> None:
        """As `Transport.exchange`: one batch for each connection that is used."""
        works = []
        for connection, handle in enumerate(self._handles):
            batch = [
                dist.P2POp(operation, data, tag=tag, group=handle, group_peer=peer)
                for operation, messages in ((dist.irecv, receives), (dist.isend, sends))
                for data, peer, tag, used in messages
                if used == connection
            ]
            works += dist.batch_isend_irecv(batch) if batch else []
        for work in works:
            work.wait()

    def close(self) -> None:
        """End the waiting threads; those of messages that never come end with the group."""
        for stream in self._streams.values():
            stream.put(None)
