"""Non-blocking streams of frames and lines."""

from __future__ import annotations

import os
import socket

import pytest

from nettune.launch.frames import FrameError
from nettune.launch.wire import GREETING, LineReader, Wire


@pytest.fixture
def pair():
    a, b = socket.socketpair()
    yield Wire(a.fileno(), a.fileno()), Wire(b.fileno(), b.fileno()), b
    a.close()
    b.close()


def test_send_never_blocks(pair):
    """More than the socket takes is kept and follows later, in order."""
    here, there, _ = pair
    frames = [{"n": n, "text": "x" * 3_000_000} for n in range(2)]
    for frame in frames:
        here.send(frame)
    assert here.waiting
    got: list[object] = []
    while len(got) < 2:
        got += there.receive()
        here.flush()
    assert got == frames
    assert not here.waiting


def test_end_inside_a_frame(pair):
    """The other end closing in the middle of a frame is an error, and the wire is closed."""
    here, _, there = pair
    there.setblocking(True)
    there.sendall(b'{"a":1}\n{"b"')
    there.close()
    assert here.receive() == [{"a": 1}]
    with pytest.raises(FrameError, match="ended inside a frame"):
        here.receive()
    assert here.closed


def test_sending_to_nobody_is_quiet(pair):
    """A gone reader is noticed by reading, not by an exception in the sender."""
    here, _, there = pair
    there.close()
    here.send({"a": 1})
    assert here.receive() == []
    assert here.closed


def test_greeting_of_a_shell_is_passed_over(pair):
    """Words before the greeting are no frames, however the greeting is cut."""
    here, _, there = pair
    there.setblocking(True)
    here.skip_to_greeting()
    there.sendall(b"Welcome!\n{not json\n" + GREETING[:5])
    assert here.receive() == []
    there.sendall(GREETING[5:])
    assert here.receive() == []
    there.sendall(b'{"a":1}\n')
    assert here.receive() == [{"a": 1}]


def test_lines_and_an_unfinished_last_one():
    """Lines come when complete; the last one without its end comes at the end of the stream."""
    read, write = os.pipe()
    reader = LineReader(read, keep=True)
    os.write(write, b"one\ntw")
    assert reader.receive() == ["one"]
    assert reader.receive() == []
    os.write(write, b"o\n\nthr\xffee")
    assert reader.receive() == ["two", ""]
    os.close(write)
    assert reader.receive() == ["thr\N{REPLACEMENT CHARACTER}ee"]
    assert reader.closed
    assert bytes(reader.kept) == b"one\ntwo\n\nthr\xffee"
    os.close(read)
