"""Errors that a user can cause or meet; each is one line that says what is wrong and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nettune.wording import UNPRINTABLE

if TYPE_CHECKING:
    from pathlib import Path


_UNPRINTABLE = re.compile(rf"[{UNPRINTABLE}]")


class NettuneError(Exception):
    """Base of every error that ends a command with one line on stderr.

    `details` may hold more (a rank's traceback, a tool's output); it is shown with --debug only.
    """

    exit_code = 2

    def __init__(self, message: str, details: str = "") -> None:
        # A file's or a host's name in it must not give orders to the terminal.
        super().__init__(_UNPRINTABLE.sub("?", " ".join(message.split())))
        self.details = details


class InputError(NettuneError):
    """A file or an option holds something that cannot be used: `FILE:LINE: what`."""

    def __init__(self, what: str, file: Path | str | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(where + what)
        self.file = file
        self.line = line


class UnavailableError(NettuneError):
    """This machine lacks something by name: a program, a kernel feature, a permission, a package."""
