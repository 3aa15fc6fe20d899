"""`Source`: a file that somebody gave, as text with its name; errors about it name file and line."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from nettune.errors import InputError
from nettune.wording import UNPRINTABLE

MAX_BYTES = 256 << 20
"""Larger files are refused: an ibnetdiscover dump of 32,768 ports has about 35 MB."""

HEAD_CHARACTERS = 1 << 16
LONGEST_ERROR = 500
_UNPRINTABLE = re.compile(rf"[{UNPRINTABLE}]")


@dataclass(frozen=True)
class Source:
    """One input.

    Attributes:
        name: as the user wrote it, for errors and provenance; what no terminal shall obey is a `?`.
        text: its whole content.
    """

    name: str
    text: str

    @classmethod
    def open(cls, path: Path | str) -> Source:
        """Read a file; bytes that are no UTF-8 are replaced, a byte order mark is dropped.

        Raises:
            InputError: not there, not a regular file, too large, no permission, binary content.
        """
        name = _UNPRINTABLE.sub("?", str(path))
        try:
            info = Path(path).stat()
            if not stat.S_ISREG(info.st_mode):
                raise InputError("is not a regular file; give a file with a tool's output", file=name)
            if info.st_size > MAX_BYTES:
                raise InputError(
                    f"has {info.st_size >> 20} MiB, at most {MAX_BYTES >> 20} are read", file=name
                )
            with Path(path).open("rb") as file:
                return cls.of_stream(name, file)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=name) from error

    @classmethod
    def of_stream(cls, name: str, stream: IO[bytes]) -> Source:
        """Read a stream to its end, or until it turns out to have none.

        Raises:
            InputError: too large, binary content.
        """
        data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(
                f"has more than {MAX_BYTES >> 20} MiB, which are the most that are read", file=name
            )
        return cls.of_bytes(name, data)

    @classmethod
    def of_bytes(cls, name: str, data: bytes) -> Source:
        """Decode content that was read elsewhere.

        Raises:
            InputError: binary content, nothing at all.
        """
        if b"\0" in data:
            raise InputError("has NUL bytes: it is binary or UTF-16; give it as UTF-8 text", file=name)
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        if not text.strip():
            raise InputError("is empty", file=name)
        return cls(name, text)

    @cached_property
    def head(self) -> str:
        """The beginning, enough to recognise a format by."""
        return self.text[:HEAD_CHARACTERS]

    def error(self, what: str, line: int | None = None) -> InputError:
        """An error about this input, to raise; `line` counts from 1. Very long ones, which quote the input, are cut."""
        if len(what) > LONGEST_ERROR:
            what = f"{what[:LONGEST_ERROR]} ..."
        return InputError(what, file=self.name, line=line)
