"""Starting a process that can be ended with all that it starts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from nettune.errors import UnavailableError


def start(
    argv: Sequence[str], *, stdin: int, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that its process group is its id; its pipes are not buffered.

    Args:
        argv: the program and its arguments.
        stdin: descriptor, or a constant of `subprocess`; so are `stdout` and `stderr`.
        stdout: as above.
        stderr: as above.

    Raises:
        UnavailableError: the program is missing or cannot be run.
    """
    try:
        return subprocess.Popen(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, start_new_session=True
        )
    except OSError as error:
        raise UnavailableError(f"cannot run {argv[0]}: {error.strerror}") from error
