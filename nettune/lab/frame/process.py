"""Processes by number and start time, so that a later one with the same number is never taken for them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_END_TIMEOUT_S = 10.0
# A killed lab is gone in a few milliseconds; after this long something that should collect a child is stopped.
_PATIENCE_S = 0.1


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start: int

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return start_time(self.pid) == self.start

    def kill(self) -> bool:
        """End the process, and with the first process of a pid namespace all others of it; whether it is gone.

        Raises:
            PermissionError: it belongs to somebody else.
        """
        if not self.alive:
            return True
        inside = _mounts_of(self.pid)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        begun = time.monotonic()
        while start_time(self.pid) == self.start:
            waited_s = time.monotonic() - begun
            if waited_s > _END_TIMEOUT_S:
                return False
            if waited_s > _PATIENCE_S:
                _continue_all(inside)
            time.sleep(0.002)
        return True


def start_time(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def processes_in(kind: str, inode: int) -> list[int]:
    """Processes whose namespace of this kind (`net`, `mnt`) has this inode number, as far as this user may see."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "ns" / kind).stat().st_ino == inode:
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def comm(pid: int) -> str:
    """The name that a process gave itself; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def send_all(pids: list[int], number: signal.Signals) -> None:
    """Signal processes; those that are gone, or not ours, are passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _mounts_of(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/ns/mnt").stat().st_ino
    except OSError:
        return -1


def _continue_all(mount_inode: int) -> None:
    """Continue stopped processes of a lab.

    `nsenter` waits outside the pid namespace for its command inside and stops itself when that is stopped (Ctrl-Z,
    a duty cycle). While it is stopped it collects nothing, and the kernel keeps the namespace for it.
    """
    send_all(processes_in("mnt", mount_inode), signal.SIGCONT)
