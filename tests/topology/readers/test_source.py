"""Inputs before any reader sees them."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest

from nettune.errors import InputError
from topology.readers import source as module
from topology.readers.source import Source


class _Endless:
    """A stream without an end, that counts what was taken."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        self.taken += size
        return b"a" * size


def test_a_stream_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the limit and one byte is taken from standard input."""
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    endless = _Endless()
    with pytest.raises(InputError, match="has more than 1 MiB"):
        Source.of_stream("<stdin>", endless)  # type: ignore[arg-type]
    assert endless.taken == (1 << 20) + 1
    assert Source.of_stream("<stdin>", BytesIO(b"x\r\n")).text == "x\n"


@pytest.mark.parametrize("name", [b"a\x1b[31m.conf", b"caf\xe9.conf", "b\u202ec.conf".encode()])
def test_a_files_name_is_shown_without_what_a_terminal_obeys(tmp_path: Path, name: bytes) -> None:
    """Controls and bytes that are no UTF-8 become `?`, in errors and where a host is named after the file."""
    path = os.fsencode(tmp_path) + b"/" + name
    Path(os.fsdecode(path)).write_text("SwitchName=s0 Nodes=h1", encoding="utf-8")
    source = Source.open(os.fsdecode(path))
    assert source.name.isprintable()
    assert str(source.error("is odd")).isprintable()
    Path(os.fsdecode(path)).unlink()
    with pytest.raises(InputError) as told:
        Source.open(os.fsdecode(path))
    assert str(told.value).isprintable()
