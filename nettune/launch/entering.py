"""Becoming a process on a host: namespaces, name, control group. Standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

_CLONE_NEWUTS = 0x04000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


class EntryError(RuntimeError):
    """A host cannot be entered; one line says why."""


def _call(what: str, status: int) -> None:
    if status != 0:
        raise EntryError(f"cannot {what}: {os.strerror(ctypes.get_errno())}")


def enter(entry: Mapping[str, Any]) -> None:
    """Move this process (it must have one thread) to the host that an `Entry`, as a mapping, describes.

    /sys keeps showing the devices of the network namespace it was mounted in; ask netlink (`ip -j`) or
    /proc/self/net for this host's.

    Raises:
        EntryError: the kernel refused a step.
    """
    procs, netns, hostname = entry.get("cgroup_procs"), entry.get("netns"), entry.get("hostname")
    if procs and os.path.exists(procs):  # noqa: PTH110 - pathlib would be this module's only other import
        try:
            with open(procs, "w", encoding="ascii") as file:  # noqa: PTH123 - as above
                # 0 is "the writer", whatever its number in the pid namespace of the control group.
                file.write("0")
        except OSError as error:
            raise EntryError(f"cannot join the control group {procs}: {error.strerror}") from error
    if netns:
        try:
            fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise EntryError(f"cannot open the network namespace {netns}: {error.strerror}") from error
        try:
            _call(f"enter the network namespace {netns}", _libc.setns(fd, _CLONE_NEWNET))
        finally:
            os.close(fd)
    if hostname:
        _call(f"get a host name of its own ({hostname})", _libc.unshare(_CLONE_NEWUTS))
        try:
            socket.sethostname(hostname)
        except OSError as error:
            raise EntryError(f"cannot set the host name {hostname}: {error.strerror}") from error


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; `parent` is the parent's process id."""
    _call(
        "ask the kernel to end it with its parent",
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0),
    )
    if os.getppid() != parent:
        # The parent ended before the request, so the signal will never come.
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parents end, so that none escapes unseen."""
    _call("adopt orphans", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
