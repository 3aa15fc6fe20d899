"""CPU limits through cgroups, version 1 or 2, where root may set them.

A group is named after the lab's holder process (`nettune-PID-STARTTIME-HOST`), so that one whose holder is gone is
known to be stale without any file.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from nettune.errors import UnavailableError
from nettune.lab.frame.privilege import is_full_root
from nettune.lab.frame.process import ProcessId, processes_in, start_time

_PERIOD_US = 50_000
_NAME = re.compile(r"nettune-(\d+)-(\d+)-.+")


def _mounts() -> list[tuple[str, str, set[str]]]:
    """(kind, folder, options) of the mounted cgroup hierarchies."""
    found = []
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind in {"cgroup", "cgroup2"}:
            found.append((kind, folder, set(options.split(","))))
    return found


def cpu_root() -> tuple[int, Path] | None:
    """(version, folder) of the hierarchy that limits CPU time and that this process may change, else None."""
    for kind, folder, options in _mounts():
        path = Path(folder)
        if kind == "cgroup" and "cpu" in options:
            return (1, path) if _may_change(path) else None
        if kind == "cgroup2":
            try:
                controllers = (path / "cgroup.controllers").read_text(encoding="ascii").split()
            except OSError:
                continue
            if "cpu" in controllers and _may_change(path):
                return 2, path
    return None


def _may_change(path: Path) -> bool:
    # root of a user namespace passes for root here, but is an ordinary user for the cgroups of the machine
    return is_full_root() and os.access(path, os.W_OK)


def group_path(holder: ProcessId, host: str) -> Path | None:
    """Where the CPU limit of a host is, or would be; None where there is no such controller."""
    root = cpu_root()
    return None if root is None else root[1] / f"nettune-{holder.pid}-{holder.start}-{host}"


def limit_cpu(holder: ProcessId, host: str, share: float) -> Path:
    """Make the group of a host with `share` of one CPU (0..1); processes are moved in by `move_in`.

    Raises:
        UnavailableError: no cpu controller, or no permission.
    """
    root = cpu_root()
    path = group_path(holder, host)
    if root is None or path is None:
        raise UnavailableError("this machine lacks a cgroup cpu controller that this user may change")
    quota_us = round(share * _PERIOD_US)
    try:
        if root[0] == 2:
            (root[1] / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        path.mkdir(exist_ok=True)
        if root[0] == 1:
            (path / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (path / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
        else:
            (path / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}", encoding="ascii")
    except OSError as error:
        remove_group(path)
        raise UnavailableError(f"the cgroup cpu controller refused a limit: {error.strerror}") from None
    return path


def move_in(path: Path, netns_inode: int) -> int:
    """Move every process of a network namespace into a group; how many. Repeats until no fork was missed."""
    moved: set[int] = set()
    while True:
        found = {pid for pid in processes_in("net", netns_inode) if pid not in moved}
        for pid in found:
            try:
                (path / "cgroup.procs").write_text(str(pid), encoding="ascii")
            except OSError:
                continue  # it has ended
        moved |= found
        if not found:
            return len(moved)


def remove_group(path: Path) -> None:
    """Take a group away; processes still in it go back to the root group."""
    if not path.is_dir():
        return
    deadline = time.monotonic() + 5
    while True:
        try:
            for pid in (path / "cgroup.procs").read_text(encoding="ascii").split():
                try:
                    (path.parent / "cgroup.procs").write_text(pid, encoding="ascii")
                except OSError:
                    continue
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            # A killed process leaves its group a moment after it has left /proc.
            if time.monotonic() > deadline:
                raise UnavailableError(f"cannot remove the cgroup {path}: it is still in use") from None
            time.sleep(0.01)


def remove_stale_cgroups() -> None:
    """Remove the groups of labs whose holder is gone."""
    root = cpu_root()
    if root is None:
        return
    for path in root[1].glob("nettune-*"):
        named = _NAME.fullmatch(path.name)
        if named and start_time(int(named[1])) != int(named[2]):
            remove_group(path)
