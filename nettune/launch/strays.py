"""Finding and ending processes by a mark in their environment, whatever group or session they fled to."""

from __future__ import annotations

import os
import signal
from pathlib import Path

MARK = "NETTUNE_MARK"
"""Environment variable that marks a process and all that it starts."""


def marked(mark: str) -> list[int]:
    """Process ids, other than our own, that carry `MARK=mark`; needs the /proc of our own pid namespace.

    An environment that we may not read belongs to somebody else and is passed over.
    """
    own = str(os.getpid())
    try:
        if str(Path("/proc/self").readlink()) != own:
            # Another pid namespace's /proc: its numbers mean other processes here.
            return []
        pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and entry.name != own]
    except OSError:
        return []
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in pids:
        try:
            environment = Path("/proc", pid, "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(pid))
    return found


def end_marked(mark: str) -> int:
    """Kill every marked process and return how many there were.

    Repeats until none is found, because a process may fork between the look and the kill.
    """
    ended: set[int] = set()
    for _ in range(20):
        found = [pid for pid in marked(mark) if pid not in ended]
        if not found:
            break
        for pid in found:
            ended.add(pid)
            end_process(pid)
    return len(ended)


def end_process(pid: int) -> None:
    """Kill one process; one that is gone already is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def end_group(pgid: int) -> None:
    """Kill a process group; one that is gone already is fine."""
    try:
        os.killpg(pgid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
