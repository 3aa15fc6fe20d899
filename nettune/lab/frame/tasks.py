"""Background processes of faults; they live in the lab's pid namespace and die with it."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nettune.lab.frame import syscalls
from nettune.lab.frame.batch import Step, run_steps

COMM = "nettune-lab"

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def flap(params: dict[str, Any]) -> None:
    """Take a port down for `down_s` every `every_s`; its return brings the routes back that went with it."""
    node, iface = params["node"], params["iface"]
    due = time.monotonic()
    while True:
        with syscalls.network_of(node):
            set_link(iface, up=False)
            time.sleep(params["down_s"])
            set_link(iface, up=True)
        routes = routes_file(node)
        if routes.exists():
            text = routes.read_text(encoding="ascii")
            run_steps([Step(node=node, tool="ip", text=text, force=True)])
        due = max(due + params["every_s"], time.monotonic())
        time.sleep(due - time.monotonic())


def set_link(iface: str, *, up: bool) -> None:
    """Open or shut an interface of the current network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack("16sh22x", iface.encode(), 0))
        flags = struct.unpack_from("16sh", answer)[1]
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh22x", iface.encode(), flags))


def routes_file(node: str) -> Path:
    """The routes that a router was last given by convergence, as `ip -batch` text."""
    return Path("/run/routes", node)


def duty_cycle(params: dict[str, Any]) -> None:
    """Let the processes of a node run for `share` of the time only, by stopping and continuing them."""
    node, share, period_s = params["node"], params["share"], params["period_s"]
    stopped_s = period_s * (1 - share)
    while True:
        begun = time.monotonic()
        pids = processes_of(node)
        _signal(pids, signal.SIGSTOP)
        time.sleep(stopped_s)
        _signal(pids, signal.SIGCONT)
        # What the machine took for itself counts as running time, or the share would sink under load.
        time.sleep(max(begun + period_s - time.monotonic(), period_s * share * 0.5))


def processes_of(node: str) -> list[int]:
    """Processes in the node's network namespace, but for the lab's own."""
    inode = Path("/run/netns", node).stat().st_ino
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if (folder / "ns/net").stat().st_ino == inode and _comm(folder) != COMM:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _comm(folder: Path) -> str:
    return (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def resume(node: str) -> None:
    """Continue whatever a killed duty cycle left stopped."""
    _signal(processes_of(node), signal.SIGCONT)


_TASKS: dict[str, Callable[[dict[str, Any]], None]] = {"flap": flap, "duty-cycle": duty_cycle}


def spawn(task: str, params: dict[str, Any]) -> dict[str, int]:
    """Start a task as an orphan of the lab's first process; its pid and start time inside the lab."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.setsid()
        child = os.fork()
        if child != 0:
            os.write(writer, str(child).encode())
            os._exit(0)
        devnull = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(devnull, fd)
        os.closerange(3, 256)
        syscalls.set_process_name(COMM)
        try:
            _TASKS[task](params)
        finally:
            os._exit(1)
    os.close(writer)
    os.waitpid(middle, 0)
    with os.fdopen(reader) as pipe:
        pid = int(pipe.read())
    return {"pid": pid, "start": _start_time(pid)}


def kill(pid: int, start: int) -> None:
    """End a task, if it is still the same process."""
    if _start_time(pid) == start:
        os.kill(pid, signal.SIGKILL)


def _start_time(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return -1
    return int(text.rpartition(")")[2].split()[19])
