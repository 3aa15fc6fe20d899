"""A watchman that kills process groups when this process dies without having been able to."""

from __future__ import annotations

import contextlib
import subprocess
from types import TracebackType
from typing import Self

# A shell, because it starts in a millisecond; it learns of our death by the end of its input.
_SCRIPT = """
groups=
while read -r verb group; do
  case $verb in
    add) groups="$groups $group" ;;
    discard) kept=; for g in $groups; do [ "$g" = "$group" ] || kept="$kept $g"; done; groups=$kept ;;
    end) exit 0 ;;
  esac
done
for g in $groups; do kill -9 -"$g"; done
"""


class Guard:
    """Knows process groups and kills them if this process ends first, even by SIGKILL; a context manager."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Ctrl-C goes to the terminal's group, and must not take the guard with the guarded.
            start_new_session=True,
        )

    def add(self, group: int) -> None:
        """Guard a process group."""
        self._tell(f"add {group}")

    def discard(self, group: int) -> None:
        """Guard it no longer: it has ended, and its number may be given to somebody else."""
        self._tell(f"discard {group}")

    def _tell(self, words: str) -> None:
        assert self._shell.stdin is not None
        # A guard that somebody killed is no reason to fail.
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.write(f"{words}\n".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell("end")
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
