"""Hearing of ended children in a `select` loop."""

from __future__ import annotations

import contextlib
import signal
import socket


class ChildExits:
    """Readable for `select` when a child of this process may have ended."""

    def __init__(self) -> None:
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)

    def listen(self) -> None:
        """Take over this process's SIGCHLD; only in its main thread."""
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        # Without a handler the kernel would drop the signal.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._woken.fileno()

    def clear(self) -> None:
        """Forget what was heard: not readable until the next child ends."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def close(self) -> None:
        """Close both ends, in a child that must not hear of its siblings."""
        self._wake.close()
        self._woken.close()
