"""Background processes of faults; they live in the lab's pid namespace and die with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nettune.lab.frame import syscalls
from nettune.lab.frame.batch import Step, run_steps
from nettune.lab.frame.ports import set_link
from nettune.lab.frame.process import ProcessId, start_time

COMM = "nettune-lab"


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


def routes_file(node: str) -> Path:
    """The routes that a router was last given by convergence, as `ip -batch` text."""
    return Path("/run/routes", node)


_TASKS: dict[str, Callable[[dict[str, Any]], None]] = {"flap": flap}


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
    return {"pid": pid, "start": start_time(pid) or 0}


def kill(pid: int, start: int) -> None:
    """End a task, if it is still the same process."""
    ProcessId(pid, start).kill()
