"""The process whose life is the lab's life: it owns the namespaces, and killing it frees them all.

`up` starts it with the plan on its standard input. It moves into new user (when not root), mount, pid, network
and UTS namespaces, builds everything below a private /run, and says so on its standard output. Until it reads
`commit` it ends when its input ends, so a killed `up` leaves nothing. It is process 1 of its pid namespace:
the kernel kills every process of the lab with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict

from nettune.lab.frame import syscalls
from nettune.lab.frame.batch import Step, run_steps
from nettune.lab.frame.offload import set_offloads
from nettune.lab.frame.ports import set_link, wait_settled
from nettune.lab.frame.privilege import is_full_root

COMM = "nettune-lab"


class NodePlan(TypedDict):
    """What one namespace gets: sysctls below /proc/sys (path, value, must it exist), ip and tc lines."""

    name: str
    sysctls: list[tuple[str, str, bool]]
    interfaces: list[str]
    ip: str
    tc: str


class Plan(TypedDict):
    """The whole lab as text for the tools."""

    create: str
    nodes: list[NodePlan]
    etc_hosts: str


def say(message: dict[str, Any]) -> None:
    """One JSON line to whoever started this process."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def enter_new_namespaces() -> None:
    """Leave the machine's namespaces; without full root, become root of a new user namespace first."""
    uid, gid = os.getuid(), os.getgid()
    if not is_full_root():
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    syscalls.unshare(
        syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS
    )


def private_mounts() -> None:
    """Own /proc and own empty /run; nothing of it is seen outside."""
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", "/run", "tmpfs", syscalls.MS_NOSUID_NODEV, "mode=755")
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID_NODEV)
    for folder in ("netns", "uts", "tmp"):
        Path("/run", folder).mkdir()


def _write_sysctls(sysctls: list[tuple[str, str, bool]]) -> None:
    for path, value, required in sysctls:
        file = Path("/proc/sys", path)
        if required or file.exists():
            file.write_text(value, encoding="ascii")


def _name_uts(node: str) -> None:
    """Keep a UTS namespace with the node's name at /run/uts/NODE, to be entered with its network."""
    target = Path("/run/uts", node)
    target.touch()
    syscalls.unshare(syscalls.CLONE_NEWUTS)
    socket.sethostname(node)
    syscalls.mount("/proc/self/ns/uts", str(target), None, syscalls.MS_BIND)


def build(plan: Plan) -> None:
    """Make every namespace, link, address, rate limit and route of the plan."""
    Path("/run/hosts").write_text(plan["etc_hosts"], encoding="ascii")
    if Path("/etc/hosts").exists():
        syscalls.mount("/run/hosts", "/etc/hosts", None, syscalls.MS_BIND)
    run_steps([Step(node="", tool="ip", text="link set lo up\n" + plan["create"])])
    for node in plan["nodes"]:
        _name_uts(node["name"])
        with syscalls.network_of(node["name"]):
            _write_sysctls(node["sysctls"])
            set_link("lo", up=True)
            for interface in node["interfaces"]:
                set_offloads(interface, on=False)
                set_link(interface, up=True)
    # All ports are open before the first route is made, else the kernel would take it for one over a dead link.
    steps: list[Step] = []
    for node in plan["nodes"]:
        steps.append(Step(node=node["name"], tool="tc", text=node["tc"]))
        steps.append(Step(node=node["name"], tool="ip", text=node["ip"]))
    run_steps(steps)
    wait_settled([(node["name"], port) for node in plan["nodes"] for port in node["interfaces"]], up=True)


def _reap(_number: int = 0, _frame: FrameType | None = None) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _hold() -> None:
    """Keep the namespaces and reap orphans, for ever."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(devnull, fd)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        _reap()
        signal.sigwait({signal.SIGCHLD})


def _first_process(plan: Plan) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    syscalls.set_process_name(COMM)
    try:
        private_mounts()
        build(plan)
    except Exception as error:  # noqa: BLE001 (whatever it is, the process that asked must hear of it)
        say({"error": str(error) or type(error).__name__})
        return 1
    say({"built": True})
    # From now on nothing here waits for a child of its own: what ends is an orphan of the lab.
    signal.signal(signal.SIGCHLD, _reap)
    if sys.stdin.readline() != "commit\n":
        return 1
    say({"committed": True})
    _hold()
    return 0


def main() -> None:
    """Read the plan, fork the first process of the new pid namespace, say its pid, and leave it behind."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(1)
    plan: Plan = json.loads(line)
    try:
        enter_new_namespaces()
    except OSError as error:
        say({"error": str(error), "errno": error.errno, "refused": "namespaces"})
        sys.exit(1)
    pid = os.fork()
    if pid == 0:
        code = _first_process(plan)
        sys.stdout.flush()
        os._exit(code)
    say({"pid": pid})
