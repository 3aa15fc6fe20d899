"""Read lines of JSON from a pipe, with a time limit."""

from __future__ import annotations

import os
import select
import time

from nettune.errors import NettuneError


class LineReader:
    """Lines of a pipe. It keeps what arrived beyond a line, so a second line is never waited for in vain."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""

    def line(self, timeout_s: float) -> str:
        """The next line; empty at the end of the stream.

        Raises:
            NettuneError: no whole line came in time.
        """
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while b"\n" not in self._buffer:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise NettuneError(f"the lab did not answer within {timeout_s:.0f} s")
            data = os.read(self._fd, 1 << 16)
            if not data:
                return ""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()
