"""Frames: one JSON object on one line, between a caller and its agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class FrameError(ValueError):
    """A stream holds something that is not a whole frame."""


def encode(frame: Mapping[str, Any]) -> bytes:
    """The frame as one line; numpy and torch values become plain lists and numbers.

    Raises:
        TypeError: a value cannot be written as JSON.
        ValueError: a value contains itself.
    """
    # The default ASCII escapes keep a newline out of the line, whatever the strings hold.
    return json.dumps(frame, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: object) -> Any:
    # numpy scalars and arrays and torch tensors all have tolist(); neither library is imported here.
    convert = getattr(value, "tolist", None)
    if callable(convert) and not isinstance(value, type):
        return convert()
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is not JSON")


class Decoder:
    """Cuts a stream of bytes into frames; pieces may end anywhere."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The frames that `data` completes.

        Raises:
            FrameError: a line is no JSON object.
        """
        # Pieces of an unfinished line are kept apart and joined once: a large frame costs one copy.
        *lines, rest = data.split(b"\n")
        frames = []
        for line in lines:
            self._pieces.append(line)
            whole = b"".join(self._pieces)
            self._pieces.clear()
            frames.append(_parse(whole))
        if rest:
            self._pieces.append(rest)
        return frames

    def end(self) -> None:
        """Say that the stream has ended.

        Raises:
            FrameError: it ended inside a frame.
        """
        torn = b"".join(self._pieces)
        self._pieces.clear()
        if torn:
            raise FrameError(f"the stream ended inside a frame of {len(torn)} bytes: {_excerpt(torn)}")


def _parse(line: bytes) -> dict[str, Any]:
    try:
        frame = json.loads(line)
    except ValueError as error:
        raise FrameError(f"not a frame: {_excerpt(line)}") from error
    if not isinstance(frame, dict):
        raise FrameError(f"not a frame: {_excerpt(line)}")
    return frame


def _excerpt(line: bytes) -> str:
    text = line[:60].decode(errors="replace")
    return repr(text + ("..." if len(line) > 60 else ""))
