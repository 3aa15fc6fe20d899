"""Frames: one JSON object a line, whatever the pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.launch.frames import Decoder, FrameError, encode

# A few characters that escapes could go wrong on; all of Unicode takes seconds to prepare.
TEXT = st.text('a\n\0"\\ü\u2028\U0001f600', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=4,
)


@given(st.lists(st.dictionaries(TEXT, JSON), max_size=3), st.integers(1, 20))
def test_frames_survive_any_cutting(frames, size):
    """However the bytes are cut, the same frames come out in the same order, and the end is clean."""
    data = b"".join(encode(frame) for frame in frames)
    decoder = Decoder()
    got = [frame for i in range(0, len(data), size) for frame in decoder.feed(data[i : i + size])]
    decoder.end()
    assert got == frames


def test_large_frame_in_many_pieces():
    """A frame of several megabytes arrives whole."""
    frame = {"text": "\n ü" * 1_000_000}
    data = encode(frame)
    decoder = Decoder()
    got = [f for i in range(0, len(data), 65536) for f in decoder.feed(data[i : i + 65536])]
    assert got == [frame]


def test_torn_frame_is_told_at_the_end():
    """A stream that ends inside a frame is an error that shows the piece."""
    decoder = Decoder()
    assert decoder.feed(encode({"a": 1}) + b'{"b":') == [{"a": 1}]
    with pytest.raises(FrameError, match=r'ended inside a frame of 5 bytes: .\{"b":'):
        decoder.end()


@pytest.mark.parametrize("line", [b"hello\n", b"[1]\n", b"\n", b'{"a":}\n', b"\xff\xfe\n"])
def test_what_is_no_frame_is_refused(line):
    """Text, other JSON, and bytes that are no text are errors, not frames."""
    with pytest.raises(FrameError, match="not a frame"):
        Decoder().feed(line)


def test_numbers_of_numpy_become_plain():
    """Arrays and scalars of numpy are written as lists and numbers."""
    frame = {"a": np.arange(3), "b": np.float32(0.5), "c": np.int64(7), "d": np.bool_(True)}
    assert Decoder().feed(encode(frame)) == [{"a": [0, 1, 2], "b": 0.5, "c": 7, "d": True}]


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", np.ndarray])
def test_what_is_not_json_is_refused(value):
    """A value that JSON cannot hold is an error at the sender, by its type."""
    with pytest.raises(TypeError, match="is not JSON"):
        encode({"a": value})
