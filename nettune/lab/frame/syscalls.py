"""The few system calls that Python 3.11 does not wrap: namespaces, mounts, prctl."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_NOSUID_NODEV = 0x2 | 0x4

_PR_SET_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process into new namespaces; `flags` is an or of CLONE_NEW*."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that the open file `fd` stands for."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system, or change a mount."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        None if data is None else data.encode(),
    )
    _check(result, f"mount {kind or source} on {target}")


def set_process_name(name: str) -> None:
    """Set /proc/PID/comm (at most 15 bytes)."""
    _check(_libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0), "prctl")


@contextlib.contextmanager
def network_of(node: str) -> Iterator[None]:
    """Be in NODE's network namespace for the length of the block (this thread only)."""
    back = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(f"/run/netns/{node}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            setns(there, CLONE_NEWNET)
        finally:
            os.close(there)
        try:
            yield
        finally:
            setns(back, CLONE_NEWNET)
    finally:
        os.close(back)
