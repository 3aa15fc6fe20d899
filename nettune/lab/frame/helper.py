"""The process that acts inside a running lab: one JSON request a line in, one JSON answer a line out.

It shares the holder's user, mount and pid namespaces and visits the nodes' network namespaces, so that reading
all counters or changing all routes costs one round trip and no process per node. It ends when its input ends.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nettune.lab.frame import nft, syscalls, tasks
from nettune.lab.frame.batch import BatchError, run_steps
from nettune.lab.frame.counters import Counters
from nettune.lab.frame.offload import set_offloads
from nettune.lab.frame.ports import set_link, wait_settled


class UnavailableHereError(Exception):
    """The kernel lacks something; the message names it."""


def _batch(request: dict[str, Any]) -> None:
    run_steps(request["steps"])


def _converge(request: dict[str, Any]) -> None:
    for step in request["steps"]:
        file = tasks.routes_file(step["node"])
        file.parent.mkdir(exist_ok=True)
        file.write_text(step["text"], encoding="ascii")
    run_steps(request["steps"])


def _links(request: dict[str, Any]) -> None:
    for node, iface in request["ports"]:
        with syscalls.network_of(node):
            set_link(iface, up=request["up"])
    wait_settled([*request["ports"], *request["peers"]], up=request["up"])


def _sysctls(request: dict[str, Any]) -> None:
    with syscalls.network_of(request["node"]):
        for path, value, required in request["sysctls"]:
            file = Path("/proc/sys", path)
            if required or file.exists():
                file.write_text(value, encoding="ascii")


def _offloads(request: dict[str, Any]) -> None:
    with syscalls.network_of(request["node"]):
        set_offloads(request["iface"], on=request["on"])


def _hosts(request: dict[str, Any]) -> None:
    # In place: the file is bind-mounted, a renamed one would not be seen.
    Path("/run/hosts").write_text(request["text"], encoding="ascii")


def _drop(request: dict[str, Any]) -> None:
    with syscalls.network_of(request["node"]):
        try:
            nft.add_random_drop(request["table"], request["iface"], request["per_million"])
        except nft.NftError as error:
            raise UnavailableHereError(f"this kernel lacks nf_tables random drop: {error}") from None


def _undrop(request: dict[str, Any]) -> None:
    with syscalls.network_of(request["node"]):
        nft.remove_table(request["table"])


def _dropped(request: dict[str, Any]) -> int:
    with syscalls.network_of(request["node"]):
        return nft.dropped_packets(request["table"])


def _spawn(request: dict[str, Any]) -> dict[str, int]:
    return tasks.spawn(request["task"], request["params"])


def _kill(request: dict[str, Any]) -> None:
    tasks.kill(request["pid"], request["start"])


def _inode(request: dict[str, Any]) -> int:
    return Path("/run/netns", request["node"]).stat().st_ino


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    syscalls.set_process_name(tasks.COMM)
    # It keeps a file open per node.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    counters = Counters()
    operations: dict[str, Callable[[dict[str, Any]], Any]] = {
        "batch": _batch,
        "converge": _converge,
        "counters": lambda _: counters.read(),
        "drop": _drop,
        "dropped": _dropped,
        "hosts": _hosts,
        "inode": _inode,
        "kill": _kill,
        "links": _links,
        "offloads": _offloads,
        "spawn": _spawn,
        "sysctls": _sysctls,
        "undrop": _undrop,
    }
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"result": operations[request["op"]](request)}
        except UnavailableHereError as error:
            answer = {"error": str(error), "unavailable": True}
        except (BatchError, OSError) as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
