"""`Setting`: one assignment of a variable, and where it stands."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Origin(enum.StrEnum):
    """How a value reaches NCCL, or fails to."""

    PROCESS = "process"
    CONF = "nccl.conf"
    LINES = "env file"
    EXPORT = "export"  # a shell's export, setenv
    COMMAND = "command"  # before a command, -x, -e, --export
    LOCAL = "not exported"  # a shell variable that no child process sees
    UNSET = "unset"
    LOST = "lost"  # a piece of a list that a launcher took apart, a line that is not read

    @property
    def is_script(self) -> bool:
        """Whether it stands in a job script, where the last assignment counts."""
        return self in {Origin.EXPORT, Origin.COMMAND, Origin.LOCAL, Origin.UNSET, Origin.LOST}


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment.

    Attributes:
        name: as written, also with blanks.
        value: as NCCL gets it; with `$` where `expands`.
        file, line: where it stands; for a process the number of its variable.
        expands: the value holds a shell's expansion that cannot be followed.
        cut: nccl.conf kept only the first 1,023 bytes.
        why: of a LOST one, what happened to it.
    """

    name: str
    value: str
    file: str
    line: int
    origin: Origin
    expands: bool = False
    cut: bool = False
    why: str = ""
