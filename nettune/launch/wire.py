"""Non-blocking ends of a stream: frames in and out, and lines of text in."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Mapping
from typing import Any

from nettune.launch.frames import Decoder, encode

GREETING = b"\n#nettune agent\n"
"""What an agent behind standard output writes before its first frame."""

_CHUNK = 1 << 20


def readable(fd: int) -> bool:
    """Something, or the end of the stream, can be read now."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))


def _read(fd: int) -> bytes | None:
    """What is there now; None when nothing is; b"" at the end of the stream."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except ConnectionResetError:
        return b""


class Wire:
    """Frames over one or two file descriptors (a socket, or a pipe each way) that never block.

    The descriptors belong to the caller of the constructor, who also closes them.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.closed = False
        self._decoder = Decoder()
        self._out: deque[memoryview] = deque()
        self._before: bytearray | None = None
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)

    @property
    def waiting(self) -> bool:
        """Some frames could not be written yet; call `flush` when `write_fd` is writable."""
        return bool(self._out)

    def send(self, frame: Mapping[str, Any]) -> None:
        """Write the frame now as far as the stream takes it, and keep the rest for `flush`."""
        self.send_encoded(encode(frame))

    def send_encoded(self, frame: bytes) -> None:
        """`send` for a frame that `nettune.launch.frames.encode` has made."""
        self._out.append(memoryview(frame))
        self.flush()

    def flush(self) -> None:
        """Write what is kept; a stream whose other end is gone swallows it."""
        while self._out:
            try:
                written = os.write(self.write_fd, self._out[0][:_CHUNK])
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                # The end is reported by the reading side, where it also says what came before it.
                self._out.clear()
                return
            self._out[0] = self._out[0][written:]
            if not self._out[0]:
                self._out.popleft()

    def skip_to_greeting(self) -> None:
        """Pass over what comes before `GREETING`, such as the words of a login shell."""
        self._before = bytearray()

    def receive(self) -> list[dict[str, Any]]:
        """The frames that one read completes; sets `closed` at the end of the stream.

        Raises:
            FrameError: the stream holds something else, or ended inside a frame.
        """
        data = _read(self.read_fd)
        if data is None:
            return []
        if data and self._before is not None:
            self._before += data
            start = self._before.find(GREETING)
            if start < 0:
                return []
            rest = bytes(self._before[start + len(GREETING) :])
            self._before = None
            return self._decoder.feed(rest)
        if data:
            return self._decoder.feed(data)
        self.closed = True
        self._decoder.end()
        return []


class LineReader:
    """Lines of text from a file descriptor that never blocks; `kept` has all bytes if asked to keep them."""

    def __init__(self, fd: int, *, keep: bool = False) -> None:
        self.fd = fd
        self.kept = bytearray()
        self._keep = keep
        self.closed = False
        self._rest = bytearray()
        os.set_blocking(fd, False)

    def receive(self) -> list[str]:
        """The lines that one read completes; an unfinished last line counts at the end of the stream."""
        data = self.read()
        if data is None:
            return []
        # A long line comes in many pieces: they are joined once.
        self._rest += data
        if b"\n" not in data and not self.closed:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        if self.closed and self._rest:
            lines.append(self._rest)
            self._rest = bytearray()
        return [line.decode(errors="replace") for line in lines]

    def read(self) -> bytes | None:
        """What one read gives, for who wants no lines; None when nothing is there, b"" at the end of the stream."""
        data = _read(self.fd)
        if data is not None:
            self.closed = not data
            if self._keep:
                self.kept += data
        return data
